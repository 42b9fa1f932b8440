// Memory over time, its peaks, and what holds them.

import { addChart, marks, nameBars, rowLabel, timeLines } from "page/chart.js";
import { addSelect } from "page/dom.js";
import { axisUnit, bytes, SIZES } from "page/format.js";
import { stepFollowers, TOP } from "page/section.js";
import { colour, kinds } from "page/theme.js";

const HOLDERS = { op: "operator", line: "line", module: "module", phase: "phase" };
/** A unit of memory for an axis. */
const sizeUnit = (values) => axisUnit(values, SIZES.slice(1));

export function memorySection(f) {
  const { curve, content, steps, peaks } = f.grids;
  const starts = curve.of("start_ns");
  const [unit, size] = axisUnit(starts);
  const begins = steps.of("start_ns");
  // the stretch of a chosen step; null: all
  /** @type {string | null} */
  let chosen = null;
  const stretch = () => {
    const at = steps.of("step").findIndex((s) => String(s) === chosen?.replace(/^@/, ""));
    return at < 0 || begins[at] === null ? null : [begins[at], begins[at + 1] ?? starts[starts.length - 1]];
  };
  const peak = peaks.row(0);
  const overTime = addChart(f.body, () => {
    const [name, by] = sizeUnit([...curve.of("highest_bytes"), ...curve.of("reserved_bytes")]);
    const [idle, memory, reserved] = [colour("idle"), colour("memory"), kinds()[0]];
    const lines = [
      ["lowest", "lowest_bytes", { color: idle, width: 1 }],
      ["allocated", "highest_bytes", { color: memory }, { fill: "tonexty", fillcolor: `${memory}33` }],
      ["reserved", "reserved_bytes", { color: reserved, width: 1.5, dash: "dot" }],
    ].filter(([, column]) => column !== "reserved_bytes" || curve.has(column));
    const hover = rowLabel(peaks, peak, "peak", ["peak_bytes", "at_ns", "phase", "trigger"]);
    const top = { x: peak("at_ns") / size, y: peak("peak_bytes") / by, size: 10, hover };
    const dashed = { color: colour("line"), width: 1, dash: "dash" };
    const edge = (x) => ({ type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: dashed });
    const only = stretch();
    const range = only && only[1] > only[0] ? { range: only.map((v) => v / size) } : { autorange: true };
    const text = only ? `time, ${unit} (step ${chosen}; double click for all)` : `time, ${unit}`;
    return {
      data: [...timeLines(curve, lines, size, 1 / by), marks("peak", 2, [top], { color: colour("late") })],
      height: 320,
      layout: {
        xaxis: { title: { text }, showgrid: false, ...range }, yaxis: { title: { text: name }, rangemode: "tozero" },
        shapes: begins.length > 60 ? [] : begins.filter((v) => v !== null).map((v) => edge(v / size)), showlegend: true,
      },
      says: `Line of allocated memory over time, its peak of ${bytes(peak("peak_bytes"))}, and ${steps.rows} steps`,
    };
  });
  stepFollowers.push([overTime, (label) => { chosen = label; overTime.render(); }]);
  if (content.rows > 0) holders(f, content, peak("peak_bytes"));
  else f.note("What holds the peak is not known: the file has no addresses or no totals.");
  f.table(peaks, "peaks by rank and device");
  f.table(content, "holders of the peak");
  f.table(steps, "memory by step");
  f.table(curve, "memory over time");
}

function holders(f, content, peak) {
  f.heading("What holds the peak");
  const all = content.distinct("kind");
  let kind = all.includes("op") ? "op" : all[0];
  const options = [kind, ...all.filter((k) => k !== kind)].map((k) => [k, HOLDERS[k] || k]);
  addSelect(f.controls(), "By", options, (v) => { kind = v; chart.render(); });
  const [unit, by] = sizeUnit([peak]);
  const tint = (row) => colour(row("holder").startsWith("[") ? "idle" : "memory");
  const chart = addChart(f.body, () => {
    const rows = content.list().filter((row) => row("kind") === kind).slice(0, TOP);
    return nameBars(content, rows, {
      name: (row) => row("holder"), unit, hover: ["bytes", "count"], label: "held at the peak",
      series: [{ name: "bytes", value: (row) => row("bytes") / by, colour: tint }],
      says: `Bars of the ${rows.length} largest holders of the peak by ${HOLDERS[kind] || kind}`,
    });
  });
}
