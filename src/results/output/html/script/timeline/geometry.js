// Where things stand on the time axis: the rows of lanes, hosts and tracks, the stretch of time that is shown, and the
// pixels of both.

import { between } from "page/format.js";
import { isNarrow } from "page/theme.js";

/** Height of the axis above the rows, in pixels. */
export const AXIS = 24;
/** Height of a level of nested spans, in pixels. */
export const LEVEL = 13;
/** Height of a line of a hardware counter, in pixels. */
const LINE = 30;
/** With at most so many lanes, lines are shown before a lane is unfolded. */
const FEW = 4;
/** With more lanes than this, those of a host share a row until it is unfolded. */
const MANY = 32;

/** The geometry of a step of a model. `top` tells how far the rows are scrolled; `changed`: that it looks elsewhere. */
export class Geometry {
  /** Keys of the rows that are unfolded. */
  open = new Set();
  /** @type {any[]} */
  rows = [];
  width = 0;
  height = 0;
  from = 0;
  until = 1;

  constructor(model, top, changed) {
    this.model = model;
    this.step = model.steps[0];
    this.top = top;
    this.changed = changed;
    this.fit();
  }

  gutter = () => (isNarrow() ? 74 : 132);
  folds = () => this.step.lanes.length > MANY;
  hostOf = ({ host, rank }) => host || `ranks ${Math.floor(rank / 8) * 8} to ${Math.floor(rank / 8) * 8 + 7}`;

  /** Places the rows; gives the height of all. */
  layout() {
    const height = this.step.lanes.length <= 16 ? 30 : 18;
    const laneRows = (lane, depth) => {
      const key = `lane ${lane.index}`;
      const track = (of) => ({ kind: "track", lane, track: of, depth: depth + 1, height: 6 + LEVEL * of.levels });
      const line = (of) => ({ kind: "line", lane, line: of, depth: depth + 1, height: LINE });
      const [isOpen, isAlone] = [this.open.has(key), this.step.lanes.length <= FEW];
      const below = [...(isOpen || isAlone ? lane.lines.map(line) : []), ...(isOpen ? lane.tracks.map(track) : [])];
      return [{ kind: "lane", lane, depth, height, key }, ...below];
    };
    const hostRows = ([host, lanes]) => {
      const key = `host ${host}`;
      const inside = this.open.has(key) ? lanes.flatMap((lane) => laneRows(lane, 1)) : [];
      return [{ kind: "host", host, lanes, depth: 0, height: 20, key }, ...inside];
    };
    const hosts = new Map(this.step.lanes.map((lane) => [this.hostOf(lane), []]));
    for (const lane of this.step.lanes) hosts.get(this.hostOf(lane)).push(lane);
    this.rows = this.folds() ? [...hosts].flatMap(hostRows) : this.step.lanes.flatMap((lane) => laneRows(lane, 0));
    const place = (y, row) => (row.y = y) + row.height;
    return this.rows.reduce(place, AXIS) + 4;
  }

  /** Shows the whole step. */
  fit() {
    const pad = Math.max(1, (this.step.until - this.step.begin) * 0.005);
    this.from = this.step.begin - pad;
    this.until = this.step.until + pad;
  }

  look(from, until) {
    const whole = this.step.until - this.step.begin;
    const [low, high] = [this.step.begin - whole * 0.15, this.step.until + whole * 0.05];
    const length = Math.min(Math.max(until - from, 20), high - low);
    this.from = between(low, from, high - length);
    this.until = this.from + length;
    this.changed();
  }

  length = () => this.until - this.from;
  middle = () => (this.from + this.until) / 2;
  zoom = (factor, at = this.middle()) => this.look(at - (at - this.from) / factor, at + (this.until - at) / factor);
  pan = (share) => this.look(this.from + this.length() * share, this.until + this.length() * share);
  /** Pixels of a nanosecond. */
  scale = () => (this.width - this.gutter()) / this.length();
  x = (t) => this.gutter() + (t - this.from) * this.scale();
  timeAt = (px) => this.from + (px - this.gutter()) / this.scale();
  topOf = (row) => row.y - this.top();
  /** The rows that are in view now. */
  seen = () => this.rows.filter((row) => this.topOf(row) <= this.height && this.topOf(row) + row.height >= AXIS);
  rowAt = (py) => this.rows.find((r) => py >= AXIS && this.topOf(r) <= py && py < this.topOf(r) + r.height) ?? null;

  /** The row that shows a lane now: its own, or that of its host. */
  rowOf(lane) {
    const holds = (r) => r.kind === "host" && !this.open.has(r.key) && r.lanes.includes(lane);
    return this.rows.find((r) => (r.kind === "lane" && r.lane === lane) || holds(r));
  }

  /** The row of what is chosen: the one it was chosen on, if that is still there. */
  rowOfChosen = (chosen) => (this.rows.includes(chosen.row) ? chosen.row : this.rowOf(chosen.lane));
}
