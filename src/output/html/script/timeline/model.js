// The model of the time axis: lanes of blocks, waits, tracks and marks of causes of every step that the page has.

export const LANE_PARTS = ["compute", "exposed communication", "exposed copies", "idle"];
export const PART_KEYS = ["compute", "communication", "memory", "idle"];
/** What is drawn apart of exposed communication: its waiting for other ranks. */
export const WAITING = 4;
// causes that own idle time or copies, with their colours: what is also a kind of span has its colour
export const CAUSE_TINTS = new Map([
  ["data_loader", 0], ["host_sync", 8], ["host_python", 4], ["host_dispatch", 2], ["host_pause", 3], ["host_lock", 3], ["host_alloc", 3],
  ["copy_pageable", 7], ["copy_sync", 7], ["copy_small", 7], ["iteration_gap", 5], ["graph_preparation", 1], ["graph_launch", 1],
]);
export const words = (name) => String(name).replace(/_/g, " ");

/** A grid of the page that is made here. `columns`: `[name, title, kind, doc, cells]`. */
export function derivedGrid(table, columns) {
  const cells = columns.map(([name, title, kind, doc, cells]) => ({ name, title, kind, doc, cells }));
  const byName = new Map(cells.map((c) => [c.name, c]));
  return { table, rows: cells[0].cells.length, columns: cells, rest: null, notes: [], of: (n) => (byName.has(n) ? byName.get(n).cells : []), doc: (n) => (byName.has(n) ? byName.get(n).doc : "") };
}

/** The model of a section's grids. */
export function laneModel(grids) {
  const { steps, lanes, blocks, merged, waits, tracks, spans } = grids;
  const [durs, parts] = [Float64Array.from(blocks.of("dur_ns")), Uint8Array.from(blocks.of("part"))];
  const sums = Int32Array.from(blocks.of("merged"), (v) => (v === null ? -1 : v));
  const starts = new Float64Array(durs.length);
  const columns = ["compute_ns", "communication_ns", "memory_ns", "idle_ns"].map((c) => merged.of(c));
  const model = { steps: steps.of("step").map((label, i) => ({ label, length: steps.of("length_ns")[i], lanes: [] })), durs, parts, starts, names: blocks.of("name"), causes: blocks.of("cause") };
  let first = 0;
  model.lanes = lanes.of("rank").map((rank, i) => {
    const lane = { index: i, rank, device: lanes.of("device")[i], host: lanes.of("host")[i] || "", step: lanes.of("step")[i], start: lanes.of("start_ns")[i], first, end: first + lanes.of("blocks")[i], waiting: lanes.of("waiting_ns")[i] ?? null, unmatched: lanes.of("unmatched_ns")[i] ?? null, waits: [], tracks: [], marks: [] };
    let at = lane.start;
    for (; first < lane.end; first++) {
      starts[first] = at;
      at += durs[first];
    }
    lane.until = at;
    model.steps[lane.step].lanes.push(lane);
    return lane;
  });
  /** Times of a block by part. */
  model.times = (b) => (sums[b] < 0 ? [0, 1, 2, 3].map((p) => (p === parts[b] ? durs[b] : 0)) : columns.map((c) => c[sums[b]]));
  model.time = (b, part) => (sums[b] < 0 ? (parts[b] === part ? durs[b] : 0) : columns[part][sums[b]]);
  model.waiting = new Float64Array(durs.length);
  /** Times of a block as they are drawn: waiting for other ranks apart from the transfer. */
  model.drawn = (b, part) => (part === WAITING ? model.waiting[b] : part === 1 ? model.time(b, 1) - model.waiting[b] : model.time(b, part));
  model.pieces = (b) => (sums[b] < 0 ? 1 : merged.of("count")[sums[b]]);
  model.longest = (b) => (sums[b] < 0 ? durs[b] : merged.of("longest_ns")[sums[b]]);
  waits.of("lane").forEach((l, i) => model.lanes[l].waits.push({ start: waits.of("start_ns")[i], dur: waits.of("dur_ns")[i], late: waits.of("late_rank")[i], kind: waits.of("kind")[i] }));
  for (const lane of model.lanes) shareWaits(model, lane);
  let span = 0;
  tracks.of("lane").forEach((l, i) => {
    const track = { stream: tracks.of("stream")[i] === 1, name: tracks.of("name")[i], left: tracks.of("left")[i], first: span, end: span + tracks.of("spans")[i], least: 0, levels: 1 };
    span = track.end;
    // all of its spans are among the shortest, which are left out
    if (track.end === track.first) return;
    const depths = spans.of("depth").slice(track.first, track.end);
    track.least = depths.reduce((m, d) => Math.min(m, d), Infinity);
    track.levels = Math.min(14, depths.reduce((m, d) => Math.max(m, d), 0) - track.least + 1);
    model.lanes[l].tracks.push(track);
  });
  model.spans = { start: Float64Array.from(spans.of("start_ns")), dur: Float64Array.from(spans.of("dur_ns")), depth: spans.of("depth"), name: spans.of("name"), class: spans.of("class") };
  for (const step of model.steps) {
    step.begin = step.lanes.reduce((m, l) => Math.min(m, l.start), Infinity);
    step.until = step.lanes.reduce((m, l) => Math.max(m, l.until), -Infinity);
    step.ofRank = new Map();
    for (const lane of step.lanes) if (!step.ofRank.has(lane.rank)) step.ofRank.set(lane.rank, lane);
  }
  return model;
}

/** The index of the block of a lane that holds a moment. */
export function blockAt(model, lane, t) {
  let [low, high] = [lane.first, lane.end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (model.starts[middle] + model.durs[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return Math.min(low, lane.end - 1);
}

/** Gives each block of a lane its part of the lane's waits, which lie in exposed communication. */
function shareWaits(model, lane) {
  for (const w of lane.waits) {
    for (let b = blockAt(model, lane, w.start); b < lane.end && model.starts[b] < w.start + w.dur; b++) {
      const inside = Math.min(w.start + w.dur, model.starts[b] + model.durs[b]) - Math.max(w.start, model.starts[b]);
      model.waiting[b] = Math.min(model.time(b, 1), model.waiting[b] + Math.max(0, inside));
    }
  }
}
