// Draws the time axis. Rows: blocks of a lane, shares of a host's lanes, spans of a stream or thread. And what lies
// over them: waits with their arrows, marks of causes, what is chosen, the axis.

import { Brush, setFont, strokeFrame } from "page/canvas.js";
import { make } from "page/dom.js";
import { axisUnit, between, count, short, words } from "page/format.js";
import { colour, isNarrow, kinds } from "page/theme.js";
import { AXIS, LEVEL } from "page/timeline/geometry.js";
import { LANE_PARTS, PART_KEYS, WAITING } from "page/timeline/model.js";

/** The parts of a block from top to bottom: waiting for other ranks is beside the transfer. */
const STACKED = [0, 4, 1, WAITING, 2, 3];
/** Colours of spans: keys of the theme, or numbers of further kinds. */
const SPAN_TINTS = {
  kernel: "compute", memcpy: "memory", memset: "memory", operator: 2, runtime_call: 1, python: 4, annotation: 9,
  collective: "communication",
};
const isTransfer = (name) => /nccl|rccl|oneccl|allreduce|all_reduce|allgather|reduce_scatter/i.test(name);
const hatches = new Map();

/** A colour with stripes of another, as what a canvas fills with. */
function hatch(ground, stripes) {
  const key = `${ground} ${stripes}`;
  if (!hatches.has(key)) {
    const tile = make("canvas", { width: 8, height: 8 });
    const ctx = tile.getContext("2d");
    ctx.fillStyle = ground;
    ctx.fillRect(0, 0, 8, 8);
    Object.assign(ctx, { strokeStyle: stripes, lineWidth: 2.4 });
    ctx.beginPath();
    for (const x of [-8, 0, 8]) {
      ctx.moveTo(x - 2, 10);
      ctx.lineTo(x + 10, -2);
    }
    ctx.stroke();
    hatches.set(key, ctx.createPattern(tile, "repeat"));
  }
  return hatches.get(key);
}

/** Draws a step by its geometry on a canvas. */
export class Painter extends Brush {
  /** Colours of the page's theme. @type {any} */
  tints = {};

  constructor(ctx, geometry) {
    super(ctx);
    this.g = geometry;
    this.model = geometry.model;
  }

  /** Draws all, and gives the places of the marks. `chosen` gets a frame; waits of what is `looked` at are strong. */
  paint(chosen, looked) {
    const { g, tints } = this;
    const plain = PART_KEYS.slice(0, 4);
    for (const key of [...plain, "ink", "soft", "line", "panel", "late", "low"]) tints[key] = colour(key);
    const striped = ["compute", "late"].map((key) => hatch(tints.communication, tints[key]));
    tints.parts = [...plain.map((key) => tints[key]), ...striped];
    tints.kinds = kinds();
    this.ctx.clearRect(0, 0, g.width, g.height);
    g.seen().forEach((row) => this.row(row));
    this.flush();
    g.seen().filter((row) => row.kind === "line").forEach((row) => this.line(row.line, g.topOf(row), row.height));
    this.labels();
    this.waits(looked);
    const marks = this.marks();
    if (chosen) this.chosen(chosen);
    this.axis();
    return marks;
  }

  /** Parts of a time, one on the other, by their share. */
  stack(times, left, top, width, height) {
    const whole = times.reduce((sum, time) => sum + time, 0);
    if (whole <= 0) return;
    let y = top;
    for (const p of STACKED) {
      if (times[p] <= 0) continue;
      const part = (height * times[p]) / whole;
      this.fill(this.tints.parts[p], left, y, width, part);
      y += part;
    }
  }

  row(row) {
    const { g } = this;
    const [top, height] = [g.topOf(row) + 1, row.height - 3];
    if (row.kind !== "track") this.fill(this.tints.low, g.gutter(), top, g.width - g.gutter(), height);
    if (row.kind === "track") this.track(row.track, g.topOf(row));
    else if (row.kind === "lane") this.lane(row.lane, top, height);
    else if (row.kind === "host") this.host(row.lanes, top, height);
  }

