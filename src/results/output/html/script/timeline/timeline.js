// The time axis: a canvas that shows a step of a model, what is chosen on it, and a label that follows the pointer.

import { makeCanvas, makeLabel, moveLabel, sizeCanvas } from "page/canvas.js";
import { make } from "page/dom.js";
import { count, exact, ns, nsExactly, percent, plural, words } from "page/format.js";
import { isOnPaper } from "page/theme.js";
import { AXIS, Geometry } from "page/timeline/geometry.js";
import { followPointers, followTimelineKeys } from "page/timeline/input.js";
import { LANE_PARTS } from "page/timeline/model.js";
import { Painter } from "page/timeline/paint.js";

/** A step in words: its length, the shares of the parts in the time of all lanes, and for whom they wait. */
function stepTold(model, step) {
  const all = step.lanes.map((lane) => model.partsOf(lane));
  const sums = Object.keys(all[0]).map((part) => ({ part, time: all.reduce((s, of) => s + of[part], 0) }));
  const whole = sums.reduce((s, { time }) => s + time, 0);
  const shares = sums.filter(({ time }) => time)
    .map(({ part, time }) => `${part} ${percent(time / whole)}`).join(", ");
  const late = [...new Set(step.lanes.flatMap((l) => l.waits.map((w) => w.late)))].sort((a, b) => a - b).slice(0, 8);
  const waits = late.length ? `; others wait for ranks ${late.join(", ")}` : "";
  return `step ${step.label}, ${ns(step.length)}: ${plural(step.lanes.length, "lane")}; ${shares}${waits}`;
}

/** What something is, in lines of text with exact values. */
function told(model, found) {
  if (found.mark) return [`cause ${found.mark.cause + 1}`];
  if (found.span !== undefined) {
    const [name, kind, dur] = [model.spanNames, model.classes, model.spanDurs].map((of) => of[found.span]);
    return [name, `${words(kind)}, ${nsExactly(dur)}`, `from ${exact("ns", found.from)}`];
  }
  if (found.block !== undefined) return blockTold(model, found);
  if (found.row?.kind === "line") return lineTold(found);
  if (found.row?.kind !== "host") return [];
  return [`${found.row.host}: ${plural(found.row.lanes.length, "lane")}, shares of their time`];
}

/** A value of a hardware counter, and for which time it stands. */
function lineTold({ row: { line }, point }) {
  if (!point) return [line.name];
  const shown = (v) => `${Number(v.toPrecision(6))}${line.unit && ` ${line.unit}`}`;
  const { start, until, mean, least, largest } = point;
  const range = least < largest ? `, ${shown(least)} to ${shown(largest)}` : "";
  const time = until > start ? `for ${nsExactly(until - start)} from` : "at";
  return [`${line.name}: ${shown(mean)}${range}`, `${time} ${exact("ns", start)} of the step`];
}

/** What a block is: communication is a transfer only where it is known for whom it waits. */
function partTold(model, b, lane) {
  if (model.parts[b] !== 1) return LANE_PARTS[model.parts[b]];
  if (model.waiting[b] > 0) return model.waiting[b] < model.time(b, 1) ? "waiting and transfer" : "waiting";
  return lane.unmatched ? "communication" : model.exposedName;
}

function blockTold(model, { block: b, lane, wait, waiting }) {
  const [pieces, part, waits] = [model.pieces(b), partTold(model, b, lane), model.waiting[b]];
  const out = [`rank ${lane.rank}: ${pieces > 1 ? `${count(pieces)} pieces` : part}, ${nsExactly(model.durs[b])}`];
  if (pieces > 1) {
    const times = LANE_PARTS.map((name, p) => [name, model.time(b, p)]).filter(([, time]) => time);
    out.push(times.map(([name, time]) => `${name} ${exact("ns", time)}`).join(", "));
    out.push(`longest: ${part}, ${exact("ns", model.longest(b))}`);
  }
  if (waits > 0) {
    const rest = model.time(b, 1) - waits;
    const what = lane.unmatched ? "transfer or without a match" : "transfer";
    out.push(`of that waiting for other ranks ${exact("ns", waits)}${rest ? `, ${what} ${exact("ns", rest)}` : ""}`);
  }
  if (model.names[b]) out.push(model.names[b]);
  if (model.causes[b]) out.push(`cause: ${words(model.causes[b])}`);
  if (wait && !waiting) out.push(`waits ${exact("ns", wait.dur)} for rank ${wait.late} (${words(wait.kind)})`);
  return [...out, `from ${exact("ns", model.starts[b])} of the step`];
}

