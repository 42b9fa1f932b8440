// A number of this run beside that of the baseline: signs, shares, and what is below it in a table.

import { data } from "page/data.js";
import { count, exact, make, percent, plural, shown } from "page/format.js";

/** A difference with its sign. */
export const signedBy = (kind, v) => (v === null ? "" : `${v > 0 ? "+" : v < 0 ? "-" : ""}${shown(kind, Math.abs(v))}`);

/** The difference of two shares, in points. */
export const points = (v) => `${v > 0 ? "+" : v < 0 ? "-" : ""}${Math.abs(100 * v).toFixed(1)} points`;

/** A change in words: `1.23 ms, 4.5 % less`. */
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
  const delta = changeOf(column, i);
  if (before === null) return make("span", { class: "was" }, column.cells[i] === null ? "" : "was –");
  const isShare = column.kind === "ratio";
  const words = delta === null ? "" : delta === 0 ? "same" : isShare ? points(delta) : before === 0 ? signedBy(column.kind, delta) : signedBy("ratio", delta / Math.abs(before));
  return make("span", { class: "was", title: exact(column.kind, before) || null }, `was ${shown(column.kind, before)}`, words ? `, ${words}` : "");
}

/** Sums grow with what is recorded: what differs in it, in words. */
export function recordedOtherwise() {
  const [now, before] = [data.set, data.against.set];
  const of = (s) => `${plural(s.ranks, "rank")}, ${s.min_steps === s.max_steps ? plural(s.min_steps, "step") : `${count(s.min_steps)} to ${count(s.max_steps)} steps`}`;
  return of(now) === of(before) ? "" : `; recorded: ${of(now)}, and in the baseline ${of(before)}`;
}