  lane(lane, top, height) {
    const { g, model } = this;
    const [scale, left] = [g.scale(), g.gutter()];
    // blocks that share a pixel
    const pixel = STACKED.map(() => 0);
    let at = -1;
    const flushPixel = () => {
      if (at >= 0) this.stack(pixel, at, top, 1, height);
      pixel.fill(0);
      at = -1;
    };
    for (let b = model.blockAt(lane, g.from); b < lane.end; b++) {
      const x0 = left + (model.starts[b] - g.from) * scale;
      if (x0 >= g.width) break;
      const w = model.durs[b] * scale;
      if (w >= 1) {
        flushPixel();
        const x1 = Math.max(x0, left);
        const width = Math.min(x0 + w, g.width) - x1;
        if (width > 0) this.block(lane, b, x1, top, width, height);
        continue;
      }
      if (Math.floor(x0) !== at) {
        flushPixel();
        at = Math.floor(x0);
      }
      for (const p of STACKED) pixel[p] += model.drawn(b, p);
    }
    flushPixel();
  }

  block(lane, b, left, top, width, height) {
    const { model, tints } = this;
    const [part, waiting, pieces] = [model.parts[b], model.waiting[b], model.pieces(b)];
    if (pieces > 1) this.stack([...PART_KEYS.keys(), WAITING].map((p) => model.drawn(b, p)), left, top, width, height);
    else {
      this.fill(tints.parts[part], left, top, width, height);
      if (waiting > 0) this.waitsOf(lane, b, top, height);
    }
    const kind = model.tints.get(model.causes[b]);
    const foot = height < 20 ? 3 : 5;
    if (kind !== undefined && width > 2) this.fill(tints.kinds[kind], left, top + height - foot, width, foot);
    if (width > 46 && height >= 14) {
      const name = model.names[b] || words(model.causes[b] || LANE_PARTS[part]);
      const text = pieces > 1 ? `${count(pieces)} pieces` : name;
      this.text(text, left, top, width, height, tints.parts[part], pieces > 1 || waiting > 0);
    }
    // an edge between neighbours of one colour
    if (width > 4) this.fill(tints.panel, left + width - 0.5, top, 0.5, height);
  }

  /** The part of a block of communication in which it waits for other ranks. */
  waitsOf(lane, b, top, height) {
    const { g, model } = this;
    for (const w of lane.waits) {
      const x0 = Math.max(g.x(Math.max(w.start, model.starts[b])), g.gutter());
      const x1 = Math.min(g.x(Math.min(w.start + w.dur, model.until(b))), g.width);
      if (x1 - x0 > 0.5) this.fill(this.tints.parts[WAITING], x0, top, x1 - x0, height);
    }
  }

  /** The shares of the parts in the time of a host's lanes. */
  host(lanes, top, height) {
    const { g, model } = this;
    const left = g.gutter();
    const cells = Math.max(1, Math.ceil((g.width - left) / 3));
    const sums = new Float64Array(cells * 5);
    const size = g.length() / cells;
    for (const lane of lanes) {
      for (let b = model.blockAt(lane, g.from); b < lane.end && model.starts[b] < g.until; b++) {
        const [start, end] = [Math.max(model.starts[b], g.from), Math.min(model.until(b), g.until)];
        for (let c = Math.max(0, Math.floor((start - g.from) / size)); c < cells && g.from + c * size < end; c++) {
          const inside = Math.min(end, g.from + (c + 1) * size) - Math.max(start, g.from + c * size);
          const share = inside / model.durs[b];
          if (share > 0) for (const p of STACKED) sums[c * 5 + p] += share * model.drawn(b, p);
        }
      }
    }
    const width = size * g.scale();
    for (let c = 0; c < cells; c++) {
      const of = sums.subarray(c * 5, c * 5 + 5);
      // what is missing of the lanes' time is before or after their steps
      const share = of.reduce((s, v) => s + v, 0) / (size * lanes.length);
      this.stack(of, left + c * width, top, width + 0.5, height * share);
    }
  }

