// Draws the rows of the time axis: blocks of a lane, shares of a host's lanes, spans of a stream or thread.

import { count, short } from "page/format.js";
import { isNarrow } from "page/theme.js";
import { STACKED } from "page/timeline/brush.js";
import { blockAt, CAUSE_TINTS, LANE_PARTS, WAITING, words } from "page/timeline/model.js";

const SPAN_TINTS = { kernel: "compute", memcpy: "memory", memset: "memory", operator: 2, runtime_call: 1, python: 4, annotation: 9, collective: "communication" };
const isTransfer = (name) => /nccl|rccl|oneccl|allreduce|all_reduce|allgather|reduce_scatter/i.test(name);
/** Height of a level of nested spans, in pixels. */
export const LEVEL = 13;

function paintLane(g, brush, lane, top, height) {
  const { model } = g;
  const [a, s, left, right] = [g.from, g.scale(), g.gutter(), g.width];
  const { tints } = brush;
  const pixel = [0, 0, 0, 0, 0];
  const foot = height < 20 ? 3 : 5;
  let at = -1;
  const flushPixel = () => {
    if (at >= 0) brush.stack(pixel, at, top, 1, height);
    pixel.fill(0);
  };
  for (let b = blockAt(model, lane, g.from); b < lane.end; b++) {
    const x0 = left + (model.starts[b] - a) * s;
    if (x0 >= right) break;
    const w = model.durs[b] * s;
    if (w < 1) {
      const px = Math.floor(x0);
      if (px !== at) {
        flushPixel();
        at = px;
      }
      for (let p = 0; p < 5; p++) pixel[p] += model.drawn(b, p);
      continue;
    }
    flushPixel();
    at = -1;
    const x1 = Math.max(x0, left);
    const width = Math.min(x0 + w, right) - x1;
    if (width <= 0) continue;
    const many = model.pieces(b) > 1;
    if (many) brush.stack(STACKED.map((_, p) => model.drawn(b, p)), x1, top, width, height);
    else brush.fill(tints.parts[model.parts[b]], x1, top, width, height);
    if (!many && model.waiting[b] > 0) paintWaiting(g, brush, lane, b, top, height);
    const tint = CAUSE_TINTS.has(model.causes[b]) ? tints.kinds[CAUSE_TINTS.get(model.causes[b])] : null;
    if (tint && width > 2) brush.fill(tint, x1, top + height - foot, width, foot);
    if (width > 46 && height >= 14) brush.text(many ? `${count(model.pieces(b))} pieces` : model.names[b] || words(model.causes[b] || LANE_PARTS[model.parts[b]]), x1, top, width, height, tints.parts[model.parts[b]], many || model.waiting[b] > 0);
    // an edge between neighbours of one colour
    if (width > 4) brush.fill(tints.panel, x1 + width - 0.5, top, 0.5, height);
  }
  flushPixel();
}

/** The part of a block of communication in which it waits for other ranks. */
function paintWaiting(g, brush, lane, b, top, height) {
  const [start, end] = [g.model.starts[b], g.model.starts[b] + g.model.durs[b]];
  for (const w of lane.waits) {
    const x0 = Math.max(g.x(Math.max(w.start, start)), g.gutter());
    const x1 = Math.min(g.x(Math.min(w.start + w.dur, end)), g.width);
    if (x1 - x0 > 0.5) brush.fill(brush.tints.parts[WAITING], x0, top, x1 - x0, height);
  }
}

