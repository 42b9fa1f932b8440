// Comparison with another run: its numbers beside those of this one, causes that are gone and new, and its timeline
// below. Present in pages of `hta report RESULTS --against BASELINE`.

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

function compareSection(f, data) {
  const other = data.other;
  const lanes = data.sections.get("breakdown").grids.lanes;
  const now = lanes ? meanParts(readGrid(lanes, data.texts)) : null;
  const before = meanParts(other.grids("breakdown").lanes);
  f.body.append(make("p", { class: "note" }, `Baseline: ${other.name}.`));
  if (now && before) {
    const rows = [["dur_ns", "mean length of a step"], ...PARTS.map(([column, name]) => [column, name])];
    const grid = derivedGrid("temporal_breakdown", [
      ["what", "time of a step", "text", "mean over ranks and steps", rows.map((r) => r[1])],
      ["now_ns", "this run", "ns", "in this run", rows.map((r) => Math.round(now[r[0]]))],
      ["before_ns", "baseline", "ns", "in the baseline", rows.map((r) => Math.round(before[r[0]]))],
      ["delta_ns", "difference", "ns", "this run minus baseline", rows.map((r) => Math.round(now[r[0]] - before[r[0]]))],
      ["change", "change", "text", "change of the time", rows.map((r) => change(now[r[0]], before[r[0]]))],
    ]);
    f.body.append(makeTable(grid, "time of a step in both runs"));
  }
  const [mine, theirs] = [f.causes, other.grids("findings").findings];
  const ids = (grid) => new Map((grid ? grid.of("id") : []).map((id, i) => [id, i]));
  const [here, there] = [ids(mine), ids(theirs)];
  const list = (title, entries) => {
    f.heading(title);
    f.body.append(entries.length ? make("ul", { class: "changes" }, ...entries) : make("p", { class: "note" }, "none"));
  };
  const gain = (grid, i) => (grid.of("recoverable_pct")[i] === null ? "-" : percent(grid.of("recoverable_pct")[i]));
  list("Causes that are new", [...here].filter(([id]) => !there.has(id)).map(([, i]) => make("li", { class: "new" }, ...sentence(mine.of("sentence")[i]), ` (${gain(mine, i)}) `, make("a", { href: `#cause-${i + 1}` }, `cause ${i + 1}`))));
  list("Causes that are gone", [...there].filter(([id]) => !here.has(id)).map(([, i]) => make("li", { class: "gone" }, ...sentence(theirs.of("sentence")[i]), ` (was ${gain(theirs, i)})`)));
  list("Causes in both", [...here].filter(([id]) => there.has(id)).map(([id, i]) => make("li", {}, ...sentence(mine.of("sentence")[i]), ` (${gain(mine, i)}, was ${gain(theirs, there.get(id))})`)));
  const [kernels, old] = [data.sections.get("kernels").grids.kernels, other.grids("kernels").kernels];
  if (kernels && old) {
    const grid = readGrid(kernels, data.texts);
    const sums = (g) => g.of("name").reduce((m, name, i) => m.set(name, (m.get(name) || 0) + g.of("sum_ns")[i]), new Map());
    const [a, b] = [sums(grid), sums(old)];
    const all = [...new Set([...a.keys(), ...b.keys()])].map((name) => [name, a.get(name) || 0, b.get(name) || 0]).sort((x, y) => Math.abs(y[1] - y[2]) - Math.abs(x[1] - x[2]));
    f.table(derivedGrid("kernels_by_name", [
      ["name", "kernel", "text", "full name", all.map((r) => r[0])], ["sum_ns", "this run", "ns", "sum of durations", all.map((r) => r[1])],
      ["before_ns", "baseline", "ns", "sum of durations in the baseline; 0: not listed there", all.map((r) => r[2])],
      ["delta_ns", "difference", "ns", "this run minus baseline", all.map((r) => r[1] - r[2])],
    ]), "kernels in both runs");
  }
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