  track(track, top) {
    const { g, model, tints } = this;
    const tintOf = (key) => (typeof key === "number" ? tints.kinds[key] : tints[key]);
    for (let i = track.first; i < track.end; i++) {
      const [x0, until] = [g.x(model.spanStarts[i]), g.x(model.spanUntil(i))];
      if (x0 >= g.width) break;
      const level = model.depths[i] - track.least;
      if (until <= g.gutter() || level >= track.levels) continue;
      const x1 = Math.max(x0, g.gutter());
      const width = Math.max(0.7, Math.min(until, g.width) - x1);
      const [name, kind] = [model.spanNames[i], model.classes[i]];
      const tint = tintOf(kind === "kernel" && isTransfer(name) ? "communication" : SPAN_TINTS[kind]);
      const y = top + 3 + LEVEL * level;
      this.fill(tint, x1, y, width, LEVEL - 1);
      if (width > 40) this.text(name, x1, y, width, LEVEL - 1, tint);
      if (width > 4) this.fill(tints.panel, x1 + width - 0.5, y, 0.5, LEVEL - 1);
    }
  }

  /** A hardware counter: means as steps that end where no sample stands, values at an instant joined by lines. */
  line({ points, low, high }, top, height) {
    const { g, ctx, tints } = this;
    const y = (v) => top + height - 4 - ((v - low) / (high - low || 1)) * (height - 8);
    const isBeside = (a, b) => b.start - a.until <= 0.5 * (b.until - b.start) || b.until === b.start;
    ctx.fillStyle = `${tints.soft}44`;
    for (const p of points.filter((of) => of.least < of.largest)) {
      const [x0, x1] = [g.x(p.start), Math.max(g.x(p.until), g.x(p.start) + 1)];
      ctx.fillRect(x0, y(p.largest), x1 - x0, y(p.least) - y(p.largest));
    }
    Object.assign(ctx, { strokeStyle: tints.ink, lineWidth: 1.2 });
    ctx.beginPath();
    points.forEach((p, i) => {
      const isJoined = i > 0 && isBeside(points[i - 1], p);
      if (isJoined) ctx.lineTo(g.x(p.start), y(p.mean));
      else ctx.moveTo(g.x(p.start), y(p.mean));
      // a value that stands alone is a dot
      ctx.lineTo(Math.max(g.x(p.until), g.x(p.start) + (points.length === 1 ? 2 : 0)), y(p.mean));
    });
    ctx.stroke();
  }

  /** Names of the rows, left of the axis. */
  labels() {
    const { g, ctx, tints } = this;
    ctx.fillStyle = tints.panel;
    ctx.fillRect(0, 0, g.gutter(), g.height);
    setFont(ctx, "12px");
    const labelOf = ({ key, kind, host, lanes, track, line, lane }) => {
      const fold = g.open.has(key) ? "▾ " : "▸ ";
      if (kind === "host") return `${fold}${host} (${lanes.length})`;
      if (kind === "track") return track.name;
      if (kind === "line") return line.name;
      const hasOther = g.step.lanes.some((l) => l !== lane && l.rank === lane.rank);
      const device = hasOther && lane.device !== null ? `:${lane.device}` : "";
      return `${lane.tracks.length + lane.lines.length ? fold : ""}rank ${lane.rank}${device}`;
    };
    for (const row of g.seen()) {
      const isTrack = row.kind === "track" || row.kind === "line";
      const left = 4 + 10 * row.depth;
      ctx.fillStyle = isTrack ? tints.soft : tints.ink;
      const y = g.topOf(row) + (isTrack ? 10 : row.height / 2);
      ctx.fillText(short(labelOf(row), isNarrow() ? 11 : 21), left, y, g.gutter() - 4 - left);
    }
  }

  /** Arrows from late ranks to those that wait for them; those of the lane that is `looked` at are strong. */
  waits(looked) {
    const { g } = this;
    for (const row of g.rows.filter((r) => r.kind === "lane")) {
      for (const w of row.lane.waits) {
        const [x0, x1] = [g.x(w.start), g.x(w.start + w.dur)];
        if (x1 < g.gutter() || x0 > g.width || x1 - x0 < 0.5) continue;
        const late = g.step.ofRank.get(w.late);
        const from = late && g.rowOf(late);
        const isStrong = looked && (looked.lane === row.lane || looked.lane === late);
        const isShown = isStrong || (g.rows.length <= 24 && x1 - x0 > 6);
        if (from && isShown) this.arrow(from, row, x1, isStrong);
      }
    }
  }

