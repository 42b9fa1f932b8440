// The step that the reader chose, which charts of several sections follow.

import { make } from "page/format.js";

/** Pairs of a follower and what it does when a step is chosen; null: all steps. */
export const stepFollowers = [];

/** A line of a section that says which step it shows, with the way back to all steps; `has` tells whether it has that step. */
export function stepNote(f, has) {
  const line = make("p", { class: "note", hidden: "" });
  f.body.append(line);
  return (label) => {
    line.hidden = label === null;
    if (label === null) return;
    const back = make("button", { type: "button" }, "all that was recorded");
    back.addEventListener("click", () => chooseStep(null, null));
    line.replaceChildren(...(has() ? [`Step ${label} alone: `, back] : [`Step ${label} is not on this axis: all that was recorded.`]));
  };
}

/** Tells all followers but the one that chose. */
export function chooseStep(label, from) {
  for (const [follower, follow] of stepFollowers) if (follower !== from) follow(label);
}
