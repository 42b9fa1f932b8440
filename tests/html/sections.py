"""What a reader does in the sections on kernels, modules, the flame graph, and with a baseline: used by check.py."""

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select


def in_words(ns):
    """A time as the page shows it."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            v = ns / size
            return f"{v:.{2 if v < 10 else 1 if v < 100 else 0}f} {unit}"
    return f"{ns} ns"


def kernels_tell_what_they_are(page):
    """The lines of the section are those of its data; choosing a category leaves its kernels, and the roofs stand where they belong."""
    grid = page.grid("kernels", "kernels")
    if not grid:
        return
    read = "return [...document.querySelectorAll('#kernels .figures tbody tr')].map((r) => [...r.children].map((c) => c.textContent))"
    order = sorted(range(len(grid["name"])), key=lambda i: -grid["sum_ns"][i])
    lines = page.js(read)
    page.fail_unless(len(lines) == min(10, len(order)), f"{len(lines)} lines of {len(order)} kernels")
    for line, i in zip(lines, order):
        page.fail_unless(line[1] == grid["category"][i], f"{line} is not of the category {grid['category'][i]!r}")
        # white space of a name is shown as one space
        op = None if grid["main_op"][i] is None else " ".join(grid["main_op"][i].split())
        page.fail_unless(op is None or line[2].startswith(op[:30]), f"{line} is not launched by {op!r}")
        rate = grid["tflops_per_s"][i]
        page.fail_unless(rate is None or "TFLOP/s" in line[5], f"{line} has no rate, but {rate} TFLOP/s")
        roof = grid["bound"][i]
        page.fail_unless(roof is None or roof.split()[0] in line[6], f"{line} does not name the roof {roof!r}")
        # rates above the roof are told to be wrong
        is_over = (grid["roofline_pct"][i] or 0) > 105
        page.fail_unless(is_over == ("overestimated" in line[6]), f"{line} reaches {grid['roofline_pct'][i]} of attainable")
    select = Select(page.driver.find_element(By.CSS_SELECTOR, "#kernels .body > .controls select"))
    for option in [o.get_attribute("value") for o in select.options if o.get_attribute("value").startswith("category ")][:3]:
        select.select_by_value(option)
        page.fail_unless(all(line[1] == option.removeprefix("category ") for line in page.js(read)), f"lines of another category than {option!r}")
    select.select_by_index(0)
    known = [i for i in order if (grid["flops_per_byte"][i] or 0) > 0 and (grid["tflops_per_s"][i] or 0) > 0]
    charts = page.js("return [...document.querySelectorAll('#kernels .chart')].map((c) => c.getAttribute('aria-label'))")
    told = [c for c in charts if c.startswith("Roofline")]
    page.fail_unless(bool(told) == bool(known), f"{len(known)} kernels have a place below the roofs, and the charts are {charts}")
    if told and len(known) > 1:  # of one kernel there are only the numbers
        points = page.js("""const c = [...document.querySelectorAll('#kernels .chart')].find((c) => c.getAttribute('aria-label').startsWith('Roofline'));
            return c.data.filter((t) => t.mode === 'markers').flatMap((t) => t.x.map((x, i) => [x, t.y[i]]));""")
        wanted = sorted([grid["flops_per_byte"][i], grid["tflops_per_s"][i]] for i in known)
        page.fail_unless(sorted(points) == wanted, f"points of the roofline: {points[:2]} for {wanted[:2]}")
    elif not told:
        text = page.driver.find_element(By.ID, "kernels").text
        page.fail_unless("Cannot tell" in text, "without a roofline nothing says why")


def modules_fold_and_are_found(page):
    """The tree of modules unfolds by pointer and keys, is searched, and has the times of its data, also of a single rank."""
    grid = page.grid("modules", "tree") if page.has_section("modules") else None
    if not grid:
        return
    rows = lambda: page.js("return [...document.querySelectorAll('.tree [role=treeitem]')].map((e) => [Number(e.dataset.row), e.querySelector('.tree-name').lastChild.textContent, e.title, e.getAttribute('aria-level')])")
    click = lambda text: [page.js("arguments[0].click()", b) for b in page.driver.find_elements(By.CSS_SELECTOR, "#modules .body > .controls button") if b.text == text]
    of_all = [i for i, rank in enumerate(grid["rank"]) if rank is None]
    click("unfold all")
    page.fail_unless(sorted(r[0] for r in rows()) == of_all, "unfolding all does not show every module")
    level = {}
    for i in of_all:
        level[i] = 1 if grid["parent"][i] is None else level[grid["parent"][i]] + 1
    for i, name, title, at in rows():
        page.fail_unless(name == grid["name"][i] and int(at) == level[i], f"row {i} is {name!r} at level {at}")
        forward = grid["gpu_ns"][i] if any(grid["gpu_ns"]) or any(v or 0 for v in grid["bwd_gpu_ns"]) else grid["host_ns"][i]
        page.fail_unless(f"{forward:,} ns forward" in title, f"{title!r} does not have {forward:,} ns")
    click("fold all")
    roots = [i for i in of_all if grid["parent"][i] is None]
    page.fail_unless(sorted(r[0] for r in rows()) == roots, "folding all leaves more than the outermost modules")
    first = rows()[0][0]
    inside = [i for i in of_all if grid["parent"][i] == first]
    page.driver.find_element(By.CSS_SELECTOR, ".tree [tabindex='0']").send_keys(Keys.ARROW_RIGHT)
    page.fail_unless({r[0] for r in rows()} == set(roots) | set(inside), "the right arrow does not unfold the first module")
    if inside:
        page.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        focused = int(page.driver.switch_to.active_element.get_attribute("data-row"))
        page.fail_unless(focused in inside, f"the down arrow leads to row {focused}")
        page.driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.fail_unless(sorted(r[0] for r in rows()) == roots, "the left arrow does not fold the module")
    search = page.driver.find_element(By.CSS_SELECTOR, "#modules input[type=search]")
    wanted = grid["name"][of_all[-1]]
    search.send_keys(wanted)
    found = [r[0] for r in rows() if wanted.lower() in r[1].lower()]
    page.fail_unless(sorted(found) == [i for i in of_all if wanted.lower() in grid["name"][i].lower()], f"a search for {wanted!r} finds {found}")
    search.clear()
    search.send_keys("no such module", Keys.BACKSPACE)
    page.fail_unless(not rows(), "a search for nothing finds modules")
    search.clear()
    search.send_keys(" ", Keys.BACKSPACE)
    for select in page.driver.find_elements(By.CSS_SELECTOR, "#modules .body > .controls select")[1:]:
        choice = Select(select)
        ranks = [r for r in dict.fromkeys(grid["rank"]) if r is not None]
        page.fail_unless([o.text for o in choice.options] == ["all", *map(str, ranks)], "the ranks of the tree are not those of its data")
        choice.select_by_index(len(choice.options) - 1)
        page.fail_unless({grid["rank"][r[0]] for r in rows()} == {ranks[-1]}, "the tree is not of the rank that was chosen")
        choice.select_by_index(0)


def flame_graph_zooms(page):
    """A click fills the width with a bar and what is inside it; one on the line above leads out; a rank can be chosen."""
    found = page.driver.find_elements(By.CSS_SELECTOR, "canvas.flame")
    if not found:
        return
    canvas = found[0]
    at = lambda x, level: page.js("""const c = arguments[0], b = c.getBoundingClientRect();
        c.dispatchEvent(new MouseEvent("click", { clientX: b.left + arguments[1], clientY: b.top + 18 * arguments[2] + 9, bubbles: true }));""", canvas, x, level)
    back = [b for b in page.driver.find_elements(By.CSS_SELECTOR, "#flame .body > .controls button") if b.text == "whole graph"][0]
    page.js("arguments[0].click()", back)
    name = lambda: page.driver.find_element(By.CSS_SELECTOR, ".flame-chosen b").text
    at(2, 1)
    outer = name()
    page.fail_unless(back.is_enabled(), "a click does not fill the width")
    at(canvas.size["width"] - 3, 1)
    page.fail_unless(not back.is_enabled() and name() == outer, "a click on what fills the width does not lead out")
    at(2, 1)
    at(2, 2)
    inner = name()
    at(canvas.size["width"] // 2, 0)
    page.fail_unless(inner == outer or name() == outer, f"the line above {inner!r} leads to {name()!r} instead of {outer!r}")
    page.js("arguments[0].click()", back)
    page.fail_unless(not back.is_enabled(), "the whole graph is not shown again")
    grid = page.grid("flame", "tree")
    for select in page.driver.find_elements(By.CSS_SELECTOR, "#flame .body > .controls select")[1:]:
        choice = Select(select)
        choice.select_by_index(len(choice.options) - 1)
        rank = int(choice.options[-1].get_attribute("value"))
        idle = "[threads without operators]"
        # host time of the rank, without that of threads that only wait
        rows = [i for i, r in enumerate(grid["rank"]) if r == rank]
        is_idle = {}
        for i in rows:
            is_idle[i] = grid["name"][i] == idle or (grid["parent"][i] is not None and is_idle[grid["parent"][i]])
        whole = sum(grid["host_ns"][i] for i in rows if not is_idle[i])
        label = canvas.get_attribute("aria-label")
        page.fail_unless(f"time on the host: {in_words(whole)}" in label, f"the flame graph of rank {rank} says {label!r} for {whole} ns")
        choice.select_by_index(0)


def figures_stand_beside_those_of_the_baseline(page):
    """With a baseline every number of a table that both runs have has the other's below it; the tables can be sorted by change."""
    has_baseline = page.js("return JSON.parse(document.getElementById('data').textContent).against !== null")
    was = page.driver.find_elements(By.CSS_SELECTOR, ".table .was")
    page.fail_unless(has_baseline or not was, "figures of a baseline without one")
    if not has_baseline:
        return
    wrong = page.js("""
        const bad = [];
        let compared = 0;
        for (const table of document.querySelectorAll(".table")) {
          const sort = [...table.querySelectorAll("select")].find((s) => [...s.options].some((o) => o.value === "change"));
          const was = table.querySelectorAll("tbody .was").length;
          if (!sort && was) bad.push("figures of the baseline that cannot be sorted by change");
          if (!sort) continue;
          compared += 1;
          if (!was) bad.push("a table that is compared, without figures: " + table.textContent.slice(0, 60));
          if (!/below each number/.test(table.querySelector("caption").textContent)) bad.push("a caption that does not say what stands below the numbers");
          sort.value = "change";
          sort.dispatchEvent(new Event("change"));
          const heads = [...table.querySelectorAll("thead th")];
          const at = heads.findIndex((h) => h.classList.contains("number-cell") && [...table.querySelectorAll("tbody tr")].some((r) => r.children[heads.indexOf(h)].querySelector(".was")));
          if (at >= 0) {
            heads[at].querySelector("button").click();
            const exact = (text) => parseFloat(text.replace(/,/g, ""));
            const rows = [...table.querySelectorAll("tbody tr")].map((r) => r.children[at]).filter((c) => c.title && c.querySelector(".was") && c.querySelector(".was").title);
            const changes = rows.map((c) => exact(c.title) - exact(c.querySelector(".was").title));
            for (let i = 1; i < changes.length; i++) if (changes[i] > changes[i - 1] + 1e-6 * Math.abs(changes[i])) { bad.push(`changes ${changes[i - 1]}, ${changes[i]} are not sorted`); break; }
          }
          sort.value = "value";
          sort.dispatchEvent(new Event("change"));
        }
        if (!compared) bad.push("no table is compared");
        return bad;""")
    page.fail_unless(not wrong, f"beside the baseline: {wrong[:3]}")