/** The kernel, copy, frame or call that something is; none where it has no name. */
const nameOf = (model, { span, block }) =>
  (span !== undefined ? model.spanNames[span] : block !== undefined ? model.names[block] : null);

/** Largest height on paper, which does not scroll, in pixels. */
const MOST_ON_PAPER = 4000;

/** Draws a step of a model into `where`; `chosen` is told what the reader chose. */
export function makeTimeline(where, model, chosen) {
  const canvas = makeCanvas("lanes", "timeline", { "aria-describedby": "timeline-keys" });
  const spacer = make("div", {}, canvas);
  const view = make("div", { class: "lanes-view" }, spacer);
  const label = makeLabel();
  where.append(make("div", { class: "lanes-frame" }, view, label));
  const g = new Geometry(model, () => view.scrollTop, draw);
  const painter = new Painter(canvas.getContext("2d"), g);
  /** @type {any} */
  let [selected, hovered] = [null, null];
  let [marks, frames, isWaiting] = [/** @type {any[]} */ ([]), 0, false];

  function draw() {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      paint();
    });
  }

  function resize() {
    const total = g.layout();
    const most = isOnPaper() ? MOST_ON_PAPER : Math.max(240, Math.round(window.innerHeight * 0.62));
    [g.width, g.height] = [view.clientWidth || where.clientWidth, Math.min(total, most)];
    view.style.height = `${g.height}px`;
    spacer.style.height = `${total}px`;
    sizeCanvas(canvas, g.width, g.height);
  }

  function paint() {
    if (g.width === 0) resize();
    frames += 1;
    canvas.dataset.frames = frames;
    marks = painter.paint(selected, selected || hovered);
  }

  const hideLabel = () => { label.hidden = true; };
  const acts = {
    hideLabel,
    select(found) {
      selected = found;
      draw();
      chosen(found && { ...found, lines: told(model, found), name: nameOf(model, found), step: g.step });
    },
    toggle(row) {
      const isEmpty = row.kind === "lane" && row.lane.tracks.length + row.lane.lines.length === 0;
      if (row.kind === "track" || row.kind === "line" || isEmpty) return;
      if (!g.open.delete(row.key)) g.open.add(row.key);
      resize();
      draw();
    },
    fit() {
      g.fit();
      draw();
    },
    hover(found, px, py) {
      hovered = found;
      moveLabel(label, told(model, found), px, Math.min(py, g.height - 26), g.width);
      draw();
    },
    leave() {
      hideLabel();
      hovered = null;
      draw();
    },
  };
  followPointers(canvas, view, g, () => marks, acts);
  followTimelineKeys(canvas, view, g, () => selected, acts);
  view.addEventListener("scroll", draw);

  function showStep(index) {
    g.step = model.steps[index];
    selected = hovered = null;
    view.scrollTop = 0;
    g.fit();
    resize();
    canvas.setAttribute("aria-label", `Timeline of ${stepTold(model, g.step)}`);
    draw();
  }

  /** Unfolds what holds a lane, and scrolls to its row. */
  function unfold(lane) {
    if (g.folds()) g.open.add(`host ${g.hostOf(lane)}`);
    resize();
    const row = g.rowOf(lane);
    view.scrollTop = Math.max(0, row.y - AXIS - 40);
    draw();
    return row;
  }

  /** Shows a place of a step: its lane unfolded, the stretch in the middle, and chosen. */
  function showPlace(index, place, cause) {
    if (g.step !== model.steps[index]) showStep(index);
    if (place.lane.tracks.length) g.open.add(`lane ${place.lane.index}`);
    const row = unfold(place.lane);
    const length = place.until - place.from;
    g.look(place.from - length, place.until + length);
    acts.select({ ...place, row, cause });
    canvas.focus({ preventScroll: true });
  }

  showStep(0);
  return { geometry: g, showStep, showPlace, unfold, fit: acts.fit, render: () => { resize(); paint(); } };
}
