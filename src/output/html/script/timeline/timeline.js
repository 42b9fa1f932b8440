// The time axis: a canvas that shows a step of a model, what is chosen on it, and a label that follows the pointer.

import { make, ns, percent, plural, short } from "page/format.js";
import { isOnPaper } from "page/theme.js";
import { makeBrush } from "page/timeline/brush.js";
import { foundAt, nameOf, told } from "page/timeline/found.js";
import { AXIS, makeGeometry } from "page/timeline/geometry.js";
import { followKeys } from "page/timeline/keys.js";
import { LANE_PARTS } from "page/timeline/model.js";
import { paintAxis, paintChosen, paintMarks, paintWaits } from "page/timeline/overlay.js";
import { followPointers } from "page/timeline/pointer.js";
import { paintLabels, paintRows } from "page/timeline/rows.js";

/** Shares of the parts in the time of all lanes of a step, in words. */
function sharesOf(model, step) {
  const sums = LANE_PARTS.map(() => 0);
  for (const lane of step.lanes) for (let b = lane.first; b < lane.end; b++) for (let p = 0; p < sums.length; p++) sums[p] += model.time(b, p);
  const whole = sums.reduce((s, v) => s + v, 0);
  return LANE_PARTS.map((part, p) => `${part} ${percent(whole ? sums[p] / whole : 0)}`).join(", ");
}

/** Largest height on paper, which does not scroll, in pixels. */
const MOST_ON_PAPER = 4000;

/** Draws a step of a model into `where`; `chosen` is told what the reader chose. */
export function makeTimeline(where, model, chosen) {
  const canvas = make("canvas", { class: "lanes", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": "", "aria-describedby": "timeline-keys" });
  const spacer = make("div", {}, canvas);
  const view = make("div", { class: "lanes-view" }, spacer);
  const label = make("div", { class: "lanes-label", hidden: "", "aria-hidden": "true" });
  where.append(make("div", { class: "lanes-frame" }, view, label));
  const ctx = canvas.getContext("2d");
  const g = makeGeometry(model, () => view.scrollTop, draw);
  const brush = makeBrush(ctx);
  let [selected, hovered, marks, frames, isWaiting] = [null, null, [], 0, false];

  function draw() {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      paint();
    });
  }

  function resize() {
    g.layout();
    const room = Math.min(g.total, isOnPaper() ? MOST_ON_PAPER : Math.max(240, Math.round(window.innerHeight * 0.62)));
    [g.width, g.height] = [view.clientWidth || where.clientWidth, room];
    view.style.height = `${room}px`;
    spacer.style.height = `${g.total}px`;
    const sharp = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(g.width * sharp);
    canvas.height = Math.round(room * sharp);
    canvas.style.width = `${g.width}px`;
    canvas.style.height = `${room}px`;
    ctx.setTransform(sharp, 0, 0, sharp, 0, 0);
  }

  function paint() {
    if (g.width === 0) resize();
    brush.readTints();
    frames += 1;
    canvas.dataset.frames = frames;
    ctx.clearRect(0, 0, g.width, g.height);
    paintRows(g, brush);
    paintLabels(g, brush);
    paintWaits(g, brush, selected || hovered);
    marks = paintMarks(g, brush);
    if (selected) paintChosen(g, brush, selected);
    paintAxis(g, brush);
  }

  const acts = {
    select(found) {
      selected = found;
      draw();
      chosen(found ? { ...found, lines: told(model, found), name: nameOf(model, found), step: g.step } : null);
    },
    toggle(row) {
      if (row.kind === "track" || (row.kind === "lane" && row.lane.tracks.length === 0)) return;
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
      const lines = told(model, found);
      label.hidden = lines.length === 0;
      if (!label.hidden) {
        label.replaceChildren(...lines.map((l) => make("div", {}, short(l, 160))));
        label.style.left = `${Math.max(0, Math.min(px + 14, g.width - label.offsetWidth - 4))}px`;
        label.style.top = `${Math.min(py + 16, g.height - 10)}px`;
      }
      draw();
    },
    hideLabel() {
      label.hidden = true;
    },
    leave() {
      label.hidden = true;
      hovered = null;
      draw();
    },
  };
  followPointers(canvas, view, g, (px, py) => foundAt(g, marks, px, py), acts);
  followKeys(canvas, view, g, () => selected, acts);
  view.addEventListener("scroll", () => { draw(); });

  function showStep(index) {
    g.step = model.steps[index];
    selected = hovered = null;
    view.scrollTop = 0;
    g.fit();
    resize();
    const late = [...new Set(g.step.lanes.flatMap((l) => l.waits.map((w) => w.late)))].sort((a, b) => a - b);
    canvas.setAttribute("aria-label", `Timeline of step ${g.step.label}, ${ns(g.step.length)}: ${plural(g.step.lanes.length, "lane")}; ${sharesOf(model, g.step)}${late.length ? `; others wait for ranks ${late.slice(0, 8).join(", ")}` : ""}`);
    draw();
  }

  /** Shows the lane of a rank where lanes are folded by host. */
  function unfold(lane) {
    if (!g.folds()) return;
    g.open.add(`host ${g.hostOf(lane)}`);
    resize();
    view.scrollTop = Math.max(0, g.rowOf(lane).y - AXIS - 40);
    draw();
  }

  /** Shows a place of a step: its lane unfolded, the stretch in the middle, and chosen. */
  function showPlace(index, place, cause) {
    if (g.step !== model.steps[index]) showStep(index);
    if (g.folds()) g.open.add(`host ${g.hostOf(place.lane)}`);
    if (place.lane.tracks.length) g.open.add(`lane ${place.lane.index}`);
    resize();
    const row = g.rowOf(place.lane);
    view.scrollTop = Math.max(0, row.y - AXIS - 40);
    const length = place.until - place.from;
    g.look(place.from - length, place.until + length);
    acts.select({ ...place, row, cause });
    canvas.focus({ preventScroll: true });
  }

  return { state: g, showStep, showPlace, zoom: g.zoom, pan: g.pan, fit: acts.fit, render: () => { resize(); paint(); }, unfold };
}
