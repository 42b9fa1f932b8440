// Where each cause of the diagnosis is seen best on the time axis.

/** The largest block of some lanes by a measure; none where that is nothing. */
function largestBlock(model, lanes, measure) {
  /** @type {any} */
  let [best, most] = [null, 0];
  for (const lane of lanes) {
    for (let b = lane.first; b < lane.end; b++) {
      const value = measure(b);
      if (value > most) [best, most] = [{ lane, block: b, from: model.starts[b], until: model.until(b) }, value];
    }
  }
  return best;
}

/** The longest wait of a step for one of the ranks of a cause, seen on the late rank. */
function longestWait(model, step, cause) {
  /** @type {any} */
  let [wait, waiting] = [null, null];
  for (const lane of step.lanes) {
    for (const w of lane.waits) {
      if (!cause.ranks.has(w.late) || !step.ofRank.has(w.late) || (wait && w.dur <= wait.dur)) continue;
      [wait, waiting] = [w, lane];
    }
  }
  if (!wait) return null;
  const lane = step.ofRank.get(wait.late);
  const at = wait.start + wait.dur;
  const block = model.blockAt(lane, Math.max(at - 1, lane.start));
  return { lane, block, from: wait.start, until: at, wait, waiting };
}

/** Where ranks come late: at what the cause is about by its own words, or at the longest wait for one of its ranks. */
function latePlace(model, step, cause, lanes) {
  const isNamed = (name) => cause.named.some((n) => name === n || name.startsWith(`${n}(`) || name.startsWith(`${n}<`));
  const measure = (b) => (model.names[b] !== null && isNamed(model.names[b]) ? model.longest(b) : 0);
  return largestBlock(model, lanes, measure) ?? longestWait(model, step, cause)
    ?? largestBlock(model, lanes.slice(0, 1), (b) => model.time(b, 0));
}

/** The part of time that a cause of a kind is in. */
function partOf(kind) {
  if (kind.startsWith("kernel_")) return 0;
  if (/^(transfer_|comm_|pipeline_bubble$)/.test(kind)) return 1;
  return kind.startsWith("copy_") ? 2 : 3;
}

/** Where a cause is seen best in a step: on which lane, and when. */
function placeOf(model, step, cause) {
  if (cause.steps.length && !cause.steps.includes(step.label)) return null;
  const lanes = step.lanes.filter((l) => cause.ranks.size === 0 || cause.ranks.has(l.rank));
  if (lanes.length === 0 || cause.kind.startsWith("memory_") || cause.kind === "input_incomplete") return null;
  if (["straggler", "imbalance"].includes(cause.kind)) return latePlace(model, step, cause, lanes);
  const part = partOf(cause.kind);
  return largestBlock(model, lanes, (b) => (model.causes[b] === cause.kind ? model.longest(b) : 0))
    ?? largestBlock(model, lanes, (b) => (model.parts[b] === part ? model.longest(b) : 0));
}

/** Marks the causes of the diagnosis on the lanes: `causes` has ranks, steps, kind and names of each. */
export function markCauses(model, causes) {
  for (const step of model.steps) {
    causes.forEach((cause, n) => {
      const place = placeOf(model, step, cause);
      if (place) place.lane.marks.push({ cause: n, place });
    });
  }
}
