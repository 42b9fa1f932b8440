"""The page on paper: light, as wide as the sheet, with nothing cut off; and as before on the screen afterwards."""

import base64
import pathlib
import shutil
import subprocess
import tempfile
import time

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

WIDE = r"""
const most = 681;
const left = document.body.getBoundingClientRect().left;
return [...document.querySelectorAll("main *, header *, footer *")].filter((e) => e.checkVisibility() && !e.closest("svg, .unseen") && e.getBoundingClientRect().right - left > most)
  .slice(0, 4).map((e) => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right - left)}`);
"""
# what shows less than it holds
CUT = r"""
return [...document.querySelectorAll("main *")].filter((e) => e.checkVisibility() && !e.closest("svg, .chart, .unseen") && getComputedStyle(e).overflowX !== "visible"
  && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)).slice(0, 4).map((e) => `${e.tagName}.${e.className} ${e.scrollWidth}x${e.scrollHeight} in ${e.clientWidth}x${e.clientHeight}`);
"""
LIGHT = r"""
return [...document.querySelectorAll("canvas.lanes, canvas.flame")].map((c) => {
  const copy = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const to = copy.getContext("2d");
  to.drawImage(c, 1, 1, 1, 1, 0, 0, 1, 1);
  return [[...to.getImageData(0, 0, 1, 1).data].slice(0, 3), c.getBoundingClientRect().width];
});
"""


def pages_of(pdf, shots, name):
    """Mean lightness of each page, from 0 to 255, where there is a program that draws PDF; pictures beside it."""
    if shutil.which("pdftoppm") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "page.pdf"
        path.write_bytes(pdf)
        subprocess.run(["pdftoppm", "-r", "70", "-png", path, shots / f"{name}_paper"], check=True)
        subprocess.run(["pdftoppm", "-r", "12", "-gray", path, f"{folder}/small"], check=True)
        pictures = sorted(pathlib.Path(folder).glob("small*.pgm"))
        pixels = [p.read_bytes().split(b"\n", 3)[3] for p in pictures]
        return [sum(p) / len(p) for p in pixels]


def check(page, name):
    """Prints the page as it is on a dark screen, with a table opened."""
    theme = Select(page.driver.find_element(By.ID, "theme"))
    theme.select_by_value("dark")
    for toggle in page.driver.find_elements(By.CSS_SELECTOR, ".toggles button")[:3]:
        page.js("arguments[0].click()", toggle)
    on_screen = page.js("return document.querySelector('main').getBoundingClientRect().width")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    time.sleep(0.3)
    for tint, width in page.js(LIGHT):
        page.fail_unless(min(tint) > 230 and 400 < width <= 681, f"on paper a canvas is {tint} and {width} px wide")
    page.fail_unless(not page.js(WIDE), f"wider than paper: {page.js(WIDE)}")
    page.fail_unless(not page.js(CUT), f"cut off on paper: {page.js(CUT)}")
    page.js("window.dispatchEvent(new Event('afterprint'))")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": False, "paperWidth": 8.27, "paperHeight": 11.69})["data"])
    for number, light in enumerate(pages_of(pdf, page.shots, name), 1):
        page.fail_unless(light > 200, f"page {number} on paper is dark: {light:.0f}")
    time.sleep(0.2)
    page.fail_unless(page.js("return document.documentElement.dataset.theme") == "dark", "after printing the page is no longer dark")
    page.fail_unless(page.js("return document.querySelector('main').getBoundingClientRect().width") == on_screen, "after printing the page has another width")
    theme.select_by_value("light")
    for toggle in page.driver.find_elements(By.CSS_SELECTOR, ".toggles button[aria-expanded=true]"):
        page.js("arguments[0].click()", toggle)
