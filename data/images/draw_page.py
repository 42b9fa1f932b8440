#!/usr/bin/env python3
"""Draws report_html.png, the README's picture of the page, from the page of the 8-rank sample:

    python3 data/images/draw_page.py --hta target/release/hta            # draws it
    python3 data/images/draw_page.py --hta target/release/hta --check    # fails where it is stale

Beside the picture, report_html.txt has the words that it shows, by which `--check` tells whether the page of today is the
same. Needs Chromium with its driver (Debian: `chromium chromium-driver`) and selenium (PyPI).
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE, WORDS = ROOT / "data/images/report_html.png", ROOT / "data/images/report_html.txt"
SAMPLE = "data/samples/gpu_ddp8"
WIDTH, HEIGHT = 1050, 1490  # pixels
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb",
         "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND"]
# The lines of text that begin inside the window, in the order of the page.
SHOWN = """
    const shown = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent.trim().replace(/\\s+/g, " ");
        const parent = walker.currentNode.parentElement;
        if (!text || ["SCRIPT", "STYLE", "OPTION"].includes(parent.tagName)) continue;
        const range = document.createRange();
        range.selectNodeContents(walker.currentNode);
        const box = range.getBoundingClientRect();
        if (box.width > 0 && box.top < arguments[0]) shown.push(text);
    }
    return shown;
"""


def drawn(page, picture):
    """The words that the page shows in a window, of which a picture is taken."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in [*FLAGS, f"--window-size={WIDTH},{HEIGHT}"]:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                               {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False})
        driver.get(page.as_uri())
        driver.implicitly_wait(5)
        driver.find_element("css selector", "svg")
        words = driver.execute_script(SHOWN, HEIGHT)
        driver.save_screenshot(str(picture))
        return words
    finally:
        driver.quit()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hta", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--check", action="store_true", help="draw nothing; fail if the picture is stale")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # The name of the folder stands in the head of the page.
        out = pathlib.Path(folder) / "hta-out"
        command = [args.hta.resolve(), "analyze", SAMPLE, "--out", out]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        words = drawn(out / "report.html", pathlib.Path(folder) / "page.png" if args.check else PICTURE)
    text = "\n".join(words) + "\n"
    if not args.check:
        WORDS.write_text(text)
        return
    kept = WORDS.read_text()
    if text != kept:
        gone = [line for line in kept.split("\n") if line not in words]
        new = [line for line in words if line not in kept.split("\n")]
        sys.exit(f"stale: {PICTURE.relative_to(ROOT)} (data/images/draw_page.py draws it)\n"
                 f"only in the picture: {gone[:9]}\nonly on the page: {new[:9]}")


if __name__ == "__main__":
    main()
