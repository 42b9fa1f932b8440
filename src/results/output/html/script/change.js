// A number of this run beside that of the baseline: signs, shares, and what is below it in a table.

import { baseline, run } from "page/data.js";
import { make } from "page/dom.js";
import { count, exact, percent, plural, shown } from "page/format.js";

const sign = (v) => (v > 0 ? "+" : v < 0 ? "-" : "");

/** A difference with its sign. */
export const signedBy = (kind, v) => (v === null ? "" : `${sign(v)}${shown(kind, Math.abs(v))}`);

/** The difference of two shares, in points. */
export const points = (v) => `${sign(v)}${Math.abs(100 * v).toFixed(1)} points`;

/** A change in words: `4.5 % less`. */
export function change(now, before) {
  if (!before) return "";
  const share = (now - before) / before;
  return Math.abs(share) < 0.0005 ? "the same" : `${percent(Math.abs(share))} ${share > 0 ? "more" : "less"}`;
}

/** The change of a number to the baseline, in its own unit; null where one of both is missing. */
export function changeOf(column, i) {
  const [now, before] = [column.cells[i], column.base ? column.base[i] : null];
  return now === null || before === null ? null : now - before;
}

/** The number of the baseline and the change, below a number of a table. */
export function besideNumber(column, i) {
  const before = column.base[i];
  if (before === null) return make("span", { class: "was" }, column.cells[i] === null ? "" : "was –");
  /** @type {any} */
  const delta = changeOf(column, i);
  const relative = () => (before === 0 ? signedBy(column.kind, delta) : signedBy("ratio", delta / Math.abs(before)));
  const whole = { ratio: 1, percent: 100 }[column.kind];
  const told = delta === null ? "" : delta === 0 ? "same" : whole ? points(delta / whole) : relative();
  const title = exact(column.kind, before) || null;
  return make("span", { class: "was", title }, `was ${shown(column.kind, before)}`, told ? `, ${told}` : "");
}

/** Steps of ranks, of which each has from `min_steps` to `max_steps`. */
export const stepsOf = (set) => (set.min_steps === set.max_steps
  ? plural(set.min_steps, "step") : `${count(set.min_steps)} to ${count(set.max_steps)} steps`);

/** Sums grow with what is recorded: what differs in it, in words. */
export function recordedOtherwise() {
  const [now, before] = [run, baseline].map((of) => `${plural(of.set.ranks, "rank")}, ${stepsOf(of.set)}`);
  return now === before ? "" : `; recorded: ${now}, and in the baseline ${before}`;
}
