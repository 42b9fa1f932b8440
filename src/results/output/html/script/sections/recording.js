// What was recorded: what was lost or repaired.

import { make } from "page/dom.js";
import { plural } from "page/format.js";

export function healthSection(f) {
  const { problems, refused } = f.grids;
  const kindsOf = (...severities) => problems.of("severity").filter((s) => severities.includes(s)).length;
  const [lost, repaired] = [kindsOf("lost", "fatal"), kindsOf("corrected")];
  const harmless = problems.rows - lost - repaired;
  const told = [
    lost && `${plural(lost, "kind")} of loss.`, repaired && `${plural(repaired, "kind")} of repair.`,
    !lost && !repaired && "Nothing was lost or repaired.",
    harmless && `${plural(harmless, "kind")} of harmless oddities.`,
    refused.rows && `${plural(refused.rows + refused.rest, "file was", "files were")} not analysed.`,
  ].filter((text) => text);
  const isLoss = lost || refused.of("severity").includes("fatal");
  f.body.append(make("p", { class: isLoss ? "severity-lost" : "note" }, told.join(" ")));
  if (lost || repaired) f.openTable(problems);
  if (refused.rows) f.openTable(refused);
}
