"""What a page is for those who see colours otherwise, read it with a screen reader, or use no pointer."""

import itertools
import re
import time

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import colours

MAIN = ["compute", "communication", "memory", "idle", "late"]
KINDS = [f"kind-{i}" for i in range(10)]
# CIEDE2000 below which two colours of one chart are too much alike: between the main ones, and between any two
MAIN_DIFFERENCE, DIFFERENCE = 11, 8

TEXTS = r"""
const seen = new Map();
const rgba = (text) => { const v = text.match(/[\d.]+/g).map(Number); return text.startsWith("color(srgb") ? [...v.slice(0, 3).map((c) => c * 255), v[3] ?? 1] : [v[0], v[1], v[2], v[3] ?? 1]; };
const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
const groundOf = (element) => {
  const stack = [];
  for (let e = element; e; e = e.parentElement) {
    const tint = rgba(getComputedStyle(e).backgroundColor);
    if (tint[3] > 0) stack.push(tint);
    if (tint[3] === 1) break;
  }
  return stack.reverse().reduce((below, tint) => over(tint, below), [255, 255, 255]);
};
// a text in a bar of a chart stands on the bar
const groundInChart = (text) => {
  const panel = groundOf(text.closest("svg").parentElement);
  const bar = text.closest(".bartext-inside") && text.closest(".point").querySelector("path");
  if (!bar) return panel;
  const { fill, fillOpacity, opacity } = getComputedStyle(bar);
  const tint = rgba(fill);
  return over([...tint.slice(0, 3), tint[3] * fillOpacity * opacity], panel);
};
const add = (ink, ground, style, text) => {
  let alpha = ink[3];
  const shown = over([...ink.slice(0, 3), alpha], ground).map(Math.round);
  const key = `${shown} ${ground.map(Math.round)} ${style.fontSize} ${style.fontWeight}`;
  if (!seen.has(key)) seen.set(key, [shown, ground, parseFloat(style.fontSize), Number(style.fontWeight), text.slice(0, 40)]);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const e = node.parentElement;
  if (!node.textContent.trim() || e.closest("script, style, noscript, .modebar")) continue;
  const box = e.getBoundingClientRect();
  if (box.width === 0 || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
  const style = getComputedStyle(e);
  add(rgba(e.closest("svg") ? style.fill : style.color), e.closest("svg") ? groundInChart(e) : groundOf(e), style, node.textContent.trim());
}
for (const e of document.querySelectorAll("thead button")) if (e.checkVisibility()) { const style = getComputedStyle(e, "::after"); add(rgba(style.color), groundOf(e), style, "sort mark"); }
for (const e of document.querySelectorAll("input")) if (e.checkVisibility()) { const style = getComputedStyle(e, "::placeholder"); add(rgba(style.color), groundOf(e), style, "placeholder"); }
return [...seen.values()];
"""

CLICKABLE = r"""
[...document.querySelectorAll("body *")].filter((e) => {
  const on = getEventListeners(e);
  return (on.click || on.pointerdown || on.pointerup || on.dblclick) && e.checkVisibility();
}).filter((e) => !e.closest("button, a[href], input, select, summary, [tabindex='0']") && !(e.closest("[role=tree]") || document.createElement("i")).querySelector("[tabindex='0']")).map((e) => `${e.tagName}.${e.className}`)
"""


def variables(page, names):
    return page.js("""const style = getComputedStyle(document.documentElement);
        return Object.fromEntries(arguments[0].map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));""", names)


def texts_are_read(page, theme):
    """Every text has the contrast of WCAG AA to what it stands on."""
    for ink, ground, size, weight, text in page.js(TEXTS):
        needed = 3 if size >= 24 or (size >= 18.66 and weight >= 700) else 4.5
        ratio = colours.contrast([v / 255 for v in ink], [v / 255 for v in ground])
        page.fail_unless(ratio >= needed, f"{theme}: {text!r} has a contrast of {ratio:.2f}: {ink} on {[round(v) for v in ground]}")


def colours_are_told_apart(page, theme):
    """Colours of charts stand out from the panel, and differ from each other for every colour vision."""
    tints = {name: colours.channels(tint) for name, tint in variables(page, MAIN + KINDS + ["panel", "edge", "focus", "low"]).items()}
    for name in MAIN + KINDS + ["edge", "focus"]:
        ratio = colours.contrast(tints[name], tints["panel"])
        page.fail_unless(ratio >= 3, f"{theme}: --{name} has a contrast of {ratio:.2f} to the panel")
        inked = max(colours.contrast(tints[name], ink) for ink in ((0, 0, 0), (1, 1, 1)))
        page.fail_unless(inked >= 4.5, f"{theme}: no text can be read on --{name}: {inked:.2f}")
    for a, b in itertools.combinations(MAIN + KINDS, 2):
        needed = MAIN_DIFFERENCE if a in MAIN and b in MAIN else DIFFERENCE
        found, vision = colours.least_difference(tints[a], tints[b])
        page.fail_unless(found >= needed, f"{theme}: --{a} and --{b} differ by {found:.1f} with {vision} vision")


def in_every_theme(page):
    """Contrast and colours, in both themes."""
    select = Select(page.driver.find_element(By.ID, "theme"))
    for theme in ("light", "dark"):
        select.select_by_value(theme)
        time.sleep(0.2)
        texts_are_read(page, theme)
        colours_are_told_apart(page, theme)
    select.select_by_value("light")


