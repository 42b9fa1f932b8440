// What the ranks of several roles do over time: a lane a rank, its phases coloured, idle time white.

import { addChart, rowLabel, spanBars, spanLayout } from "page/chart.js";
import { addSelect } from "page/dom.js";
import { axisUnit, names, plural, words } from "page/format.js";
import { largestFirst } from "page/section.js";
import { kinds } from "page/theme.js";

/** Most lanes of a chart; more are those that idle longest. */
const LANES = 64;

export function rolesSection(f) {
  const { loops, phases } = f.grids;
  let all = phases.list();
  const periods = phases.distinct("period");
  if (all.length > 0) {
    if (phases.rest) {
      const last = all.at(-1)("rank");
      all = all.filter((row) => row("rank") !== last);
      f.note(`There are more phases than this page has: those from rank ${last} on are not drawn.`);
    }
    let chosen = periods[0];
    const options = periods.map((period) => [period, String(period)]);
    const choose = (wanted) => { chosen = Number(wanted); chart.render(); };
    if (options.length > 1) addSelect(f.controls(), "Period", options, choose);
    const chart = addChart(f.body, () => lanesOf(phases, all.filter((row) => row("period") === chosen)));
  }
  [loops, phases].forEach((grid) => f.table(grid));
}

function lanesOf(grid, rows) {
  const idle = new Map();
  for (const row of rows) {
    const waited = row("phase") === "idle" ? row("time_ns") : 0;
    idle.set(row("rank"), (idle.get(row("rank")) ?? 0) + waited);
  }
  const first = new Map(rows.map((row) => [row("rank"), row]));
  const name = (row) => (row("role") === null ? `rank ${row("rank")}` : `${row("role")} ${row("role_rank")}`);
  const lanes = largestFirst([...idle.keys()], (rank) => idle.get(rank)).slice(0, LANES).sort((a, b) => a - b);
  const start = Math.min(...rows.map((row) => row("start_ns")));
  const whole = Math.max(...rows.map((row) => row("period_ns")));
  const [unit, size] = axisUnit([whole]);
  const span = (row) => {
    const from = (row("start_ns") - start) / size;
    const title = `${name(row)}: ${words(row("phase"))}`;
    const hover = rowLabel(grid, row, title, ["rank", "replica", "time_ns", "busy_ns"]);
    return { y: lanes.indexOf(row("rank")), from, to: from + row("time_ns") / size, hover, text: "" };
  };
  const shown = rows.filter((row) => row("phase") !== "idle" && lanes.includes(row("rank")));
  const all = [...new Set(grid.of("phase"))].filter((phase) => phase !== "idle").sort(names.compare);
  const of = (phase) => shown.filter((row) => row("phase") === phase).map(span);
  const labels = lanes.map((rank, i) => [i, name(first.get(rank))]);
  return {
    data: all.map((phase, k) => spanBars(words(phase), kinds()[k], of(phase))).filter((s) => s.y.length > 0),
    height: 120 + 24 * lanes.length,
    layout: spanLayout(labels, `time, ${unit}`, whole / size),
    says: `Phases of ${plural(lanes.length, "rank")} over time`
      + (lanes.length < idle.size ? `, of ${idle.size} those that idle longest` : ""),
  };
}
