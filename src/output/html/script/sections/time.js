// What runs over time: utilization, the critical path, iterations of a server.

import { addChart, addSelect, heatMap, nameBars } from "page/chart.js";
import { chooseStep, stepFollowers, stepNote } from "page/follow.js";
import { axisUnit, exact, make, ns, percent, plain, plural } from "page/format.js";
import { names } from "page/table.js";
import { colour, kinds, SYMBOLS } from "page/theme.js";

export function utilizationSection(f) {
  const { stretches, map } = f.grids;
  const starts = stretches.of("start_ns");
  const [unit, size] = axisUnit(starts);
  const many = map && new Set(map.of("ranks")).size > 1;
  const { steps } = f.grids;
  // the step that was chosen; null: all that was recorded
  let shownStep = null;
  const stretch = () => {
    const at = shownStep === null ? -1 : steps.of("step").indexOf(shownStep);
    return at < 0 ? null : [steps.of("start_ns")[at], steps.of("end_ns")[at]];
  };
  const timeTitle = () => (stretch() ? `time, ${unit} (step ${shownStep})` : `time, ${unit}`);
  const ofStep = stepNote(f, () => stretch() !== null);
  const overTime = addChart(f.body, () => {
    const x = starts.map((v) => v / size);
    const line = (name, column, key, dash) => ({
      type: "scatter", mode: "lines", name, x, y: stretches.of(column).map((v) => (v === null ? null : 100 * v)), connectgaps: false,
      line: { color: key, width: 2, dash, shape: "hv" },
      hovertext: starts.map((s, i) => `from ${ns(s)}<br>${name} ${stretches.of(column)[i] === null ? "" : percent(stretches.of(column)[i])}`),
      hovertemplate: "%{hovertext}<extra></extra>",
    });
    const data = [];
    if (many) {
      data.push({ ...line("busiest device", "highest", colour("idle"), "solid"), line: { color: colour("idle"), width: 1, shape: "hv" } });
      data.push({ ...line("least busy device", "lowest", colour("idle"), "solid"), line: { color: colour("idle"), width: 1, shape: "hv" }, fill: "tonexty", fillcolor: `${colour("idle")}44` });
    }
    data.push(line(many ? "utilization, mean" : "utilization", "mean", colour("compute"), "solid"));
    for (const [name, column, key, dash] of [["SM efficiency", "sm_efficiency", kinds()[0], "dot"], ["occupancy", "occupancy", kinds()[6], "dashdot"]]) {
      if (stretches.of(column).some((v) => v !== null)) data.push(line(name, column, key, dash));
    }
    return { data, height: 300, layout: { xaxis: { title: { text: timeTitle() }, showgrid: false, ...(stretch() ? { range: stretch().map((v) => v / size) } : { autorange: true }) }, yaxis: { range: [0, 103], title: { text: "%" } }, showlegend: true, hovermode: "closest" }, says: "Lines of GPU utilization over time" };
  });
  const followers = [overTime];
  if (map) {
    f.heading("By rank");
    followers.push(addChart(f.body, () => {
      const rows = [...new Set(map.of("ranks"))].sort(names.compare);
      const [row, column] = [new Map(rows.map((r, i) => [r, i])), new Map(starts.map((s, i) => [s, i]))];
      const values = rows.map(() => starts.map(() => null));
      const hovers = rows.map(() => starts.map(() => ""));
      map.of("ranks").forEach((r, i) => {
        const start = map.of("start_ns")[i];
        if (!column.has(start)) return;
        values[row.get(r)][column.get(start)] = 100 * map.of("utilization")[i];
        hovers[row.get(r)][column.get(start)] = `<b>rank ${plain(r)}</b>, from ${ns(start)}<br>utilization ${percent(map.of("utilization")[i])}`;
      });
      const scale = [[0, colour("low")], [1, colour("compute")]];
      const chart = heatMap({ rows, columns: starts.map((s) => String(Number((s / size).toPrecision(3)))), values, hovers, scale, title: "utilization", unit: "%", xTitle: timeTitle(), yTitle: "rank" });
      const only = stretch();
      if (only) {
        const inside = starts.map((_, i) => i).filter((i) => starts[i] < only[1] && (starts[i + 1] ?? Infinity) > only[0]);
        if (inside.length) chart.layout.xaxis.range = [inside[0] - 0.5, inside[inside.length - 1] + 0.5];
      } else chart.layout.xaxis.autorange = true;
      return { ...chart, says: `Heat map of GPU utilization of ${rows.length} ranks over time` };
    }));
  }
  const follow = (label) => {
    shownStep = label;
    ofStep(label);
    followers.forEach((chart) => chart.render());
  };
  stepFollowers.push([overTime, follow]);
  f.table(stretches, "utilization over time");
  f.table(map, "utilization by rank");
}

