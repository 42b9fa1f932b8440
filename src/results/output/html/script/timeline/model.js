// The model of the time axis: lanes of blocks, waits, tracks and marks of causes of every step that the page has.

import { between } from "page/format.js";

export const LANE_PARTS = ["compute", "transfer", "copies", "idle", "fused"];
export const PART_KEYS = ["compute", "communication", "memory", "idle", "fused"];
/** What is drawn apart of communication: its waiting for other ranks. */
export const WAITING = 5;
/** The parts in the order of the verdict: number, name and colour. @type {[number, string, string][]} */
export const DRAWN_PARTS = [
  [0, "compute", "compute"], [4, "fused", "fused"], [WAITING, "waiting", "waiting"],
  [1, "transfer", "communication"], [2, "copies", "memory"], [3, "idle", "idle"],
];
/** Most levels of nested spans of a track that are shown. */
const MOST_LEVELS = 14;

/** The model of a section's grids. Times are from the start of the step. */
export class LaneModel {
  constructor({ steps, lanes, blocks, merged, waits, tints, tracks, spans, lines, points }) {
    this.durs = Float64Array.from(blocks.of("dur_ns"));
    this.parts = Uint8Array.from(blocks.of("part"));
    this.starts = new Float64Array(blocks.rows);
    this.waiting = new Float64Array(blocks.rows);
    this.names = blocks.of("name");
    this.causes = blocks.of("cause");
    // causes that own idle time or copies, with their colours: what is also a kind of span has its colour
    this.tints = new Map(tints.list().map((row) => [row("cause"), row("tint")]));
    // a block of several short pieces has its times in a row of `merged`
    this.rowOf = Int32Array.from(blocks.of("merged"), (v) => (v === null ? -1 : v));
    this.sums = PART_KEYS.map((key) => merged.of(`${key}_ns`));
    this.counts = merged.of("count");
    this.longests = merged.of("longest_ns");
    /** @type {any[]} */
    this.steps = steps.list().map((row) => ({ label: row("step"), length: row("length_ns"), lanes: [] }));
    let first = 0;
    /** @type {any[]} */
    this.lanes = lanes.list().map((row, index) => {
      const lane = {
        index, rank: row("rank"), device: row("device"), host: row("host") || "", start: row("start_ns"),
        first, end: first + row("blocks"), until: row("start_ns"), waiting: row("waiting_ns") ?? null,
        unmatched: row("unmatched_ns") ?? null, waits: [], tracks: [], lines: [], marks: [],
      };
      for (; first < lane.end; first++) {
        this.starts[first] = lane.until;
        lane.until += this.durs[first];
      }
      this.steps[row("step")].lanes.push(lane);
      return lane;
    });
    for (const row of waits.list()) {
      const wait = { start: row("start_ns"), dur: row("dur_ns"), late: row("late_rank"), kind: row("kind") };
      this.lanes[row("lane")].waits.push(wait);
    }
    /** What communication is called that waits for nobody. */
    this.exposedName = this.lanes.some((lane) => this.partsOf(lane).transfer > 0) ? "transfer"
      : this.lanes.some((lane) => lane.waiting !== null) ? "unmatched" : "communication";
    this.lanes.forEach(this.shareWaits);
    this.depths = spans.of("depth");
    this.spanNames = spans.of("name");
    this.classes = spans.of("class");
    this.spanStarts = Float64Array.from(spans.of("start_ns"));
    this.spanDurs = Float64Array.from(spans.of("dur_ns"));
    this.addTracks(tracks);
    this.addLines(lines, points);
    for (const step of this.steps) {
      step.begin = step.lanes.reduce((m, l) => Math.min(m, l.start), Infinity);
      step.until = step.lanes.reduce((m, l) => Math.max(m, l.until), -Infinity);
      // of several devices of a rank the first
      step.ofRank = new Map([...step.lanes].reverse().map((lane) => [lane.rank, lane]));
    }
  }

