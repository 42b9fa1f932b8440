// What was recorded: what was lost or repaired, and the ranks.

import { make, plural } from "page/format.js";
import { makeTable } from "page/table.js";

export function healthSection(f) {
  const { problems, refused } = f.grids;
  const severities = problems.of("severity");
  const lost = severities.filter((s) => s === "loss" || s === "fatal").length;
  const repaired = severities.filter((s) => s === "repair").length;
  const serious = lost + repaired;
  const words = [];
  if (lost) words.push(`${plural(lost, "kind")} of loss.`);
  if (repaired) words.push(`${plural(repaired, "kind")} of repair.`);
  if (!serious) words.push("Nothing was lost or repaired.");
  if (problems.rows > serious) words.push(`${plural(problems.rows - serious, "kind")} of harmless oddities.`);
  if (refused.rows) words.push(`${plural(refused.rows + (refused.rest ? refused.rest.rows : 0), "file was", "files were")} not analysed.`);
  f.body.append(make("p", { class: lost || refused.of("severity").includes("fatal") ? "severity-loss" : "note" }, words.join(" ")));
  if (serious) f.body.append(makeTable(problems, "problems by kind"));
  else f.table(problems, "problems by kind");
  if (refused.rows) f.body.append(makeTable(refused, "files that were not analysed"));
}

export function ranksSection(f) {
  f.body.append(makeTable(f.grids.ranks, "ranks"));
}
