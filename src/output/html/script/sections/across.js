// Ranks against each other: who makes others wait, collectives, and what repairs give.

import { addChart, addSelect, decades, heatMap, nameBars } from "page/chart.js";
import { chooseStep, stepFollowers } from "page/follow.js";
import { bytes, exact, inLines, make, ns, percent, plain, plural, short, shown } from "page/format.js";
import { largestFirst } from "page/section.js";
import { names } from "page/table.js";
import { colour, kinds, SYMBOLS } from "page/theme.js";

export function stragglersSection(f, data) {
  const { delays, verdicts, causes } = f.grids;
  const lengths = data.lengths;
  const metrics = [];
  if (delays) {
    for (const name of ["gain_ns", "excess_ns", "imposed_wait_ns", "wait_ns"]) {
      const column = delays.columns.find((c) => c.name === name);
      metrics.push([name, column.title, delays]);
    }
  }
  // one step alone is in the breakdown
  if (lengths && (delays || new Set(lengths.of("steps")).size > 1)) metrics.push(["dur_ns", "length of the step", lengths]);
  if (metrics.length === 0) return;
  let chosen = metrics[0];
  let shownStep = null;
  let axisSteps = [];
  addSelect(f.controls(), "Show", metrics.map((m) => [m[0], m[1]]), (v) => { chosen = metrics.find((m) => m[0] === v); map.render(); });
  const map = addChart(f.body, () => {
    const [name, title, grid] = chosen;
    const rows = [...new Set(grid.of("ranks"))].sort(names.compare);
    const steps = [...new Set(grid.of("steps"))].sort(names.compare);
    axisSteps = steps;
    const [row, column] = [new Map(rows.map((r, i) => [r, i])), new Map(steps.map((s, i) => [s, i]))];
    const values = rows.map(() => steps.map(() => null));
    const hovers = rows.map(() => steps.map(() => ""));
    const counts = grid.of("count");
    // the first value is coloured by the largest in the place, the others by their mean there
    const isFirst = name === "gain_ns" || name === "dur_ns";
    grid.of("ranks").forEach((r, i) => {
      const [y, x] = [row.get(r), column.get(grid.of("steps")[i])];
      const value = isFirst ? grid.of("most_ns")[i] : grid.of(name)[i] / counts[i];
      values[y][x] = value;
      const joined = counts[i] > 1 ? `<br>${isFirst ? `the largest of ${counts[i]}, on rank ${grid.of("most_rank")[i]}` : `mean of ${counts[i]}`}` : "";
      hovers[y][x] = `<b>rank ${plain(r)}, step ${plain(grid.of("steps")[i])}</b><br>${title} ${ns(value)}<br>= ${exact("ns", value)}${joined}`;
    });
    const scale = [[0, colour("low")], [1, colour("late")]];
    const low = name === "dur_ns" ? Math.min(...values.flat().filter((v) => v !== null)) : 0;
    const chart = heatMap({ rows, columns: steps, values, hovers, scale, title, unit: "ns", low, xTitle: "step", yTitle: "rank" });
    const at = steps.indexOf(shownStep);
    if (at >= 0) chart.layout.shapes = [{ type: "rect", x0: at - 0.5, x1: at + 0.5, y0: -0.5, y1: rows.length - 0.5, line: { color: colour("ink"), width: 2 } }];
    return { ...chart, says: `Heat map of ${rows.length} ranks by ${steps.length} steps: ${title}` };
  }, (point) => chooseStep(axisSteps[point.x], null));
  stepFollowers.push([map, (label) => { shownStep = label; map.render(); }]);
  for (const n of lengths && !delays ? lengths.notes : []) f.body.append(make("p", { class: "note" }, n));
  f.table(verdicts, "ranks that make the others wait");
  f.table(causes, "why they are late");
  f.table(delays, "delay by rank and step");
  f.table(lengths, "length of the step by rank and step");
}

