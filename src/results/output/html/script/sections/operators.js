// Operators and lines of user code, and the modules of the model.

import { addChart, nameBars } from "page/chart.js";
import { rooflineChart, roofPoint, roofsOf } from "page/roofline.js";
import { largestFirst } from "page/section.js";
import { colour, kinds } from "page/theme.js";
import { moduleTree } from "page/tree.js";

export function opsSection(f) {
  const { operators, waits, roofline, mfu, python } = f.grids;
  const rows = largestFirst(operators.list(), (row) => Math.max(row("gpu_self_ns"), row("host_self_ns"))).slice(0, 15);
  addChart(f.body, () => nameBars(operators, rows, {
    name: (row) => row("name"), hover: ["gpu_self_ns", "host_self_ns", "count", "rank_count"],
    series: [
      { name: "own GPU time", colour: colour("compute"), value: (row) => row("gpu_self_ns") },
      { name: "own host time", colour: kinds()[2], value: (row) => row("host_self_ns") },
    ],
    label: "own time over all ranks", stacked: false, says: `Bars of the ${rows.length} operators with most own time`,
  }));
  if (roofline.rows > 0) {
    const told = [
      "tflops_per_s", "tb_per_s", "roofline_pct", "bound", "flops_per_byte", "work_busy_ns", "work_count",
    ];
    const point = roofPoint(roofline, "work_busy_ns", told);
    f.heading("Operators below the roofs of the device");
    rooflineChart(f.body, new Map([["operators", roofline.list().map(point)]]), roofsOf(mfu), "operator");
  } else f.note("No roofline: operations and bytes follow from shapes (record_shapes=True).");
  if (python.rows === 0) {
    f.note("No Python functions: the traces were recorded without stacks (with_stack=True), or the results were "
      + "written with --no-events.");
  }
  f.table(operators, "operators");
  f.table(waits, "calls that make host and GPU wait");
  f.table(roofline, "roofline");
  f.table(mfu, "utilization by device");
  f.table(python, "Python functions");
}

export function modulesSection(f) {
  moduleTree(f, f.grids.tree);
  f.table(f.grids.tree, "modules");
}

export function linesSection(f) {
  const { lines } = f.grids;
  const own = (row) => (row("thread") === "idle" ? 0 : row("self_ns"));
  const rows = largestFirst(lines.list(), own).slice(0, 15);
  addChart(f.body, () => nameBars(lines, rows, {
    name: (row) => row("name"), hover: ["native_ns", "python_ns", "gpu_ns", "bwd_gpu_ns", "calls", "ranks"],
    series: [
      { name: "native", colour: kinds()[2], value: (row) => row("native_ns") },
      { name: "Python code", colour: kinds()[4], value: (row) => row("python_ns") },
    ],
    label: "own time over all ranks", says: `Bars of the ${rows.length} source lines with most own time`,
  }));
  f.table(lines, "lines of user code");
}
