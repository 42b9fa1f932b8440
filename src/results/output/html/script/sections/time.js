// What runs over time: utilization, the critical path, iterations of a server.

import { addChart, heatMap, marks, nameBars, rowLabel, timeLines } from "page/chart.js";
import { addSelect, note } from "page/dom.js";
import { axisUnit, names, words } from "page/format.js";
import { chooseStep, stepFollowers, stepNote } from "page/section.js";
import { colour, kinds } from "page/theme.js";

export function utilizationSection(f) {
  const { stretches, map, steps, recorded } = f.grids;
  const starts = stretches.of("start_ns");
  const [unit, size] = axisUnit(starts);
  const isMany = map && map.distinct("ranks").length > 1;
  // the step that was chosen; null: all that was recorded
  let chosen = null;
  const stretchOf = (label) => {
    const at = label === null ? -1 : steps.of("step").indexOf(label);
    return at < 0 ? null : [steps.of("start_ns")[at], steps.of("end_ns")[at]];
  };
  const timeTitle = () => (stretchOf(chosen) ? `time, ${unit} (step ${chosen})` : `time, ${unit}`);
  const ofStep = stepNote(f, stretchOf, "all that was recorded");
  const overTime = addChart(f.body, () => {
    const [idle, tints] = [colour("idle"), kinds()];
    const thin = { color: idle, width: 1 };
    const lines = [
      ["busiest device", "highest", thin],
      ["least busy device", "lowest", thin, { fill: "tonexty", fillcolor: `${idle}44` }],
      [isMany ? "utilization, mean" : "utilization", "mean", { color: colour("compute") }],
      ["SM efficiency", "sm_efficiency", { color: tints[0], dash: "dot" }],
      ["occupancy", "occupancy", { color: tints[6], dash: "dashdot" }],
    ].slice(isMany ? 0 : 2).filter(([, column]) => stretches.of(column).some((v) => v !== null));
    const range = stretchOf(chosen)?.map((v) => v / size);
    return {
      data: timeLines(stretches, lines, size, 100),
      height: 300,
      layout: {
        xaxis: { title: { text: timeTitle() }, showgrid: false, ...(range ? { range } : { autorange: true }) },
        yaxis: { range: [0, 103], title: { text: "%" } }, showlegend: true,
      },
      says: "Lines of GPU utilization over time",
    };
  });
  const followers = [overTime];
  if (map) {
    f.heading("By rank");
    followers.push(addChart(f.body, () => {
      const rows = map.distinct("ranks").sort(names.compare);
      const hover = (row) => rowLabel(map, row, `rank ${row("ranks")}`, ["start_ns", "utilization"]);
      const cells = map.list().map((row) => [row("ranks"), row("start_ns"), 100 * row("utilization"), hover(row)]);
      const { layout, ...chart } = heatMap({
        rows, columns: starts, columnText: (s) => String(Number((s / size).toPrecision(3))), cells, key: "compute",
        title: "utilization", unit: "%", xTitle: timeTitle(), yTitle: "rank",
        says: `Heat map of GPU utilization of ${rows.length} ranks over time`,
      });
      const only = stretchOf(chosen);
      const isInside = (i) => only && starts[i] < only[1] && (starts[i + 1] ?? Infinity) > only[0];
      const inside = starts.map((_, i) => i).filter(isInside);
      const range = inside.length ? { range: [inside[0] - 0.5, inside[inside.length - 1] + 0.5] } : { autorange: true };
      return { ...chart, layout: { ...layout, xaxis: { ...layout.xaxis, ...range } } };
    }));
  }
  if (recorded?.rows) {
    f.heading("Recorded by the hardware");
    f.note("Sampled by the device, beside the SM efficiency that is computed from kernels over the same time. A sample "
      + "holds all that ran in its time: see `hta explain counters`.");
    f.openTable(recorded);
  }
  stepFollowers.push([overTime, (label) => {
    chosen = label;
    ofStep(label);
    followers.forEach((chart) => chart.render());
  }]);
}