function paintHost(g, brush, lanes, top, height) {
  const { model } = g;
  const [a, s, left] = [g.from, g.scale(), g.gutter()];
  const cells = Math.max(1, Math.ceil((g.width - left) / 3));
  const sums = new Float64Array(cells * 5);
  const size = (g.until - g.from) / cells;
  for (const lane of lanes) {
    for (let b = blockAt(model, lane, a); b < lane.end; b++) {
      const start = Math.max(model.starts[b], a);
      if (start >= g.until) break;
      const end = Math.min(model.starts[b] + model.durs[b], g.until);
      for (let c = Math.floor((start - a) / size); c < cells && a + c * size < end; c++) {
        if (c < 0) continue;
        const share = (Math.min(end, a + (c + 1) * size) - Math.max(start, a + c * size)) / model.durs[b];
        if (share > 0) for (let p = 0; p < 5; p++) sums[c * 5 + p] += share * model.drawn(b, p);
      }
    }
  }
  for (let c = 0; c < cells; c++) {
    const of = sums.subarray(c * 5, c * 5 + 5);
    // what is missing of the lanes' time is before or after their steps
    brush.stack(of, left + c * size * s, top, size * s + 0.5, (height * of.reduce((s, v) => s + v, 0)) / (size * lanes.length));
  }
}

function paintTrack(g, brush, track, top) {
  const { start, dur, depth, name, class: kind } = g.model.spans;
  const { tints } = brush;
  const spanTint = (of) => (typeof SPAN_TINTS[of] === "number" ? tints.kinds[SPAN_TINTS[of]] : tints[SPAN_TINTS[of]]);
  for (let i = track.first; i < track.end; i++) {
    const x0 = g.x(start[i]);
    if (x0 >= g.width) break;
    const x1 = Math.max(x0, g.gutter());
    const width = Math.max(0.7, Math.min(g.x(start[i] + dur[i]), g.width) - x1);
    const level = depth[i] - track.least;
    if (g.x(start[i] + dur[i]) <= g.gutter() || level >= track.levels) continue;
    const tint = kind[i] === "kernel" && isTransfer(name[i]) ? tints.communication : spanTint(kind[i]);
    const y = top + 3 + LEVEL * level;
    brush.fill(tint, x1, y, width, LEVEL - 1);
    if (width > 40) brush.text(name[i], x1, y, width, LEVEL - 1, tint);
    if (width > 4) brush.fill(tints.panel, x1 + width - 0.5, y, 0.5, LEVEL - 1);
  }
}

export function paintRows(g, brush) {
  for (const row of g.rows) {
    if (!g.isSeen(row)) continue;
    const top = g.topOf(row);
    if (row.kind === "track") {
      paintTrack(g, brush, row.track, top);
      continue;
    }
    brush.fill(brush.tints.low, g.gutter(), top + 1, g.width - g.gutter(), row.height - 3);
    if (row.kind === "lane") paintLane(g, brush, row.lane, top + 1, row.height - 3);
    else paintHost(g, brush, row.lanes, top + 1, row.height - 3);
  }
  brush.flush();
}

function rowLabel(g, row) {
  if (row.kind === "host") return `${g.open.has(row.key) ? "▾" : "▸"} ${row.host} (${row.lanes.length})`;
  if (row.kind === "track") return row.track.name;
  const device = g.step.lanes.some((l) => l !== row.lane && l.rank === row.lane.rank) && row.lane.device !== null ? `:${row.lane.device}` : "";
  return `${row.lane.tracks.length ? (g.open.has(row.key) ? "▾ " : "▸ ") : ""}rank ${row.lane.rank}${device}`;
}

/** Names of the rows, left of the axis. */
export function paintLabels(g, { ctx, tints }) {
  ctx.fillStyle = tints.panel;
  ctx.fillRect(0, 0, g.gutter(), g.height);
  ctx.font = "12px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const row of g.rows) {
    if (!g.isSeen(row)) continue;
    const top = g.topOf(row);
    ctx.fillStyle = row.kind === "track" ? tints.soft : tints.ink;
    ctx.fillText(short(rowLabel(g, row), isNarrow() ? 11 : 21), 4 + 10 * row.depth, top + (row.kind === "track" ? 10 : row.height / 2), g.gutter() - 8 - 10 * row.depth);
  }
}
