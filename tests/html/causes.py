"""How long it takes from opening a page to the cause that was planted in its traces, and to its source line."""

import json
import pathlib
import time

from selenium.webdriver.common.by import By

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Sets whose cause is known (`tests/data/acceptance.json`), and the line of code that a reader has to come to; none where
# the traces have no stacks.
SETS = {
    "data/samples/gpu_ddp8": "linear.py:130",
    "data/samples/gloo_ddp4": "gen_ddp.py:42",
    "data/samples/gpu_single": None,
    "tests/data/causes/data_loader.json.gz": None,
    "tests/data/causes/host_python.json.gz": "record_causes.py:176",
    "tests/data/causes/host_lock.json.gz": None,
    "tests/data/causes/copy_pageable.json.gz": None,
    "tests/data/causes/step_outlier.json.gz": None,
}
LONGEST_S = 30


def known(trace):
    """What is known of a set."""
    for entry in json.loads((ROOT / "tests/data/acceptance.json").read_text()):
        if entry["trace"] == trace:
            return entry
    raise SystemExit(f"{trace} is not in tests/data/acceptance.json")


def find_cause(page, trace, line):
    """Opens the page, reads the verdict, and follows the first cause to its place and line. Clicks and seconds."""
    answer = known(trace)
    began = time.time()
    page.open("wide")
    first = page.driver.find_element(By.ID, "cause-1")
    kind = first.find_element(By.CSS_SELECTOR, ".marks .mono").text
    text = "\n".join(page.driver.find_element(By.ID, of).text for of in ("verdict", "findings"))
    page.fail_unless(kind == answer["first"], f"the first cause is {kind}, planted is {answer['first']}")
    said = [words.replace("`", "") for words in answer.get("says", [])]
    page.fail_unless(all(words in text for words in said), f"the page does not say {said}: {text[:300]!r}")
    clicks = 0
    show = first.find_element(By.CSS_SELECTOR, "button.show-place")
    page.fail_unless(show.is_displayed(), "the first cause has no place on the timeline")
    if show.is_displayed():
        show.click()
        clicks += 1
        time.sleep(0.1)
    links = page.driver.find_elements(By.CSS_SELECTOR, "#timeline .chosen a.source")
    if line:
        # the folder of the sources is typed once, and remembered by the browser
        root = page.driver.find_element(By.ID, "source-root")
        root.clear()
        root.send_keys("/src")
        hrefs = [a.get_attribute("href") or "" for a in links if line in a.text]
        page.fail_unless(any(h.startswith("vscode://file/") for h in hrefs), f"no link to {line} among {[a.text for a in links]}")
        clicks += 1
    took = time.time() - began
    page.fail_unless(took < LONGEST_S, f"the cause was found after {took:.0f} s")
    return kind, clicks, took, [a.text for a in links]