export function criticalPathSection(f) {
  const { classes, names: tops } = f.grids;
  const windows = [...new Set(classes.of("window"))].sort(names.compare);
  const state = { window: windows[0] };
  const select = windows.length === 1 ? null : addSelect(f.controls(), "Window", windows.map((w) => [w, w]), (v) => { state.window = v; chart.render(); });
  if (!select) f.body.append(make("p", { class: "note" }, `Window: ${windows[0]}.`));
  const other = make("p", { class: "note", hidden: "" });
  f.body.append(other);
  const chart = addChart(f.body, () => {
    const rows = classes.of("class").map((_, i) => i).filter((i) => classes.of("window")[i] === state.window && classes.of("time_ns")[i] > 0);
    const all = rows.reduce((s, i) => s + classes.of("time_ns")[i], 0);
    const groups = [["compute on the GPU", colour("compute"), /^gpu_compute/], ["communication", colour("communication"), /communication/], ["memory on the GPU", colour("memory"), /^gpu_memory/], ["host", kinds()[2], /^host_/], ["launching, waiting, rest", colour("idle"), /./]];
    const groupOf = (i) => groups.findIndex((g) => g[2].test(classes.of("class")[i]));
    const bars = nameBars(rows.map((i) => classes.of("class")[i].replace(/_/g, " ")), groups.map(([name, tint], g) => ({ name, colour: tint, values: rows.map((i) => (groupOf(i) === g ? classes.of("time_ns")[i] : null)) })), {
      label: "time on the path over all ranks",
      hovers: (k) => { const i = rows[k]; const v = classes.of("time_ns")[i]; return `<b>${plain(classes.of("class")[i])}</b><br>${ns(v)} (${all ? percent(v / all) : ""} of the path) = ${exact("ns", v)}<br>work ${ns(classes.of("work_ns")[i])}, waiting and overhead ${ns(classes.of("overhead_ns")[i])}<br>${plural(classes.of("count")[i], "segment")} on ${plural(classes.of("ranks")[i], "rank")}`; },
    });
    return { ...bars, says: `Bars of ${rows.length} classes of the critical path` };
  });
  // the path is computed for one step unless others were asked for
  stepFollowers.push([chart, (label) => {
    const wanted = windows.find((w) => w === `step ${label}`);
    other.hidden = label === null || wanted !== undefined;
    other.textContent = `No path of step ${label} is among these results: this is that of ${state.window}.`;
    if (wanted === undefined || wanted === state.window) return;
    state.window = wanted;
    if (select) select.value = wanted;
    chart.render();
  }]);
  f.table(classes, "the path by class");
  f.table(tops, "names with most of the path");
}

export function iterationsSection(f) {
  const grid = f.grids.iterations;
  const of = (c) => grid.of(c);
  const [xUnit, xSize] = axisUnit(of("start_ns"));
  const [yUnit, ySize] = axisUnit(of("dur_ns"));
  const ranks = [...new Set(of("rank"))];
  const state = { rank: ranks[0] };
  if (ranks.length > 1) addSelect(f.controls(), "Rank", ranks.map((r) => [String(r), String(r)]), (v) => { state.rank = Number(v); chart.render(); });
  const phases = [...new Set(of("phase"))].sort(names.compare);
  const chart = addChart(f.body, () => {
    const rows = of("rank").map((_, i) => i).filter((i) => of("rank")[i] === state.rank);
    const hover = (i) => `<b>iteration ${of("step")[i]}: ${plain(of("label")[i] || of("phase")[i])}</b><br>${ns(of("dur_ns")[i])} = ${exact("ns", of("dur_ns")[i])}, busy ${ns(of("busy_ns")[i])}${of("slow")[i] ? "<br>slow for its phase and batch" : ""}`;
    const data = phases.map((phase, k) => {
      const mine = rows.filter((i) => of("phase")[i] === phase);
      return { type: "scatter", mode: "markers", name: plain(phase), x: mine.map((i) => of("start_ns")[i] / xSize), y: mine.map((i) => of("dur_ns")[i] / ySize), marker: { color: kinds()[k % 10], symbol: SYMBOLS[k % 10], size: mine.map((i) => (of("slow")[i] ? 12 : 8)), line: { width: mine.map((i) => (of("slow")[i] ? 2 : 0)), color: colour("late") } }, hovertext: mine.map(hover), hovertemplate: "%{hovertext}<extra></extra>" };
    });
    return { data, height: 320, layout: { xaxis: { title: { text: `time, ${xUnit}` }, showgrid: false }, yaxis: { title: { text: `length, ${yUnit}` }, rangemode: "tozero" }, showlegend: true, hovermode: "closest" }, says: `Iterations of rank ${state.rank} over time by phase: ${phases.map((p) => `${rows.filter((i) => of("phase")[i] === p).length} ${p}`).join(", ")}` };
  }, (point) => chooseStep(`@${of("step")[of("rank").map((_, i) => i).filter((i) => of("rank")[i] === state.rank && of("phase")[i] === phases[point.curveNumber])[point.pointNumber]]}`));
  f.table(grid, "iterations");
}