  addTracks(tracks) {
    let first = 0;
    for (const row of tracks.list()) {
      const end = first + row("spans");
      const depths = this.depths.slice(first, end);
      const [least, most] = depths.reduce(([low, high], d) => [Math.min(low, d), Math.max(high, d)], [Infinity, 0]);
      const track = { name: row("name"), first, end, least, levels: Math.min(MOST_LEVELS, most - least + 1) };
      first = end;
      // else all of its spans are among the shortest, which are left out
      if (depths.length) this.lanes[row("lane")].tracks.push(track);
    }
  }

  /** Lines of hardware counters, each with the range of its values. */
  addLines(lines, points) {
    const [starts, durs, means] = ["start_ns", "dur_ns", "mean"].map((name) => points.of(name));
    const [leasts, largests] = ["least", "largest"].map((name) => points.of(name));
    let first = 0;
    for (const row of lines.list()) {
      const all = Array.from({ length: row("points") }, (_, k) => {
        const i = first + k;
        const [start, mean, least, largest] = [starts[i], means[i], leasts[i], largests[i]];
        return { start, until: start + durs[i], mean, least, largest };
      });
      first += row("points");
      const unit = row("unit") || "";
      const bounds = [...all.map((p) => p.least), ...all.map((p) => p.largest)];
      // percentages are drawn from 0 to 100, others from their least to their largest value
      const low = unit === "%" ? 0 : Math.min(...bounds);
      const high = Math.max(unit === "%" ? 100 : low, ...bounds);
      this.lanes[row("lane")].lines.push({ name: row("counter"), unit, points: all, low, high });
    }
  }

  /** Time of a part in a block. */
  time(b, part) {
    if (this.rowOf[b] >= 0) return this.sums[part][this.rowOf[b]];
    return this.parts[b] === part ? this.durs[b] : 0;
  }

  /** Time of a part in a block as it is drawn: waiting for other ranks apart from the transfer. */
  drawn(b, part) {
    if (part === WAITING) return this.waiting[b];
    return part === 1 ? this.time(b, 1) - this.waiting[b] : this.time(b, part);
  }

  /** Time of a part in a lane. */
  sum(lane, part) {
    let sum = 0;
    for (let b = lane.first; b < lane.end; b++) sum += this.time(b, part);
    return sum;
  }

  /** The time of a lane by part; without an account nobody knows what its communication is. @returns {any} */
  partsOf(lane) {
    const [compute, exposed, copies, idle, fused] = PART_KEYS.map((_, p) => this.sum(lane, p));
    const [waiting, unmatched] = [lane.waiting, lane.waiting === null ? exposed : lane.unmatched];
    const transfer = waiting === null ? null : exposed - waiting - unmatched;
    return { compute, fused, waiting, transfer, unmatched, copies, idle };
  }

  pieces = (b) => (this.rowOf[b] < 0 ? 1 : this.counts[this.rowOf[b]]);
  longest = (b) => (this.rowOf[b] < 0 ? this.durs[b] : this.longests[this.rowOf[b]]);
  until = (b) => this.starts[b] + this.durs[b];
  spanUntil = (i) => this.spanStarts[i] + this.spanDurs[i];

  /** The index of the block of a lane that holds a moment. */
  blockAt(lane, t) {
    let [low, high] = [lane.first, lane.end];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.until(middle) <= t) low = middle + 1;
      else high = middle;
    }
    return Math.min(low, lane.end - 1);
  }

  /** Gives each block of a lane its part of the lane's waits, which lie in exposed communication. */
  shareWaits = (lane) => {
    for (const { start, dur } of lane.waits) {
      for (let b = this.blockAt(lane, start); b < lane.end && this.starts[b] < start + dur; b++) {
        const inside = Math.min(start + dur, this.until(b)) - Math.max(start, this.starts[b]);
        this.waiting[b] = between(0, this.waiting[b] + Math.max(0, inside), this.time(b, 1));
      }
    }
  };
}
