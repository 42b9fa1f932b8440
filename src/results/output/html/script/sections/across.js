// Ranks against each other: who makes others wait, collectives, and what repairs give.

import { addChart, heatMap, marks, nameBars, outline, rowLabel } from "page/chart.js";
import { run } from "page/data.js";
import { addSelect } from "page/dom.js";
import { exact, names, ns, plain, plural, short } from "page/format.js";
import { chooseStep, largestFirst, stepFollowers } from "page/section.js";
import { kinds } from "page/theme.js";

export function stragglersSection(f) {
  const { delays, verdicts, causes } = f.grids;
  const { lengths } = run.grids("breakdown");
  const metrics = delays ? ["gain_ns", "excess_ns", "imposed_wait_ns", "wait_ns"]
    .map((name) => [name, delays.byName.get(name)?.title, delays]) : [];
  // one step alone is in the breakdown
  if (lengths && (delays || lengths.distinct("steps").length > 1)) {
    metrics.push(["dur_ns", "length of the step", lengths]);
  }
  if (metrics.length === 0) return;
  /** @type {any} */
  let [chosen, shownStep] = [metrics[0], null];
  const axis = (grid, column) => grid.distinct(column).sort(names.compare);
  addSelect(f.controls(), "Show", metrics, (v) => { chosen = metrics.find((m) => m[0] === v); map.render(); });
  const map = addChart(f.body, () => {
    const [name, title, grid] = chosen;
    const [rows, columns] = [axis(grid, "ranks"), axis(grid, "steps")];
    // the first value is coloured by the largest in the place, the others by their mean there
    const isMost = name === "gain_ns" || name === "dur_ns";
    const cells = grid.list().map((row) => {
      const [rank, step, n] = [row("ranks"), row("steps"), row("count")];
      const value = isMost ? row("most_ns") : row(name) / n;
      const joined = isMost ? `the largest of ${n}, on rank ${row("most_rank")}` : `mean of ${n}`;
      const head = `<b>rank ${plain(rank)}, step ${plain(step)}</b><br>${title} ${ns(value)}`;
      return [rank, step, value, `${head}<br>= ${exact("ns", value)}${n > 1 ? `<br>${joined}` : ""}`];
    });
    const low = name === "dur_ns" ? Math.min(...cells.map((c) => c[2])) : 0;
    const says = `Heat map of ${rows.length} ranks by ${columns.length} steps: ${title}`;
    const all = { rows, columns, cells, key: "late", title, unit: "ns", low, xTitle: "step", yTitle: "rank", says };
    const { layout, ...chart } = heatMap(all);
    const at = columns.indexOf(shownStep);
    return { ...chart, layout: { ...layout, shapes: at < 0 ? [] : [outline(at, 0, at, rows.length - 1)] } };
  }, (point) => chooseStep(axis(chosen[2], "steps")[point.x]));
  stepFollowers.push([map, (label) => { shownStep = label; map.render(); }]);
  if (lengths && !delays) lengths.notes.forEach(f.note);
  [verdicts, causes, delays].forEach((grid) => f.table(grid));
  f.table(lengths, "length of the step by rank and step");
}

export function collectivesSection(f) {
  const { sizes } = f.grids;
  let by = "kind";
  const colours = [["kind", "by kind"], ["process_group", "by group"], ["dtype", "by element type"]];
  addSelect(f.controls(), "Colour", colours, (v) => { by = v; scatter.render(); });
  const rows = sizes.list().filter((row) => row("size_bytes") > 0 && row("bus_bw_gb_per_s") > 0);
  const most = Math.max(1, ...rows.map((row) => row("dur_sum_ns")));
  const told = ["bus_bw_gb_per_s", "alg_bw_gb_per_s", "transfer_p50_ns", "count", "dur_sum_ns", "wait_sum_ns"];
  const point = (row) => ({
    x: row("size_bytes"), y: row("bus_bw_gb_per_s"), size: 7 + 15 * Math.sqrt(row("dur_sum_ns") / most),
    hover: rowLabel(sizes, row, row("kind"), ["size_bytes", ...told, "process_group"]),
  });
  // with room around, so that small differences stay small
  const axis = (column) => {
    const magnitudes = rows.map((row) => Math.log10(row(column)));
    return rows.length ? { type: "log", range: [Math.min(...magnitudes) - 0.25, Math.max(...magnitudes) + 0.25] } : {};
  };
  const scatter = addChart(f.body, () => {
    const groupOf = (row) => row(by) || "unknown";
    const all = [...new Set(rows.map(groupOf))].sort(names.compare);
    const of = (name) => rows.filter((row) => groupOf(row) === name).map(point);
    return {
      data: all.map((name, k) => marks(short(name, 40), k, of(name), { opacity: 0.85 })),
      height: 400,
      layout: {
        xaxis: { ...axis("size_bytes"), title: { text: "size" }, tickformat: "~s", ticksuffix: "B" },
        yaxis: { ...axis("bus_bw_gb_per_s"), title: { text: "bus bandwidth, GB/s" } }, showlegend: true,
      },
      says: `Scatter plot of bus bandwidth against size for ${rows.length} sizes of collectives`,
    };
  });
  const left = sizes.rows - rows.length;
  if (left) f.note(`${plural(left, "row has", "rows have")} no known size or transfer: not in the chart.`);
}

export function whatIfSection(f) {
  const grid = f.grids.repairs;
  const rows = largestFirst(grid.list(), (row) => row("gain_ns")).slice(0, 15);
  const tint = (row) => kinds()[Math.max(0, ["all", "rank", "step", "cause"].indexOf(row("scope")))];
  addChart(f.body, () => nameBars(grid, rows, {
    name: (row) => (["all", row("what")].includes(row("scope")) ? row("what") : `${row("scope")} ${row("what")}`),
    series: [{ name: "gain", value: (row) => row("gain_ns"), colour: tint }], hover: ["gain_ns", "gain_pct", "step_ns"],
    label: "gain per step", says: `Bars of the ${rows.length} repairs that give most`,
  }));
}
