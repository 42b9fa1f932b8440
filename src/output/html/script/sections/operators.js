// Operators and lines of user code, and the modules of the model.

import { addChart, nameBars } from "page/chart.js";
import { exact, inLines, make, ns, percent, plain, plural, shown } from "page/format.js";
import { rooflineChart, roofsOf } from "page/roofline.js";
import { largestFirst } from "page/section.js";
import { colour, kinds } from "page/theme.js";
import { moduleTree } from "page/tree.js";

export function opsSection(f) {
  const { operators, waits, roofline, mfu, python } = f.grids;
  addChart(f.body, () => {
    const most = operators.of("gpu_self_ns").map((v, i) => Math.max(v, operators.of("host_self_ns")[i]));
    const rows = largestFirst(most).slice(0, 15);
    const hasGpu = operators.of("gpu_self_ns").some((v) => v > 0);
    const series = [["own GPU time", "compute", "gpu_self_ns"], ["own host time", "host", "host_self_ns"]].filter((s) => hasGpu || s[2] === "host_self_ns");
    const tint = (key) => (key === "host" ? kinds()[2] : colour(key));
    const bars = nameBars(rows.map((i) => operators.of("name")[i]), series.map(([name, key, column]) => ({ name, colour: tint(key), values: rows.map((i) => operators.of(column)[i]) })), {
      label: "own time over all ranks", stacked: false,
      hovers: (k, s) => { const i = rows[k]; const v = operators.of(series[s][2])[i]; return `<b>${inLines(operators.of("name")[i])}</b><br>${series[s][0]} ${ns(v)} = ${exact("ns", v)}<br>${plural(operators.of("count")[i], "call")} on ${plural(operators.of("ranks")[i], "rank")}`; },
    });
    return { ...bars, says: `Bars of the ${rows.length} operators with most own time` };
  });
  if (roofline.rows > 0) {
    const of = (c) => roofline.of(c);
    const hover = (i) => `<b>${inLines(of("name")[i])}</b><br>${shown("number", of("tflops_per_s")[i])} TFLOP/s, ${shown("number", of("tb_per_s")[i])} TB/s${of("attainable")[i] === null ? "" : `: ${percent(of("attainable")[i])} of attainable, bound by ${plain(of("bound")[i])}`}<br>${shown("number", of("intensity")[i])} FLOP/byte<br>${ns(of("busy_ns")[i])} in ${plural(of("count")[i], "call")}`;
    const points = of("name").map((_, i) => ({ x: of("intensity")[i], y: of("tflops_per_s")[i], ns: of("busy_ns")[i], hover: hover(i) }));
    f.heading("Operators below the roofs of the device");
    rooflineChart(f.body, new Map([["operators", points]]), roofsOf(mfu), "operator");
  } else f.body.append(make("p", { class: "note" }, "No roofline: operations and bytes follow from shapes (record_shapes=True)."));
  if (python.rows === 0) f.body.append(make("p", { class: "note" }, "No Python functions: the traces were recorded without stacks (with_stack=True), or the results were written with --no-events."));
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
  addChart(f.body, () => {
    const rows = largestFirst(lines.of("self_ns").map((v, i) => (lines.of("thread")[i] === "idle" ? 0 : v))).slice(0, 15);
    const series = [["native", "host", "native_ns"], ["Python code", "python", "python_ns"]];
    const tints = { host: kinds()[2], python: kinds()[4] };
    const bars = nameBars(rows.map((i) => lines.of("name")[i]), series.map(([name, key, column]) => ({ name, colour: tints[key], values: rows.map((i) => lines.of(column)[i]) })), {
      label: "own time over all ranks",
      hovers: (k, s) => { const i = rows[k]; const v = lines.of(series[s][2])[i]; return `<b>${inLines(lines.of("name")[i])}</b><br>${series[s][0]} ${ns(v)} = ${exact("ns", v)}<br>GPU work ${ns(lines.of("gpu_ns")[i])}, backward ${ns(lines.of("bwd_gpu_ns")[i])}<br>${plural(lines.of("calls")[i], "call")} on ${plural(lines.of("ranks")[i], "rank")}`; },
    });
    return { ...bars, says: `Bars of the ${rows.length} source lines with most own time` };
  });
  f.table(lines, "lines of user code");
}
