// The chunks of a pipeline as people draw them: a row a rank, the ideal of the same order below on the same axis; and
// what its bubble consists of.

import { addChart, marks, rowLabel, spanBars, spanLayout } from "page/chart.js";
import { addSelect } from "page/dom.js";
import { axisUnit, names, percent, plural } from "page/format.js";
import { stackedBars, WORST } from "page/section.js";
import { colour, kinds } from "page/theme.js";

/** Kinds of chunks: letter, name, colour. */
const KINDS = [
  ["F", "forward", "chunk-forward"], ["B", "backward", "chunk-backward"], ["I", "backward, inputs", "chunk-input"],
  ["W", "backward, weights", "chunk-weight"],
];
const TOLD = [
  "stage", "micro_batch", "with_stage", "with_micro_batch", "busy_ns", "inner_wait_ns", "inner_idle_ns",
  "wait_input_ns", "transfer_ns", "lag_ns",
];

/** The parts of the bubble, and what each is called. */
const REASONS = [
  ["schedule_ns", "schedule"], ["imbalance_ns", "imbalance"], ["jitter_ns", "jitter"], ["transfer_ns", "transfer"],
  ["lag_ns", "lag"],
];

const nameOf = (row) => (row("step") === null ? "" : `step ${row("step")}, `) + `pipeline ${row("pipeline")}`;

/** The rows of each pipeline in each step, that with the largest bubble first; one that is cut short is left out. */
function stepsOfPipelines(grid) {
  const out = new Map();
  for (const row of grid.list()) {
    const name = nameOf(row);
    if (!out.has(name)) out.set(name, []);
    out.get(name).push(row);
  }
  if (grid.rest && out.size > 1) out.delete([...out.keys()].at(-1));
  const all = [...out].map(([name, rows]) => ({ name, rows, ...extent(rows) }));
  return all.sort((a, b) => b.bubble - a.bubble);
}

/** Start and end of a pipeline in a step, and the share of that in which its ranks compute nothing. */
function extent(rows) {
  const start = Math.min(...rows.map((row) => row("start_ns")));
  const end = Math.max(...rows.map((row) => row("end_ns")));
  const busy = rows.reduce((sum, row) => sum + row("busy_ns"), 0);
  return { start, end, bubble: 1 - busy / (end - start) / new Set(rows.map((row) => row("rank"))).size };
}

export function pipelineSection(f) {
  const { chunks, pipelines, ranks, changes } = f.grids;
  const steps = stepsOfPipelines(chunks);
  if (steps.length > 0) {
    let chosen = steps[0];
    const options = steps.map(({ name, bubble }, i) => [i, `${name}: bubble ${percent(bubble)}`]);
    if (options.length > 1) addSelect(f.controls(), "Show", options, (i) => { chosen = steps[i]; chart.render(); });
    const chart = addChart(f.body, () => drawn(chunks, chosen));
    const all = pipelines.rows + pipelines.rest;
    if (steps.length < all) {
      const drawnOf = `${steps.length} of ${plural(all, "pipeline and step", "pipelines and steps")}`;
      f.note(`${drawnOf} are drawn: those with the largest bubbles, and the one in the middle of all.`);
    }
  }
  const told = pipelines.list().filter((row) => row("schedule_ns") !== null).slice(0, WORST);
  if (told.length > 0) {
    f.heading("Bubble by reason");
    addChart(f.body, () => reasons(told.sort((a, b) => names.compare(nameOf(a), nameOf(b)))));
  }
  [pipelines, ranks, changes].forEach((grid) => f.table(grid));
}

/** Bars of what the bubbles consist of; a mark where each would be with equal chunks and no transfer. */
function reasons(rows) {
  const whole = rows.map((row) => row("t_ns"));
  const parts = REASONS.map(([column, name], k) => ({
    name, values: rows.map((row) => row(column)), marker: { color: kinds()[k] },
  }));
  const says = `Bars of the bubble of ${plural(rows.length, "pipeline and step", "pipelines and steps")} by reason`;
  const isOne = new Set(rows.map((row) => row("pipeline"))).size === 1;
  const labels = rows.map((row) => (isOne && row("step") !== null ? row("step") : nameOf(row)));
  const xTitle = isOne ? `step of pipeline ${rows[0]("pipeline")}` : "step, pipeline";
  const chart = stackedBars(labels, parts, { xTitle, whole, wholeName: "pipeline", says });
  const [, size] = axisUnit(whole);
  const ideal = rows.map((row, i) => ({
    x: i, y: row("ideal_pct") / 100 * row("t_ns") / size, size: 12,
    hover: `<b>${labels[i]}</b><br>with equal chunks and no transfer ${percent(row("ideal_pct") / 100)}`,
  }));
  const mark = marks("bubble with equal chunks and no transfer", 2, ideal, { color: colour("ink") });
  return { ...chart, data: [...chart.data, mark], layout: { ...chart.layout, barmode: "relative", showlegend: true } };
}

/** Bars of the chunks of a pipeline in a step. */
function drawn(grid, { name: title, rows, start, end }) {
  const [unit, size] = axisUnit([0, end - start]);
  const order = [...new Map(rows.map((row) => [row("rank"), row("stage")]))];
  const ranks = order.sort((a, b) => (a[1] ?? 0) - (b[1] ?? 0) || a[0] - b[0]).map(([rank]) => rank);
  const gap = ranks.length + 0.5;
  const text = (row) => [row("micro_batch"), row("with_micro_batch")].filter((n) => n !== null).join("+");
  const span = (row, from, to, top = 0) => {
    const place = row("stage") === null ? "" : ` ${row("stage")}${row("kind")}${row("micro_batch")}`;
    const hover = rowLabel(grid, row, `rank ${row("rank")}:${place}`, TOLD);
    return { y: top + ranks.indexOf(row("rank")), from: (from - start) / size, to: (to - start) / size, hover };
  };
  const isIdealKnown = rows.some((row) => row("ideal_end_ns") !== null);
  const traces = KINDS.flatMap(([kind, name, tint]) => {
    const of = rows.filter((row) => row("kind") === kind);
    const ideal = of.filter((row) => row("ideal_end_ns") !== null);
    const spans = [
      ...of.map((row) => ({ ...span(row, row("start_ns"), row("end_ns")), text: text(row) })),
      ...ideal.map((row) => ({ ...span(row, row("ideal_start_ns"), row("ideal_end_ns"), gap), text: text(row) })),
    ];
    return spans.length ? [spanBars(name, colour(tint), spans)] : [];
  });
  const waits = rows.filter((row) => row("wait_input_ns") > 0).map((row) => {
    const from = row("start_ns") - row("wait_input_ns") - row("transfer_ns") - row("lag_ns");
    return { ...span(row, from, from + row("wait_input_ns")), text: "" };
  });
  const pattern = { shape: "/", fgcolor: colour("idle"), size: 6 };
  if (waits.length) traces.unshift(spanBars("waits for its input", colour("panel"), waits, { pattern }));
  const labels = ranks.map((rank, i) => [i, `rank ${rank}`]);
  if (isIdealKnown) labels.push(...ranks.map((rank, i) => [gap + i, `ideal ${rank}`]));
  return {
    data: traces, height: 120 + 24 * labels.length,
    layout: spanLayout(labels, `${title}: time, ${unit}`, (end - start) / size),
    says: `Bars of the chunks of ${title} on ${ranks.length} ranks, and the same order with equal chunks below`,
  };
}