export function collectivesSection(f) {
  const { sizes, groups } = f.grids;
  const state = { by: "kind" };
  addSelect(f.controls(), "Colour", [["kind", "by kind"], ["process_group", "by group"], ["dtype", "by element type"]], (v) => { state.by = v; scatter.render(); });
  const scatter = addChart(f.body, () => {
    const of = (c) => sizes.of(c);
    const at = of("size_bytes").map((_, i) => i).filter((i) => of("size_bytes")[i] > 0 && of("bus_bw_gb_per_s")[i] > 0);
    const most = Math.max(1, ...at.map((i) => of("dur_sum_ns")[i]));
    const groupOf = (i) => of(state.by)[i] || "unknown";
    const all = [...new Set(at.map(groupOf))].sort(names.compare);
    const hover = (i) => `<b>${plain(of("kind")[i])}, ${bytes(of("size_bytes")[i])}</b> (${exact("bytes", of("size_bytes")[i])})<br>bus ${shown("gb_per_s", of("bus_bw_gb_per_s")[i])} GB/s, algorithm ${shown("gb_per_s", of("alg_bw_gb_per_s")[i])} GB/s<br>transfer ${ns(of("transfer_p50_ns")[i])} (median), ${plural(of("count")[i], "collective")}<br>time ${ns(of("dur_sum_ns")[i])}, of that waiting ${ns(of("wait_sum_ns")[i])}<br>${inLines(of("process_group")[i] || "", 60, 3)}`;
    const data = all.map((name, k) => {
      const rows = at.filter((i) => groupOf(i) === name);
      return {
        type: "scatter", mode: "markers", name: plain(short(name, 40)),
        x: rows.map((i) => of("size_bytes")[i]), y: rows.map((i) => of("bus_bw_gb_per_s")[i]),
        marker: { color: kinds()[k % 10], symbol: SYMBOLS[k % 10], size: rows.map((i) => 7 + 15 * Math.sqrt(of("dur_sum_ns")[i] / most)), opacity: 0.85, line: { width: 1, color: colour("panel") } },
        hovertext: rows.map(hover), hovertemplate: "%{hovertext}<extra></extra>",
      };
    });
    const tick = (v, show) => show(Number(v.toPrecision(3))).replace(/\.0+(?= |$)/, "").replace(/(\.\d*?)0+(?= |$)/, "$1");
    const axis = (column, title, show) => (at.length === 0 ? {} : { ...decades(at.map((i) => of(column)[i]), (v) => tick(v, show)), title: { text: title } });
    return {
      data, height: 400,
      layout: {
        xaxis: axis("size_bytes", "size", bytes),
        yaxis: axis("bus_bw_gb_per_s", "bus bandwidth, GB/s", (v) => String(v)),
        showlegend: true, hovermode: "closest",
      },
      says: `Scatter plot of bus bandwidth against size for ${at.length} sizes of collectives`,
    };
  });
  f.table(sizes, "collectives by kind and size");
  f.table(groups, "how calls were matched");
}

export function whatIfSection(f) {
  const grid = f.grids.repairs;
  addChart(f.body, () => {
    const rows = largestFirst(grid.of("gain_ns")).slice(0, 15);
    const scopes = ["all", "rank", "step", "cause"];
    const bars = nameBars(rows.map((i) => (grid.of("what")[i] === grid.of("scope")[i] ? grid.of("what")[i] : `${grid.of("scope")[i]} ${grid.of("what")[i]}`)), [{
      name: "gain", values: rows.map((i) => grid.of("gain_ns")[i]), colours: rows.map((i) => kinds()[Math.max(0, scopes.indexOf(grid.of("scope")[i]))]),
    }], {
      label: "gain per step",
      hovers: (k) => { const i = rows[k]; return `<b>${inLines(`${grid.of("scope")[i]}: ${grid.of("what")[i]}`)}</b><br>gives ${ns(grid.of("gain_ns")[i])} a step = ${exact("ns", grid.of("gain_ns")[i])}${grid.of("gain_pct")[i] === null ? "" : ` (${percent(grid.of("gain_pct")[i])})`}`; },
    });
    return { ...bars, says: `Bars of the ${rows.length} repairs that give most` };
  });
  f.table(grid, "repairs");
}