def named(page):
    """Roles and names of what a screen reader finds."""
    nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    value = lambda node, key: node.get(key, {}).get("value", "")
    return [(value(n, "role"), value(n, "name")) for n in nodes if not n.get("ignored")]


def charts_are_told(page):
    """Timelines, charts and flame graphs have names with what they show: their numbers."""
    names = [name for role, name in named(page) if role in ("application", "img", "image")]
    wanted = page.js("""return [...document.querySelectorAll(".chart, canvas.lanes, canvas.flame")].filter((e) => e.checkVisibility()).map((e) => e.getAttribute("aria-label"))""")
    missing = [w for w in wanted if w not in names]
    page.fail_unless(not missing, f"charts that a screen reader does not find: {missing[:2]}")
    for name in wanted:
        page.fail_unless(re.search(r"\d", name), f"a chart without numbers in its name: {name!r}")
    grids = [page.grid("breakdown", "account") or page.grid("breakdown", "lanes"), page.grid("timeline", "steps")]
    if grids[0]:
        # the largest compute of a lane stands in the name of the first chart of the breakdown
        largest = max(c / max(w, 1) for c, w in zip(grids[0]["compute_ns"], grids[0]["windows"]))
        chart = page.js("return document.querySelector('#breakdown .chart').getAttribute('aria-label')")
        texts = {f"= {int(largest + d):,} ns" for d in (0, 0.5)}
        page.fail_unless(any(t in chart for t in texts), f"{texts} is not in the name of the chart: {chart!r}")
    unnamed = [role for role, name in named(page) if role in ("button", "link", "combobox", "searchbox", "textbox", "application", "img") and not name.strip()]
    page.fail_unless(not unnamed, f"controls without a name: {unnamed[:5]}")


def clickable_by_keys(page):
    """What follows a pointer is, or is in, something that a keyboard reaches."""
    found = page.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": CLICKABLE, "includeCommandLineAPI": True, "returnByValue": True})
    left = found["result"].get("value", found)
    page.fail_unless(left == [], f"a pointer alone can use {left}")


def every_stop(page):
    """The tab key reaches every control that is shown, and each shows that it has the focus."""
    page.js("document.activeElement.blur(); window.scrollTo(0, 0)")
    wanted = page.js("""return [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
        .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled).map((e, i) => { e.dataset.stop = i; return i; })""")
    body = page.driver.find_element(By.TAG_NAME, "body")
    reached, hidden = set(), []
    for _ in range(len(wanted) + 20):
        body = page.driver.switch_to.active_element
        body.send_keys(Keys.TAB)
        stop, isSeen, name = page.js("""const e = document.activeElement; const s = getComputedStyle(e);
            return [e.dataset.stop ?? null, s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0, e.tagName + "." + e.className];""")
        if stop is not None:
            reached.add(int(stop))
            if not isSeen:
                hidden.append(name)
        if len(reached) == len(wanted):
            break
    left = [page.js("const e = document.querySelector(`[data-stop='${arguments[0]}']`); return e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 30)", i) for i in wanted if i not in reached]
    page.fail_unless(not left, f"the tab key does not reach {left[:4]}")
    page.fail_unless(not hidden, f"no sign of the focus on {hidden[:4]}")


def used_by_keys(page):
    """A cause is followed to its place, a step chosen on a chart, and a table opened, by keys alone."""
    active = lambda: page.driver.switch_to.active_element
    focus = lambda selector: page.js("const e = document.querySelector(arguments[0]); if (e) { e.scrollIntoView({block: 'center'}); e.focus(); } return e !== null", selector)
    if focus("button.show-place:not([hidden])"):
        active().send_keys(Keys.ENTER)
        time.sleep(0.3)
        page.fail_unless(active().get_attribute("class") == "lanes", "Enter on a cause does not lead to the timeline")
        told = lambda: page.js("return document.querySelector('#timeline .chosen').textContent")
        before = told()
        active().send_keys(Keys.ESCAPE, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        time.sleep(0.2)
        page.fail_unless(told() != before and " ns" in told(), "arrows on the timeline choose nothing")
    charts = page.driver.find_elements(By.CSS_SELECTOR, "#breakdown .chart:not([hidden])")
    if charts:
        page.js("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", charts[-1])
        charts[-1].send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        time.sleep(0.2)
        said = page.js("return arguments[0].nextElementSibling.textContent", charts[-1])
        page.fail_unless(" ns" in said, f"arrows on a chart tell {said!r}")
        if len(charts) > 1:
            charts[-1].send_keys(Keys.ENTER)
            time.sleep(0.3)
            page.fail_unless("alone:" in page.driver.find_element(By.ID, "breakdown").text, "Enter on a chart of steps chooses none")
            page.fail_unless("alone:" in page.driver.find_element(By.ID, "utilization").text or not page.grid("utilization", "steps"), "the utilization does not follow the step")
            page.all_steps()
        series = "return arguments[0].data.map((s) => s.visible)"
        charts[0].send_keys("1")
        time.sleep(0.2)
        page.fail_unless("legendonly" in page.js(series, charts[0]), "a digit does not hide a series")
        charts[0].send_keys("1")
    if focus(".toggles button"):
        active().send_keys(Keys.ENTER)
        page.fail_unless(active().get_attribute("aria-expanded") == "true", "Enter does not open a table")
        active().send_keys(Keys.ENTER)


def check(page):
    charts_are_told(page)
    clickable_by_keys(page)
    used_by_keys(page)
