// Kernels by name and by what they do, and sequences of them that repeat.

import { addChart, addSelect, nameBars } from "page/chart.js";
import { count, exact, inLines, make, ns, percent, plain, plural, short, shown } from "page/format.js";
import { rooflineChart, roofsOf, roofWords } from "page/roofline.js";
import { TOP, withShare } from "page/section.js";
import { readGrid } from "page/table.js";
import { colour, isNarrow, kinds } from "page/theme.js";

export function kernelsSection(f, data) {
  const { kernels: grid, categories } = f.grids;
  categoryBars(f, categories);
  f.heading("By kernel");
  const classes = ["compute", "communication", "memory"];
  const all = [...new Set(categories.of("category"))];
  const state = { of: "" };
  const chosen = [["", "all"], ...classes.map((c) => [`class ${c}`, `class ${c}`]), ...all.map((c) => [`category ${c}`, c])];
  addSelect(f.controls(), "Kernels", chosen, (v) => { state.of = v; chart.render(); });
  const isChosen = (i) => !state.of || state.of === `class ${grid.of("class")[i]}` || state.of === `category ${grid.of("category")[i]}`;
  const whole = grid.of("sum_ns").reduce((s, v) => s + v, 0) + (grid.rest ? grid.rest.cells[grid.columns.findIndex((c) => c.name === "sum_ns")] || 0 : 0);
  const hover = (i) => kernelWords(grid, i, whole);
  const chart = addChart(f.body, () => {
    const rows = grid.of("name").map((_, i) => i).filter(isChosen);
    rows.sort((a, b) => grid.of("sum_ns")[b] - grid.of("sum_ns")[a] || a - b);
    rows.splice(TOP);
    const bars = nameBars(rows.map((i) => grid.of("short")[i]), classes.map((name) => ({
      name, colour: colour(name), values: rows.map((i) => (grid.of("class")[i] === name ? grid.of("sum_ns")[i] : null)),
    })), { label: "time over all ranks", hovers: (k) => hover(rows[k]) });
    kernelLines(lines, grid, rows.slice(0, 10), whole);
    return { ...bars, says: `Bars of the ${rows.length} kernels with most time` };
  });
  const lines = make("div", { class: "figures wide", tabindex: "0", role: "region", "aria-label": "the kernels with most time" });
  f.body.append(lines);
  kernelRoofline(f, grid, hover, data);
  f.table(withShare(categories, "sum_ns"), "categories");
  f.table(withShare(grid, "sum_ns"), "kernels");
}

/** Time by what kernels do. */
function categoryBars(f, categories) {
  addChart(f.body, () => {
    const rows = categories.of("category").map((_, i) => i);
    const all = rows.reduce((s, i) => s + categories.of("sum_ns")[i], 0);
    const tint = (c) => (c === "communication" ? colour("communication") : c.startsWith("mem") ? colour("memory") : colour("compute"));
    const bars = nameBars(categories.of("category"), [{ name: "time", values: categories.of("sum_ns"), colours: categories.of("category").map(tint) }], {
      label: "time over all ranks, by what kernels do",
      hovers: (i) => { const v = categories.of("sum_ns")[i]; return `<b>${plain(categories.of("category")[i])}</b><br>${ns(v)} (${all ? percent(v / all) : ""}) = ${exact("ns", v)}<br>${plural(categories.of("count")[i], "kernel, copy or set", "kernels, copies and sets")}`; },
    });
    return { ...bars, says: `Bars of ${rows.length} categories of kernels by time` };
  });
}

/** The first kernels as lines: category, operator and shapes, share, rate and roof. */
function kernelLines(where, grid, rows, whole) {
  const number = (text, title) => make("td", { class: "number-cell", title: title || null }, text);
  const rate = (v, unit) => (v === null ? "" : `${shown("number", v)} ${unit}`);
  const line = (i) => {
    const of = (c) => grid.of(c)[i];
    const op = of("op") === null ? "" : `${of("op")}${of("op_share") < 0.9995 ? ` (${percent(of("op_share"))})` : ""}`;
    return make("tr", {}, make("th", { scope: "row", title: of("name") }, short(of("short"), isNarrow() ? 20 : 44)), make("td", {}, of("category")),
      make("td", {}, short(op, 60), of("input_dims") === null ? null : make("span", { class: "was", title: of("input_dims") }, short(of("input_dims"), 40))),
      number(whole ? percent(of("sum_ns") / whole) : "", exact("ns", of("sum_ns"))), number(ns(of("sum_ns") / of("count")), `${count(of("count"))} times`),
      number(rate(of("tflops_per_s"), "TFLOP/s") || rate(of("tb_per_s"), "TB/s"), rate(of("tb_per_s"), "TB/s")),
      make("td", {}, roofWords(of("attainable"), of("roof"))));
  };
  const heads = [["kernel"], ["category"], ["operator, shapes"], ["share", 1], ["mean", 1], ["rate", 1], ["roof"]];
  where.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads.map(([text, isNumber]) => make("th", { scope: "col", class: isNumber ? "number-cell" : null }, text)))), make("tbody", {}, ...rows.map(line))));
}

