// The step that the reader chose, which charts of several sections follow.

/** Pairs of a follower and what it does when a step is chosen; null: all steps. */
const stepFollowers = [];

/** Tells all followers but the one that chose. */
function chooseStep(label, from) {
  for (const [follower, follow] of stepFollowers) if (follower !== from) follow(label);
}
