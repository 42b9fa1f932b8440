// Pointers and keys on the time axis. One pointer drags, two pinch, a wheel zooms, a click chooses or unfolds; arrow
// keys choose what is beside, others zoom, move and unfold. `acts`: what the time axis does.

import { followKeys } from "page/dom.js";
import { between } from "page/format.js";
import { AXIS, LEVEL } from "page/timeline/geometry.js";

/** What is at a point of the canvas. `marks`: where marks are drawn. */
function foundAt(g, marks, px, py) {
  const row = g.rowAt(py);
  const mark = marks.find((m) => Math.hypot(m.x - px, m.y - py) <= 9);
  if (mark) return { mark: mark.mark, row };
  if (!row || px < g.gutter()) return { row, isLabel: true };
  const t = g.timeAt(px);
  if (row.kind === "line") return { row, point: row.line.points.findLast((p) => p.start <= t) };
  if (row.kind === "track") return spanAt(g, row, t, py) ?? { row };
  if (row.kind === "host" || t < row.lane.start || t >= row.lane.until) return { row };
  return blockPlace(g, row, g.model.blockAt(row.lane, t), t);
}

function spanAt(g, row, t, py) {
  const { model } = g;
  const level = Math.floor((py - g.topOf(row) - 3) / LEVEL) + row.track.least;
  const least = 1 / g.scale();
  for (let i = row.track.first; i < row.track.end; i++) {
    const [start, until] = [model.spanStarts[i], model.spanUntil(i)];
    if (model.depths[i] === level && start <= t && t <= Math.max(until, start + least)) return spanPlace(g, row, i);
  }
  return null;
}

/** A block of a lane's row as something that can be chosen. */
function blockPlace({ model }, row, b, t = model.starts[b]) {
  const wait = row.lane.waits.find((w) => w.start <= t && t < w.start + w.dur);
  return { row, lane: row.lane, block: b, from: model.starts[b], until: model.until(b), wait };
}

/** A span of a stream or thread as something that can be chosen. */
const spanPlace = ({ model }, row, i) =>
  ({ row, lane: row.lane, span: i, from: model.spanStarts[i], until: model.spanUntil(i) });

/** Makes a canvas follow pointers. `marks` tells where marks are drawn now. */
export function followPointers(canvas, view, g, marks, acts) {
  const held = new Map();
  let moved = 0;
  /** @returns {[number, number]} */
  const point = (e) => {
    const box = canvas.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  };
  /** @returns {any} */
  const find = ([px, py]) => foundAt(g, marks(), px, py);
  canvas.addEventListener("pointerdown", (e) => {
    held.set(e.pointerId, point(e));
    moved = 0;
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    const now = point(e);
    const before = held.get(e.pointerId);
    if (!before) {
      const found = find(now);
      canvas.style.cursor = found.isLabel || found.mark ? "pointer" : "grab";
      acts.hover(found, ...now);
      return;
    }
    held.set(e.pointerId, now);
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    acts.hideLabel();
    const [, other] = [...held].find(([id]) => id !== e.pointerId) ?? [];
    if (other) {
      const [was, is] = [Math.abs(before[0] - other[0]), Math.abs(now[0] - other[0])];
      if (was > 8 && is > 8) g.zoom(is / was, g.timeAt((now[0] + other[0]) / 2));
    } else if (before[0] >= g.gutter()) {
      const by = (before[0] - now[0]) / g.scale();
      g.look(g.from + by, g.until + by);
      if (e.pointerType === "mouse") view.scrollTop += before[1] - now[1];
    }
  });
  canvas.addEventListener("pointerup", (e) => {
    held.delete(e.pointerId);
    if (moved > 4) return;
    const found = find(point(e));
    if (found.mark) acts.select({ ...found.mark.place, cause: found.mark.cause });
    else if (found.lane) acts.select(found);
    else if (found.row && (found.isLabel || found.row.kind === "host")) acts.toggle(found.row);
  });
  canvas.addEventListener("pointercancel", (e) => held.delete(e.pointerId));
  canvas.addEventListener("pointerleave", acts.leave);
  canvas.addEventListener("dblclick", (e) => {
    const { from, until } = find(point(e));
    if (from !== undefined) g.look(from - (until - from) * 0.3, until + (until - from) * 0.3);
  });
  canvas.addEventListener("wheel", (e) => {
    const isZoom = e.ctrlKey || e.metaKey || e.altKey;
    if (!isZoom && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return;
    e.preventDefault();
    if (isZoom) g.zoom(Math.exp(-e.deltaY / 300), g.timeAt(point(e)[0]));
    else g.pan(e.deltaX / (g.width - g.gutter()));
  }, { passive: false });
}

/** Makes a canvas follow keys. `chosen` tells what is chosen now. */
export function followTimelineKeys(canvas, view, g, chosen, acts) {
  const { model } = g;

  /** Chooses what a row has at a moment, and brings it into view. */
  function moveTo(row, t) {
    if (g.topOf(row) < AXIS) view.scrollTop = row.y - AXIS;
    if (g.topOf(row) + row.height > g.height) view.scrollTop = row.y + row.height - g.height;
    if (row.kind === "host") acts.select({ row, lane: row.lanes[0], from: g.step.begin, until: g.step.until });
    else if (row.kind === "lane") acts.select(blockPlace(g, row, model.blockAt(row.lane, t)));
    else {
      const { first, end } = row.track;
      const near = model.spanStarts.subarray(first, end).findIndex((_, i) => model.spanUntil(first + i) > t);
      acts.select(spanPlace(g, row, first + Math.max(0, near)));
    }
    const { from, until } = chosen();
    if (from >= g.until || until <= g.from) g.look(from - g.length() / 3, from + (2 * g.length()) / 3);
  }

  followKeys(canvas, () => {
    const now = chosen();
    // nothing of a line is chosen
    const rows = g.rows.filter((r) => r.kind !== "line");
    const at = now ? Math.max(0, rows.indexOf(g.rowOfChosen(now))) : 0;
    const row = rows[at];
    const t = now ? now.from : g.step.begin;
    const middle = now ? (now.from + now.until) / 2 : undefined;
    const beside = (by) => {
      if (!now || row.kind === "host") return moveTo(row, t);
      const [index, { first, end }] = row.kind === "lane" ? [now.block, row.lane] : [now.span, row.track];
      const next = between(first, index + by, end - 1);
      return row.kind === "lane" ? moveTo(row, model.starts[next]) : acts.select(spanPlace(g, row, next));
    };
    const closer = () => g.zoom(1.6, middle);
    return {
      ArrowRight: () => beside(1), ArrowLeft: () => beside(-1),
      ArrowDown: () => moveTo(rows[Math.min(at + (now ? 1 : 0), rows.length - 1)], t),
      ArrowUp: () => moveTo(rows[Math.max(at - 1, 0)], t),
      "+": closer, "=": closer, "-": () => g.zoom(1 / 1.6), 0: acts.fit,
      PageDown: () => g.pan(0.5), PageUp: () => g.pan(-0.5),
      Enter: () => acts.toggle(row), Escape: () => acts.select(null),
    };
  });
}