/** A kernel for the label that follows the pointer: what it does, who launches it with which shapes, its share, its roof. */
function kernelWords(grid, i, whole) {
  const of = (c) => grid.of(c)[i];
  const lines = [
    `<b>${inLines(of("name"))}</b>`,
    `${plain(of("class"))}, ${plain(of("category"))}: ${ns(of("sum_ns"))}${whole ? ` (${percent(of("sum_ns") / whole)})` : ""} = ${exact("ns", of("sum_ns"))}`,
    `${count(of("count"))} times on ${plural(of("ranks"), "rank")}, ${ns(of("sum_ns") / of("count"))} on average`,
  ];
  if (of("op") !== null) lines.push(`launched by ${inLines(of("op"), 72, 2)}${of("op_share") < 0.9995 ? ` (${percent(of("op_share"))})` : ""}${of("input_dims") === null ? "" : `<br>shapes ${inLines(of("input_dims"), 72, 3)}`}`);
  if (of("tflops_per_s") !== null || of("tb_per_s") !== null) {
    const rates = [["tflops_per_s", "TFLOP/s"], ["tb_per_s", "TB/s"]].filter(([c]) => of(c) !== null).map(([c, unit]) => `${shown("number", of(c))} ${unit}`);
    lines.push(`${rates.join(", ")}: ${plain(roofWords(of("attainable"), of("roof")))}`);
  } else if (of("roof")) lines.push(plain(of("roof")));
  lines.push(`from ${ns(of("min_ns"))} to ${ns(of("max_ns"))}; most on rank ${of("most_rank")}: ${ns(of("most_ns"))}`);
  return lines.join("<br>");
}

/** Kernels with known operations below the roofs of the device, by category. */
function kernelRoofline(f, grid, hover, data) {
  const rows = grid.of("name").map((_, i) => i).filter((i) => grid.of("intensity")[i] > 0 && grid.of("tflops_per_s")[i] > 0);
  f.heading("Kernels below the roofs of the device");
  if (rows.length === 0) {
    f.body.append(make("p", { class: "note" }, "Cannot tell: operations and bytes of kernels follow from the shapes of operators (record_shapes=True), and no operator with known shapes launched one that computes."));
    return;
  }
  const times = new Map();
  for (const i of rows) times.set(grid.of("category")[i], (times.get(grid.of("category")[i]) || 0) + grid.of("sum_ns")[i]);
  const groups = new Map([...times].sort((a, b) => b[1] - a[1]).map(([name]) => [name, []]));
  for (const i of rows) groups.get(grid.of("category")[i]).push({ x: grid.of("intensity")[i], y: grid.of("tflops_per_s")[i], ns: grid.of("sum_ns")[i], hover: hover(i) });
  const ops = data.sections.get("ops");
  rooflineChart(f.body, groups, roofsOf(ops.grids.mfu && readGrid(ops.grids.mfu, data.texts)), "kernel");
  const types = "A line is the roof for the number type with most of a device's operations; what computes in another type has another roof, which the share of attainable is of.";
  f.body.append(make("p", { class: "note" }, types));
  const compute = grid.of("class").filter((c) => c === "compute").length;
  if (rows.length < compute) f.body.append(make("p", { class: "note" }, `${count(rows.length)} of ${plural(compute, "kernel")} that compute: of the others operations or bytes are not known, or they do no arithmetic. The column "roof" of the table says which.`));
}

export function patternsSection(f) {
  const grid = f.grids.sequences;
  addChart(f.body, () => {
    const rows = grid.of("names").slice(0, 12).map((_, i) => i);
    const held = (i) => grid.of("gap_ns")[i] - grid.of("idle_ns")[i];
    const series = [["GPU time", "compute", (i) => grid.of("gpu_ns")[i]], ["other streams run", null, held], ["device idle", "idle", (i) => grid.of("idle_ns")[i]]];
    const bars = nameBars(rows.map((i) => `${grid.of("length")[i]} kernels × ${count(grid.of("count")[i])}: ${grid.of("names")[i]}`),
      series.map(([name, key, value]) => ({ name, colour: key ? colour(key) : kinds()[1], values: rows.map(value) })), {
        label: "time over all ranks",
        hovers: (k, s) => { const i = rows[k]; return `<b>${series[s][0]} ${ns(series[s][2](i))}</b> = ${exact("ns", series[s][2](i))}<br>${grid.of("length")[i]} activities, ${count(grid.of("count")[i])} times on ${plural(grid.of("ranks")[i], "rank")}<br>${inLines(grid.of("names")[i], 72, 8)}`; },
      });
    return { ...bars, says: `Bars of the ${rows.length} kernel sequences with most GPU time` };
  });
  f.table(grid, "sequences");
}