  arrow(from, to, px, isStrong) {
    const { g, ctx, tints } = this;
    const [y0, y1] = [from, to].map((row) => row.height / 2 + g.topOf(row));
    if (from === to || px < g.gutter() || px > g.width) return;
    const down = y1 > y0 ? 1 : -1;
    const end = y1 - (down * Math.min(to.height, 20)) / 4;
    Object.assign(ctx, { strokeStyle: tints.late, fillStyle: tints.late, globalAlpha: isStrong ? 1 : 0.55 });
    ctx.lineWidth = isStrong ? 2 : 1;
    ctx.beginPath();
    ctx.moveTo(px, y0);
    ctx.lineTo(px, end);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(px, end + down * 3);
    ctx.lineTo(px - 3.5, end - down * 4);
    ctx.lineTo(px + 3.5, end - down * 4);
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  /** Numbers of the causes at their places; gives where each is drawn. */
  marks() {
    const { g, ctx, tints } = this;
    setFont(ctx, "bold 10.5px", "center");
    const drawn = [];
    for (const row of g.rows) {
      const isFolded = row.kind === "host" && !g.open.has(row.key);
      const marks = row.kind === "lane" ? row.lane.marks : isFolded ? row.lanes.flatMap((l) => l.marks) : [];
      const used = new Map();
      for (const mark of marks) {
        const { from, until } = mark.place;
        const px = g.x(between(g.from, from, g.until));
        if (g.x(until) < g.gutter() || g.x(from) > g.width) continue;
        const slot = Math.round(px / 18);
        const shift = used.get(slot) || 0;
        used.set(slot, shift + 1);
        const x = between(g.gutter() + 9, px + 8, g.width - 9) + shift * 17;
        const y = g.topOf(row) + Math.min(row.height / 2, 10);
        if (y < AXIS + 4 || y > g.height) continue;
        ctx.beginPath();
        ctx.arc(x, y, 8, 0, 2 * Math.PI);
        Object.assign(ctx, { fillStyle: tints.panel, strokeStyle: tints.ink, lineWidth: 1.5 });
        ctx.fill();
        ctx.stroke();
        ctx.fillStyle = tints.ink;
        ctx.fillText(String(mark.cause + 1), x, y + 0.5);
        drawn.push({ x, y, mark });
      }
    }
    return drawn;
  }

  /** A frame around what is chosen. */
  chosen(chosen) {
    const { g } = this;
    const row = g.rowOfChosen(chosen);
    const [x0, x1] = [Math.max(g.x(chosen.from), g.gutter()), Math.min(g.x(chosen.until), g.width)];
    if (!row || x1 <= x0) return;
    const isSpan = chosen.span !== undefined;
    const level = isSpan ? this.model.depths[chosen.span] - row.track.least : 0;
    const [top, height] = isSpan ? [2 + LEVEL * level, LEVEL + 1] : [0, row.height - 1];
    strokeFrame(this.ctx, this.tints.ink, x0, g.topOf(row) + top, Math.max(3, x1 - x0), height);
  }

  axis() {
    const { g, ctx, tints } = this;
    ctx.fillStyle = tints.panel;
    ctx.fillRect(0, 0, g.width, AXIS);
    const rough = g.length() / Math.max(2, (g.width - g.gutter()) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const every = [1, 2, 5, 10].map((f) => f * power).find((f) => f >= rough) ?? rough;
    setFont(ctx, "11px");
    const [unit, size] = axisUnit([g.from, g.until]);
    const digits = Math.max(0, Math.ceil(-Math.log10(every / size) - 1e-9));
    for (let k = Math.ceil(g.from / every); k * every < g.until; k++) {
      const at = g.x(k * every);
      ctx.fillStyle = tints.line;
      ctx.fillRect(at, AXIS - 6, 1, 6);
      ctx.fillStyle = tints.soft;
      ctx.fillText(`${((k * every) / size).toFixed(digits)} ${unit}`, at + 3, 9);
    }
    ctx.fillStyle = tints.line;
    ctx.fillRect(0, AXIS - 1, g.width, 1);
  }
}
