// Keys of the time axis: arrows choose what is beside, others zoom, move and unfold.

import { blockPlace, spanPlace } from "page/timeline/found.js";
import { AXIS } from "page/timeline/geometry.js";
import { blockAt } from "page/timeline/model.js";

/** Makes a canvas follow keys. `chosen` tells what is chosen now; `acts`: what the time axis does. */
export function followKeys(canvas, view, g, chosen, acts) {
  const { model } = g;

  /** Chooses what a row has at a moment, and brings it into view. */
  function moveTo(row, t) {
    if (g.topOf(row) < AXIS) view.scrollTop = row.y - AXIS;
    if (g.topOf(row) + row.height > g.height) view.scrollTop = row.y + row.height - g.height;
    if (row.kind === "host") acts.select({ row, lane: row.lanes[0], from: g.step.begin, until: g.step.until });
    else if (row.kind === "lane") acts.select(blockPlace(g, row.lane, blockAt(model, row.lane, t), row));
    else {
      const near = model.spans.start.subarray(row.track.first, row.track.end).findIndex((s, i) => s + model.spans.dur[row.track.first + i] > t);
      acts.select(spanPlace(g, row, row.track.first + Math.max(0, near)));
    }
    const now = chosen();
    if (now.from >= g.until || now.until <= g.from) g.look(now.from - (g.until - g.from) / 3, now.from + (2 * (g.until - g.from)) / 3);
  }

  canvas.addEventListener("keydown", (e) => {
    const now = chosen();
    const at = now ? Math.max(0, g.rows.indexOf(g.rowOfChosen(now))) : 0;
    const t = now ? now.from : g.step.begin;
    const middle = now ? (now.from + now.until) / 2 : undefined;
    const beside = (by) => {
      const row = g.rows[at];
      if (!now || row.kind === "host") return moveTo(row, t);
      if (row.kind === "lane") {
        const b = Math.min(Math.max(now.block + by, row.lane.first), row.lane.end - 1);
        return moveTo(row, model.starts[b]);
      }
      return acts.select(spanPlace(g, row, Math.min(Math.max(now.span + by, row.track.first), row.track.end - 1)));
    };
    const keys = {
      ArrowRight: () => beside(1), ArrowLeft: () => beside(-1),
      ArrowDown: () => moveTo(g.rows[Math.min(at + (now ? 1 : 0), g.rows.length - 1)], t),
      ArrowUp: () => moveTo(g.rows[Math.max(at - 1, 0)], t),
      "+": () => g.zoom(1.6, middle), "=": () => g.zoom(1.6, middle), "-": () => g.zoom(1 / 1.6), "0": () => acts.fit(),
      PageDown: () => g.pan(0.5), PageUp: () => g.pan(-0.5),
      Enter: () => acts.toggle(g.rows[at]), Escape: () => acts.select(null),
    };
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    keys[e.key]();
  });
}