/** Classes of the path that have one colour: name, key of the colour or number of the kind, and what is of it. */
const PATH_GROUPS = /** @type {[string, string | number, RegExp][]} */ ([
  ["compute on the GPU", "compute", /^gpu_compute/], ["communication", "communication", /communication/],
  ["memory on the GPU", "memory", /^gpu_memory/], ["host", 2, /^host_/], ["launching, waiting, rest", "idle", /./],
]);

export function criticalPathSection(f) {
  const { classes } = f.grids;
  const windows = classes.distinct("window").sort(names.compare);
  let window = windows[0];
  const choose = (wanted) => { window = wanted; chart.render(); };
  const select = windows.length > 1 && addSelect(f.controls(), "Window", windows.map((w) => [w, w]), choose);
  if (!select) f.note(`Window: ${windows[0]}.`);
  const other = note();
  other.hidden = true;
  f.body.append(other);
  const chart = addChart(f.body, () => {
    const rows = classes.list().filter((row) => row("window") === window && row("time_ns") > 0);
    const groupOf = (row) => PATH_GROUPS.find(([, , pattern]) => pattern.test(row("class")));
    return nameBars(classes, rows, {
      name: (row) => words(row("class")), hover: ["time_ns", "work_ns", "overhead_ns", "count", "ranks"],
      series: PATH_GROUPS.map((group) => ({
        name: group[0], colour: typeof group[1] === "number" ? kinds()[group[1]] : colour(group[1]),
        value: (row) => (groupOf(row) === group ? row("time_ns") : null),
      })),
      label: "time on the path over all ranks", says: `Bars of ${rows.length} classes of the critical path`,
    });
  });
  // the path is computed for one step unless others were asked for
  stepFollowers.push([chart, (label) => {
    const wanted = windows.find((w) => w === `step ${label}`);
    other.hidden = label === null || wanted !== undefined;
    other.textContent = `No path of step ${label} is among these results: this is that of ${window}.`;
    if (wanted === undefined || wanted === window) return;
    if (select) select.value = wanted;
    choose(wanted);
  }]);
}

export function iterationsSection(f) {
  const told = ["dur_ns", "busy_ns", "slow"];
  const grid = f.grids.iterations;
  const [xUnit, xSize] = axisUnit(grid.of("start_ns"));
  const [yUnit, ySize] = axisUnit(grid.of("dur_ns"));
  const ranks = grid.distinct("rank");
  let rank = ranks[0];
  const options = ranks.map((r) => [String(r), String(r)]);
  if (ranks.length > 1) addSelect(f.controls(), "Rank", options, (v) => { rank = Number(v); chart.render(); });
  const phases = grid.distinct("phase").sort(names.compare);
  const rowsOf = (phase) => grid.list().filter((row) => row("rank") === rank && row("phase") === phase);
  const point = (row) => ({
    x: row("start_ns") / xSize, y: row("dur_ns") / ySize, size: row("slow") ? 12 : 8,
    hover: rowLabel(grid, row, `iteration ${row("step")}: ${row("label") || row("phase")}`, told),
  });
  const chart = addChart(f.body, () => ({
    data: phases.map((phase, k) => {
      const rows = rowsOf(phase);
      const line = { width: rows.map((row) => (row("slow") ? 2 : 0)), color: colour("late") };
      return marks(phase, k, rows.map(point), { line });
    }),
    height: 320,
    layout: {
      xaxis: { title: { text: `time, ${xUnit}` }, showgrid: false },
      yaxis: { title: { text: `length, ${yUnit}` }, rangemode: "tozero" }, showlegend: true,
    },
    says: `Iterations of rank ${rank} over time by phase: ${phases.map((p) => `${rowsOf(p).length} ${p}`).join(", ")}`,
  }), (p) => chooseStep(`@${rowsOf(phases[p.curveNumber])[p.pointNumber]("step")}`));
}
