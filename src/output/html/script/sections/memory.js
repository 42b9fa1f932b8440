// Memory over time, its peaks, and what holds them.

import { addChart, addSelect, nameBars } from "page/chart.js";
import { stepFollowers } from "page/follow.js";
import { axisUnit, bytes, exact, inLines, make, ns, percent, plain, plural } from "page/format.js";
import { TOP } from "page/section.js";
import { colour, kinds } from "page/theme.js";

export function memorySection(f) {
  const { curve, content, steps, peaks } = f.grids;
  const starts = curve.of("start_ns");
  const [unit, size] = axisUnit(starts);
  const begins = steps.of("start_ns");
  // the stretch of a chosen step; null: all
  let shownStep = null;
  const stretch = () => {
    const at = steps.of("step").findIndex((s) => shownStep !== null && String(s) === shownStep.replace(/^@/, ""));
    return at < 0 || begins[at] === null ? null : [begins[at], begins[at + 1] ?? starts[starts.length - 1]];
  };
  const overTime = addChart(f.body, () => {
    const x = starts.map((v) => v / size);
    const most = Math.max(1, ...curve.of("highest_bytes"), ...curve.of("reserved_bytes").map((v) => v || 0));
    const [name, by] = most < 1e6 ? ["kB", 1e3] : most < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
    const line = (label, column, key, more) => ({
      type: "scatter", mode: "lines", name: label, x, y: curve.of(column).map((v) => (v === null ? null : v / by)), connectgaps: false,
      line: { color: key, width: 2, shape: "hv" },
      hovertext: starts.map((s, i) => `from ${ns(s)}<br>${label} ${curve.of(column)[i] === null ? "" : `${bytes(curve.of(column)[i])} = ${exact("bytes", curve.of(column)[i])}`}`),
      hovertemplate: "%{hovertext}<extra></extra>", ...more,
    });
    const data = [
      line("lowest", "lowest_bytes", colour("idle"), { line: { color: colour("idle"), width: 1, shape: "hv" } }),
      line("allocated", "highest_bytes", colour("memory"), { fill: "tonexty", fillcolor: `${colour("memory")}33` }),
    ];
    if (curve.of("reserved_bytes").some((v) => v)) data.push(line("reserved", "reserved_bytes", kinds()[0], { line: { color: kinds()[0], width: 1.5, dash: "dot", shape: "hv" } }));
    const [at, peak] = [peaks.of("at_ns")[0], peaks.of("peak_bytes")[0]];
    data.push({ type: "scatter", mode: "markers", name: "peak", x: [at / size], y: [peak / by], marker: { color: colour("late"), size: 10, symbol: "diamond" }, hovertext: [`<b>peak ${bytes(peak)}</b> = ${exact("bytes", peak)}<br>at ${ns(at)}, ${plain(peaks.of("phase")[0] || "")}<br>${plain(peaks.of("trigger")[0] || "")}`], hovertemplate: "%{hovertext}<extra></extra>" });
    const shapes = begins.length > 60 ? [] : begins.filter((v) => v !== null).map((v) => ({ type: "line", xref: "x", yref: "paper", x0: v / size, x1: v / size, y0: 0, y1: 1, line: { color: colour("line"), width: 1, dash: "dash" } }));
    const only = stretch();
    const range = only && only[1] > only[0] ? { range: only.map((v) => v / size) } : { autorange: true };
    return { data, height: 320, layout: { xaxis: { title: { text: only ? `time, ${unit} (step ${shownStep}; double click for all)` : `time, ${unit}` }, showgrid: false, ...range }, yaxis: { title: { text: name }, rangemode: "tozero" }, shapes, showlegend: true, hovermode: "closest" }, says: `Line of allocated memory over time with its peak of ${bytes(peak)} and the starts of ${steps.rows} steps` };
  });
  stepFollowers.push([overTime, (label) => { shownStep = label; overTime.render(); }]);
  if (content.rows > 0) {
    f.heading("What holds the peak");
    const all = [...new Set(content.of("kind"))];
    const state = { by: all.includes("op") ? "op" : all[0] };
    const words = { op: "operator", line: "line", module: "module", phase: "phase" };
    addSelect(f.controls(), "By", [state.by, ...all.filter((k) => k !== state.by)].map((k) => [k, words[k] || k]), (v) => { state.by = v; chart.render(); });
    const chart = addChart(f.body, () => {
      const rows = content.of("kind").map((_, i) => i).filter((i) => content.of("kind")[i] === state.by).slice(0, TOP);
      const peak = peaks.of("peak_bytes")[0];
      const [name, by] = peak < 1e6 ? ["kB", 1e3] : peak < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
      const bars = nameBars(rows.map((i) => content.of("holder")[i]), [{ name: "bytes", values: rows.map((i) => content.of("bytes")[i] / by), colours: rows.map((i) => (content.of("holder")[i].startsWith("[") ? colour("idle") : colour("memory"))) }], {
        unit: "", label: `held at the peak, ${name}`,
        hovers: (k) => { const i = rows[k]; const v = content.of("bytes")[i]; return `<b>${inLines(content.of("holder")[i])}</b><br>${bytes(v)} (${peak ? percent(v / peak) : ""}) = ${exact("bytes", v)}${content.of("count")[i] === null ? "" : `<br>${plural(content.of("count")[i], "allocation")}`}`; },
      });
      return { ...bars, says: `Bars of the ${rows.length} largest holders of the peak by ${words[state.by] || state.by}` };
    });
  } else f.body.append(make("p", { class: "note" }, "What holds the peak is not known: the file has no addresses or no totals."));
  f.table(peaks, "peaks by rank and device");
  f.table(content, "holders of the peak");
  f.table(steps, "memory by step");
  f.table(curve, "memory over time");
}
