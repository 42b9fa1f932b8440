// The chunks of a pipeline as people draw them: a row a rank, the ideal of the same order below on the same axis.

import { HOVER, addChart, rowLabel } from "page/chart.js";
import { addSelect } from "page/dom.js";
import { axisUnit } from "page/format.js";
import { colour } from "page/theme.js";

/** Kinds of chunks: letter, name, colour. */
const KINDS = [
  ["F", "forward", "chunk-forward"], ["B", "backward", "chunk-backward"], ["I", "backward, inputs", "chunk-input"],
  ["W", "backward, weights", "chunk-weight"],
];
const TOLD = [
  "stage", "micro_batch", "with_stage", "with_micro_batch", "busy_ns", "inner_wait_ns", "inner_idle_ns",
  "wait_input_ns", "transfer_ns", "lag_ns",
];

/** The rows of each pipeline in each step; a last one that the page does not have in full is left out. */
function stepsOfPipelines(grid) {
  const out = new Map();
  for (const row of grid.list()) {
    const step = row("step");
    const name = step === null ? `pipeline ${row("pipeline")}` : `pipeline ${row("pipeline")}, step ${step}`;
    if (!out.has(name)) out.set(name, []);
    out.get(name).push(row);
  }
  if (grid.rest && out.size > 1) out.delete([...out.keys()].at(-1));
  return out;
}

export function pipelineSection(f) {
  const { chunks, pipelines, ranks, changes } = f.grids;
  const steps = chunks ? stepsOfPipelines(chunks) : new Map();
  if (steps.size > 0) {
    let chosen = [...steps.keys()][0];
    const options = [...steps.keys()].map((name) => [name, name]);
    if (options.length > 1) addSelect(f.controls(), "Show", options, (v) => { chosen = v; chart.render(); });
    const chart = addChart(f.body, () => drawn(chunks, steps.get(chosen), chosen));
  }
  [pipelines, ranks, changes].forEach((grid) => f.table(grid));
}

/** Bars of the chunks of a pipeline in a step. */
function drawn(grid, rows, title) {
  const start = Math.min(...rows.map((row) => row("start_ns")));
  const end = Math.max(...rows.map((row) => row("end_ns")));
  const [unit, size] = axisUnit([0, end - start]);
  const order = [...new Map(rows.map((row) => [row("rank"), row("stage")]))];
  const names = order.sort((a, b) => (a[1] ?? 0) - (b[1] ?? 0) || a[0] - b[0]).map(([rank]) => rank);
  const isIdealKnown = rows.some((row) => row("ideal_end_ns") !== null);
  const gap = names.length + 0.5;
  const at = (row) => names.indexOf(row("rank"));
  const hover = (row) => {
    const place = row("stage") === null ? "" : ` ${row("stage")}${row("kind")}${row("micro_batch")}`;
    return rowLabel(grid, row, `rank ${row("rank")}:${place}`, TOLD);
  };
  const bars = (name, of, style, spans, more = {}) => ({
    type: "bar", orientation: "h", name, y: spans.map((s) => s.y), base: spans.map((s) => (s.from - start) / size),
    x: spans.map((s) => (s.to - s.from) / size), width: 0.84,
    marker: { line: { width: 0.5, color: colour("panel") }, ...style },
    text: spans.map((s) => s.text), textposition: "inside", insidetextanchor: "middle", textangle: 0,
    hovertext: of.map(hover), hovertemplate: HOVER, ...more,
  });
  const text = (row) => [row("micro_batch"), row("with_micro_batch")].filter((n) => n !== null).join("+");
  const traces = KINDS.flatMap(([kind, name, tint]) => {
    const of = rows.filter((row) => row("kind") === kind);
    if (of.length === 0) return [];
    const real = of.map((row) => ({ y: at(row), from: row("start_ns"), to: row("end_ns"), text: text(row) }));
    const ideal = of.filter((row) => row("ideal_end_ns") !== null);
    const replayed = ideal.map((row) => ({
      y: gap + at(row), from: row("ideal_start_ns"), to: row("ideal_end_ns"), text: text(row),
    }));
    const style = { color: colour(tint) };
    const shown = bars(name, of, style, real, { legendgroup: kind });
    if (ideal.length === 0) return [shown];
    return [shown, bars(name, ideal, style, replayed, { legendgroup: kind, showlegend: false })];
  });
  const waiting = rows.filter((row) => row("wait_input_ns") > 0);
  const waits = waiting.map((row) => {
    const from = row("start_ns") - row("wait_input_ns") - row("transfer_ns") - row("lag_ns");
    return { y: at(row), from, to: from + row("wait_input_ns"), text: "" };
  });
  const hatched = { color: colour("panel"), pattern: { shape: "/", fgcolor: colour("idle"), size: 6 } };
  if (waits.length) traces.unshift(bars("waits for its input", waiting, hatched, waits));
  const ticks = names.map((rank, i) => [i, `rank ${rank}`]);
  if (isIdealKnown) ticks.push(...names.map((rank, i) => [gap + i, `ideal ${rank}`]));
  return {
    data: traces,
    height: 120 + 24 * ticks.length,
    layout: {
      barmode: "overlay", showlegend: true,
      xaxis: { title: { text: `${title}: time, ${unit}` }, range: [0, (end - start) / size] },
      yaxis: { autorange: "reversed", tickvals: ticks.map((t) => t[0]), ticktext: ticks.map((t) => t[1]) },
    },
    says: `Bars of the chunks of ${title} on ${names.length} ranks, and the same order with equal chunks below`,
  };
}
