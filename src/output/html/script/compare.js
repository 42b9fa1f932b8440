// The baseline of `hta report RESULTS --against BASELINE`: its sections, what the tiles say of it, and its timeline below
// that of this run. against.js has the section of all figures.

/** The other run, with its sections read like those of this one; null without one. */
function otherRun(data) {
  if (!data.against) return null;
  const sections = new Map(data.against.sections);
  const grids = (name) => {
    const section = sections.get(name);
    return section ? Object.fromEntries(Object.entries(section.grids).map(([n, raw]) => [n, readGrid(raw, data.texts)])) : {};
  };
  return { name: short(data.against.folder, 60), sections, grids };
}

/** A change in words: `1.23 ms, 4.5 % less`. */
function change(now, before) {
  if (!before) return "";
  const share = (now - before) / before;
  return Math.abs(share) < 0.0005 ? "the same" : `${percent(Math.abs(share))} ${share > 0 ? "more" : "less"}`;
}

/** Mean of a step by part, as the tiles show it. */
function meanParts(lanes) {
  if (!lanes || lanes.rows === 0) return null;
  const each = perWindow(lanes);
  const mean = (name) => each.of(name).reduce((s, v) => s + (v || 0), 0) / each.rows;
  return Object.fromEntries(["dur_ns", ...PARTS.map((p) => p[0])].map((name) => [name, mean(name)]));
}

/** The other run's timeline, below this one's. */
function otherTimeline(f, data) {
  const grids = data.other.grids("timeline");
  if (!grids.steps || grids.steps.rows === 0) return;
  const model = laneModel(grids, []);
  f.heading(`The baseline: ${data.other.name}`);
  const controls = f.controls();
  const place = make("div", { class: "timeline" });
  const detail = make("div", { class: "note", role: "status", "aria-live": "polite" });
  f.body.append(place, detail);
  const line = makeTimeline(place, model, (what) => { detail.textContent = what ? what.lines.join("; ") : ""; });
  addSelect(controls, "Step of the baseline", model.steps.map((s, i) => [String(i), `${s.label === "all" ? "all that was recorded" : `step ${s.label}`}, ${ns(s.length)}`]), (v) => line.showStep(Number(v)));
  charts.push(line);
  line.showStep(0);
}

/** The change of a number to the baseline, in its own unit; null where one of both is missing. */
function changeOf(column, i) {
  const [now, before] = [column.cells[i], column.base ? column.base[i] : null];
  return now === null || before === null ? null : now - before;
}

/** The number of the baseline and the change, below a number of a table. */
function besideNumber(column, i) {
  const before = column.base[i];
  const delta = changeOf(column, i);
  if (before === null) return make("span", { class: "was" }, column.cells[i] === null ? "" : "was –");
  const isShare = column.kind === "ratio";
  const words = delta === null ? "" : delta === 0 ? "same" : isShare ? points(delta) : before === 0 ? signedBy(column.kind, delta) : signedBy("ratio", delta / Math.abs(before));
  return make("span", { class: "was", title: exact(column.kind, before) || null }, `was ${shown(column.kind, before)}`, words ? `, ${words}` : "");
}

/** Sums grow with what is recorded: what differs in it, in words. */
function recordedOtherwise() {
  const [now, before] = [data.set, data.against.set];
  const of = (s) => `${plural(s.ranks, "rank")}, ${s.min_steps === s.max_steps ? plural(s.min_steps, "step") : `${count(s.min_steps)} to ${count(s.max_steps)} steps`}`;
  return of(now) === of(before) ? "" : `; recorded: ${of(now)}, and in the baseline ${of(before)}`;
}
