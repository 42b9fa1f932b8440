// What is at a point of the time axis, and what it is in words, with exact values.

import { count, exact, ns, plural } from "page/format.js";
import { blockAt, LANE_PARTS, words } from "page/timeline/model.js";
import { LEVEL } from "page/timeline/rows.js";

/** What is at a point of the canvas. `marks`: where marks are drawn. */
export function foundAt(g, marks, px, py) {
  const row = g.rowAt(py);
  const mark = marks.find((m) => Math.hypot(m.x - px, m.y - py) <= 9);
  if (mark) return { mark: mark.mark, row };
  if (!row || px < g.gutter()) return { row, isLabel: true };
  const t = g.timeAt(px);
  if (row.kind === "track") {
    const { start, dur, depth } = g.model.spans;
    const level = Math.floor((py - g.topOf(row) - 3) / LEVEL) + row.track.least;
    const least = 1 / g.scale();
    for (let i = row.track.first; i < row.track.end; i++) if (depth[i] === level && start[i] <= t && t <= Math.max(start[i] + dur[i], start[i] + least)) return spanPlace(g, row, i);
    return { row };
  }
  if (row.kind === "host") return { row, t };
  if (t < row.lane.start || t >= row.lane.until) return { row };
  return blockPlace(g, row.lane, blockAt(g.model, row.lane, t), row, t);
}

/** A block as something that can be chosen. */
export function blockPlace(g, lane, b, row, t = g.model.starts[b]) {
  const wait = lane.waits.find((w) => w.start <= t && t < w.start + w.dur);
  return { row, lane, block: b, from: g.model.starts[b], until: g.model.starts[b] + g.model.durs[b], wait };
}

/** A span of a stream or thread as something that can be chosen. */
export function spanPlace(g, row, i) {
  const { start, dur } = g.model.spans;
  return { row, lane: row.lane, span: i, from: start[i], until: start[i] + dur[i] };
}

/** The kernel, copy, frame or call that something is; none where it has no name. */
export function nameOf(model, found) {
  if (found.span !== undefined) return model.spans.name[found.span];
  return found.block !== undefined ? model.names[found.block] : null;
}

/** What something is, in lines of text. */
export function told(model, found) {
  if (found.mark) return [`cause ${found.mark.cause + 1}`];
  if (found.span !== undefined) {
    const s = model.spans;
    return [s.name[found.span], `${words(s.class[found.span])}, ${ns(s.dur[found.span])} = ${exact("ns", s.dur[found.span])}`, `from ${exact("ns", s.start[found.span])}`];
  }
  if (found.block === undefined) return found.row && found.row.kind === "host" ? [`${found.row.host}: ${plural(found.row.lanes.length, "lane")}, shares of their time`] : [];
  const b = found.block;
  const pieces = model.pieces(b);
  const part = LANE_PARTS[model.parts[b]];
  const out = [`rank ${found.lane.rank}: ${pieces > 1 ? `${count(pieces)} pieces` : part}, ${ns(model.durs[b])} = ${exact("ns", model.durs[b])}`];
  if (pieces > 1) {
    out.push(model.times(b).map((v, p) => (v ? `${LANE_PARTS[p]} ${exact("ns", v)}` : "")).filter((v) => v).join(", "));
    out.push(`longest: ${part}, ${exact("ns", model.longest(b))}`);
  }
  if (model.waiting[b] > 0) {
    const rest = model.time(b, 1) - model.waiting[b];
    out.push(`of that waiting for other ranks ${exact("ns", model.waiting[b])}${rest ? `, ${found.lane.unmatched ? "transfer or without a match" : "transfer"} ${exact("ns", rest)}` : ""}`);
  }
  if (model.names[b]) out.push(model.names[b]);
  if (model.causes[b]) out.push(`cause: ${words(model.causes[b])}`);
  if (found.wait && !found.waiting) out.push(`waits ${exact("ns", found.wait.dur)} for rank ${found.wait.late} (${words(found.wait.kind)})`);
  out.push(`from ${exact("ns", model.starts[b])} of the step`);
  return out;
}
