// Kernels by name and by what they do, and sequences of them that repeat.

import { addChart, nameBars } from "page/chart.js";
import { run } from "page/data.js";
import { addSelect, make, numberCell, tableOf } from "page/dom.js";
import { count, exact, ns, percent, plural, short, shown } from "page/format.js";
import { rooflineChart, roofPoint, roofsOf, roofWords } from "page/roofline.js";
import { largestFirst, TOP, withShare } from "page/section.js";
import { colour, isNarrow, kinds } from "page/theme.js";

const CLASSES = ["compute", "communication", "memory"];
/** What the label of a kernel says: what it does, who launches it with which shapes, its share, its roof. */
const TOLD = [
  "class", "category", "sum_ns", "share", "count", "main_op", "main_input_dims", "tflops_per_s", "tb_per_s",
  "roofline_pct", "bound", "min_ns", "max_ns", "rank_count", "max_rank_ns", "max_rank",
];

export function kernelsSection(f) {
  const [grid, categories] = [f.grids.kernels, f.grids.categories].map((of) => withShare(of, "sum_ns"));
  const byClass = (of) => (of.startsWith("mem") ? "memory" : of === "communication" ? "communication" : "compute");
  addChart(f.body, () => nameBars(categories, categories.list(), {
    name: (row) => row("category"), hover: ["sum_ns", "share", "count"],
    series: [{ name: "time", value: (row) => row("sum_ns"), colour: (row) => colour(byClass(row("category"))) }],
    label: "time over all ranks, by what kernels do", says: `Bars of ${categories.rows} categories of kernels by time`,
  }));
  f.heading("By kernel");
  let isChosen = (_row) => true;
  const chosen = [
    ["", "all"], ...CLASSES.map((c) => [`class ${c}`, `class ${c}`]),
    ...categories.distinct("category").map((c) => [`category ${c}`, c]),
  ];
  addSelect(f.controls(), "Kernels", chosen, (v) => {
    isChosen = (row) => v === "" || v === `class ${row("class")}` || v === `category ${row("category")}`;
    chart.render();
  });
  const chart = addChart(f.body, () => {
    const rows = largestFirst(grid.list().filter(isChosen), (row) => row("sum_ns")).slice(0, TOP);
    lines.replaceChildren(kernelLines(rows.slice(0, 10)));
    const timeOf = (name) => (row) => (row("class") === name ? row("sum_ns") : null);
    return nameBars(grid, rows, {
      name: (row) => row("short_name"), hover: ["name", ...TOLD], label: "time over all ranks",
      series: CLASSES.map((name) => ({ name, colour: colour(name), value: timeOf(name) })),
      says: `Bars of the ${rows.length} kernels with most time`,
    });
  });
  const region = { class: "figures wide", tabindex: "0", role: "region", "aria-label": "the kernels with most time" };
  const lines = make("div", region);
  f.body.append(lines);
  kernelRoofline(f, grid);
  f.table(categories, "categories");
  f.table(grid, "kernels");
}

/** Why it cannot be told which roof limits a kernel; empty for what does not compute. */
function unknownRoof(row) {
  if (row("class") !== "compute") return "";
  if (row("work_ns") === 0) return "cannot tell: operations unknown";
  return row("bytes") === null ? "cannot tell: bytes unknown" : "cannot tell: device unknown";
}

/** The first kernels as lines: category, operator and shapes, share, rate and roof. */
function kernelLines(rows) {
  const line = (row) => {
    const [op, dims, time] = [row("main_op"), row("main_input_dims"), row("sum_ns")];
    const part = op === null ? 1 : row("main_op_ns") / time;
    const shapes = dims && make("span", { class: "was", title: dims }, short(dims, 40));
    const by = part < 0.9995 ? ` (${percent(part)})` : "";
    const rate = (column, unit) => (row(column) === null ? "" : `${shown("number", row(column))} ${unit}`);
    const [flops, bytes] = [rate("tflops_per_s", "TFLOP/s"), rate("tb_per_s", "TB/s")];
    return make("tr", {},
      make("th", { scope: "row", title: row("name") }, short(row("short_name"), isNarrow() ? 20 : 44)),
      make("td", {}, row("category")),
      make("td", {}, short(`${op ?? ""}${by}`, 60), shapes),
      numberCell(shown("ratio", row("share")), exact("ns", time)),
      numberCell(ns(time / row("count")), `${count(row("count"))} times`),
      numberCell(flops || bytes, bytes),
      make("td", {}, roofWords(row("roofline_pct"), row("bound") ?? unknownRoof(row))));
  };
  const right = { class: "number-cell" };
  const heads = [
    ["kernel"], ["category"], ["operator, shapes"], ["share", right], ["mean", right], ["rate", right], ["roof"],
  ];
  return tableOf(null, heads, rows.map(line));
}

/** Kernels with known operations below the roofs of the device, by category. */
function kernelRoofline(f, grid) {
  const rows = grid.list().filter((row) => row("flops_per_byte") > 0 && row("tflops_per_s") > 0);
  f.heading("Kernels below the roofs of the device");
  if (rows.length === 0) {
    f.note("Cannot tell: operations and bytes of kernels follow from the shapes of operators (record_shapes=True), and "
      + "no operator with known shapes launched one that computes.");
    return;
  }
  const groups = new Map(rows.map((row) => [row("category"), []]));
  const point = roofPoint(grid, "sum_ns", TOLD);
  for (const row of rows) groups.get(row("category")).push(point(row));
  const time = ([, points]) => points.reduce((s, p) => s + p.ns, 0);
  rooflineChart(f.body, new Map(largestFirst([...groups], time)), roofsOf(run.grids("ops").mfu), "kernel");
  f.note("A line is the roof for the number type with most of a device's operations; what computes in another type has "
    + "another roof, which the share of attainable is of.");
  const compute = grid.of("class").filter((c) => c === "compute").length;
  if (rows.length < compute) {
    f.note(`${count(rows.length)} of ${plural(compute, "kernel")} that compute: of the others operations or bytes are `
      + "not known, or they do no arithmetic.");
  }
}

export function patternsSection(f) {
  const grid = f.grids.sequences;
  const rows = grid.list().slice(0, 12);
  addChart(f.body, () => nameBars(grid, rows, {
    name: (row) => `${plural(Number(row("length")), "kernel")}, ${count(row("count"))} times: ${row("names")}`,
    series: [
      { name: "GPU time", colour: colour("compute"), value: (row) => row("gpu_ns") },
      { name: "other streams run", colour: kinds()[1], value: (row) => row("gap_ns") - row("idle_ns") },
      { name: "device idle", colour: colour("idle"), value: (row) => row("idle_ns") },
    ],
    hover: ["names", "gpu_ns", "gap_ns", "idle_ns", "ranks"], label: "time over all ranks",
    says: `Bars of the ${rows.length} kernel sequences with most GPU time`,
  }));
  f.table(grid, "sequences");
}
