// Where each cause of the diagnosis is seen best on the time axis.

import { blockAt } from "page/timeline/model.js";

/** The largest block of some lanes by a measure; none where that is nothing. */
function largestBlock(model, lanes, measure) {
  let [best, most] = [null, 0];
  for (const lane of lanes) {
    for (let b = lane.first; b < lane.end; b++) {
      const value = measure(b);
      if (value > most) [best, most] = [{ lane, block: b, at: model.starts[b], from: model.starts[b], until: model.starts[b] + model.durs[b] }, value];
    }
  }
  return best;
}

/** Where a cause is seen best in a step: on which lane, and when. */
function placeOf(model, step, cause) {
  if (cause.steps.length && !cause.steps.includes(step.label)) return null;
  const lanes = step.lanes.filter((l) => cause.ranks.size === 0 || cause.ranks.has(l.rank));
  if (lanes.length === 0 || cause.kind.startsWith("memory_") || cause.kind === "input_incomplete") return null;
  if (["straggler", "imbalance"].includes(cause.kind)) {
    // what it is about by its own words, on one of its ranks
    const named = largestBlock(model, lanes, (b) => (model.names[b] !== null && cause.named.some((n) => model.names[b] === n || model.names[b].startsWith(`${n}(`) || model.names[b].startsWith(`${n}<`)) ? model.longest(b) : 0));
    if (named) return named;
    // else the longest wait for one of its ranks, seen on the late rank
    let best = null;
    for (const lane of step.lanes) for (const w of lane.waits) if (cause.ranks.has(w.late) && step.ofRank.has(w.late) && (!best || w.dur > best.wait.dur)) best = { wait: w, waiting: lane };
    if (best) {
      const lane = step.ofRank.get(best.wait.late);
      const at = best.wait.start + best.wait.dur;
      return { lane, block: blockAt(model, lane, Math.max(at - 1, lane.start)), at, from: best.wait.start, until: at, wait: best.wait, waiting: best.waiting };
    }
    return largestBlock(model, lanes.slice(0, 1), (b) => model.time(b, 0));
  }
  const owned = largestBlock(model, lanes, (b) => (model.causes[b] === cause.kind ? model.longest(b) : 0));
  if (owned) return owned;
  const isOf = (start) => cause.kind.startsWith(start);
  const part = isOf("kernel_") ? 0 : isOf("transfer_") || isOf("comm_") || cause.kind === "pipeline_bubble" ? 1 : isOf("copy_") ? 2 : 3;
  return largestBlock(model, lanes, (b) => (model.parts[b] === part ? model.longest(b) : 0));
}

/** Marks the causes of the diagnosis on the lanes: `causes` has ranks, steps and kind of each. */
export function markCauses(model, causes) {
  for (const step of model.steps) {
    causes.forEach((cause, n) => {
      const place = placeOf(model, step, cause);
      if (place) place.lane.marks.push({ cause: n, at: place.at, place });
    });
  }
}
