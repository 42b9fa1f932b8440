// The section of the time axis: controls, what is chosen with its source line and its query, legend, tables.
// And the way from a cause to its place.

import { charts } from "page/chart.js";
import { baseline, derivedGrid, run } from "page/data.js";
import { addSelect, byId, legendKey, make, makeButton } from "page/dom.js";
import { count, exact, listOf, names, ns, plural, words } from "page/format.js";
import { chooseStep, stepFollowers } from "page/section.js";
import { linked, rowsQuery, sentence } from "page/source.js";
import { partStyle } from "page/theme.js";
import { markCauses } from "page/timeline/cause_places.js";
import { DRAWN_PARTS, LaneModel } from "page/timeline/model.js";
import { makeTimeline } from "page/timeline/timeline.js";

/** The causes of the diagnosis as the time axis needs them. */
const causesOf = (grid) => (grid ? grid.list() : []).map((row) => ({
  id: row("finding_id"),
  kind: row("kind"),
  ranks: new Set(listOf(row("ranks")).map(Number)),
  steps: listOf(row("step_labels")),
  sentence: row("sentence"),
  place: row("place"),
  named: `${row("sentence") || ""} ${row("detail") || ""}`.split("`").filter((_, k) => k % 2 === 1),
}));

/** Where each cause is shown on the time axis, by its number: the step and the place; set when the axis is made. */
const places = new Map();
let show = (_index, _place, _cause) => {};

/** Whether a cause has a place on the axis. */
export const hasPlace = (cause) => places.has(cause);

/** Shows a cause on the time axis. */
export function showCause(cause) {
  byId("timeline").scrollIntoView({ block: "start" });
  show(...places.get(cause), cause);
}

const stepName = (step) => (step.label === "all" ? "all that was recorded" : `step ${step.label}`);

/** A choice of steps, given by their numbers, above a time axis. */
function addStepSelect(controls, label, model, order, changed) {
  const text = (i) => {
    const isLongest = i === 0 && order !== null && model.steps.length > 1;
    return `${stepName(model.steps[i])}, ${ns(model.steps[i].length)}${isLongest ? " (the longest)" : ""}`;
  };
  const all = order ?? model.steps.map((_, i) => i);
  return addSelect(controls, label, all.map((i) => [String(i), text(i)]), (v) => changed(Number(v)));
}

/** What is chosen: what it is, its cause and evidence, and the query of its rows. */
function chosenTold(what, causes, evidence) {
  const line = (text) => make("div", {}, text);
  const [head, ...rest] = what.lines.map((l) => (l === what.name ? "" : l));
  const out = [head && make("b", {}, head), ...rest.filter((l) => l).map(line)].filter((e) => e);
  if (what.name) out.push(make("div", { class: "mono" }, ...linked(what.name, true)));
  if (what.cause !== undefined) {
    const number = what.cause + 1;
    const { id, sentence: cause, place } = causes[what.cause];
    const where = place ? ["; where: ", ...sentence(place)] : [];
    out.push(make("p", {}, make("b", {}, `${number} `), ...sentence(cause || ""), ...where));
    if (what.waiting) {
      const { dur, kind } = what.wait;
      out.push(line(`rank ${what.waiting.rank} waits for it ${exact("ns", dur)} in ${words(kind)}`));
    }
    const rows = evidence.filter((row) => row("finding_id") === id).slice(0, 2);
    out.push(...rows.map((row) => rowsQuery(row("evidence_table"), row("filter"))));
    out.push(line(make("a", { href: `#cause-${number}` }, "back to the cause")));
  }
  if (what.lane) {
    const { label } = what.step;
    const isIndex = label.startsWith("@");
    const step = isIndex ? ` AND step = ${label.slice(1)}` : label === "all" ? "" : ` AND step_label = ${label}`;
    out.push(rowsQuery("timeline", `rank = ${what.lane.rank}${step}`));
  }
  return out;
}

export function timelineSection(f) {
  const { findings, evidence } = run.grids("findings");
  const causes = causesOf(findings);
  const model = new LaneModel(f.grids);
  markCauses(model, causes);
  const controls = f.controls();
  const order = model.steps.map((_, i) => i)
    .sort((a, b) => names.compare(model.steps[a].label, model.steps[b].label));
  const select = addStepSelect(controls, "Step", model, order, (i) => {
    line.showStep(i);
    chooseStep(model.steps[i].label, line);
  });
  select.value = "0";
  const place = make("div", { class: "timeline" });
  f.body.append(place);
  const detail = make("div", { class: "chosen", role: "status", "aria-live": "polite" });
  const line = makeTimeline(place, model, (what) => {
    detail.replaceChildren(...(what ? chosenTold(what, causes, evidence ? evidence.list() : []) : []));
  });
  const g = line.geometry;
  const button = (text, title, act) => makeButton(text, act, { title });
  controls.append(make("span", { class: "buttons", role: "group", "aria-label": "zoom and move" },
    button("−", "zoom out (key -)", () => g.zoom(1 / 2)), button("+", "zoom in (key +)", () => g.zoom(2)),
    button("◂", "earlier (key page up)", () => g.pan(-0.4)), button("▸", "later (key page down)", () => g.pan(0.4)),
    button("whole step", "show the whole step (key 0)", line.fit)));
  stepFollowers.push([line, (label) => {
    const at = model.steps.findIndex((s) => s.label === String(label));
    if (at >= 0 && g.step !== model.steps[at]) {
      select.value = String(at);
      line.showStep(at);
    }
  }]);
  charts.push(line);
  const marksOf = (step) => step.lanes.flatMap((l) => l.marks).sort((a, b) => a.cause - b.cause);
  const first = marksOf(model.steps[0])[0];
  if (first && g.folds()) line.unfold(first.place.lane);
  model.steps.forEach((step, i) => {
    for (const mark of marksOf(step)) if (!places.has(mark.cause)) places.set(mark.cause, [i, mark.place]);
  });
  show = (index, at, cause) => {
    select.value = String(index);
    line.showPlace(index, at, cause);
    chooseStep(model.steps[index].label, line);
  };
  f.body.append(detail, legend(model));
  const { blocks, merged, tracks } = f.grids;
  if (merged.rows) {
    f.note(`Drawn as ${plural(blocks.rows, "block")}: ${count(merged.sum("count"))} short pieces share `
      + `${count(merged.rows)} of them, which show the shares of their parts. Sums are exact.`);
  }
  const left = tracks.sum("left");
  if (left) {
    const spans = plural(left, "shorter span is", "shorter spans are");
    f.note(`Of streams and threads ${spans} left out; the table \`events\` has them.`);
  }
  if (baseline) baselineTimeline(f);
  f.table(sumsOf(model), "time of each lane by step");
  f.table(waitsOf(model), "longest waits for other ranks");
}

/** The timeline of the baseline, below this one's. */
function baselineTimeline(f) {
  const grids = baseline.grids("timeline");
  if (!grids.steps || grids.steps.rows === 0) return;
  const model = new LaneModel(grids);
  f.heading(`The baseline: ${baseline.name}`);
  const controls = f.controls();
  const place = make("div", { class: "timeline" });
  const detail = make("div", { class: "note", role: "status", "aria-live": "polite" });
  f.body.append(place, detail);
  const line = makeTimeline(place, model, (what) => { detail.textContent = what ? what.lines.join("; ") : ""; });
  addStepSelect(controls, "Step of the baseline", model, null, line.showStep);
  charts.push(line);
}

const SPAN_KEYS = [[1, "API call"], [2, "operator"], [4, "Python"], [9, "annotation"]];

function legend(model) {
  const used = new Set(model.causes);
  const has = (p) => model.durs.some((_, b) => model.drawn(b, p) > 0);
  const hasTracks = model.lanes.some((l) => l.tracks.length);
  const ofKind = (at, text) => legendKey(`var(--kind-${at})`, text);
  const causes = new Map();
  for (const [kind, at] of model.tints) if (used.has(kind)) causes.set(at, [...(causes.get(at) || []), words(kind)]);
  return make("div", { class: "legend", role: "group", "aria-label": "colours" },
    ...DRAWN_PARTS.filter(([p]) => has(p))
      .map(([p, text, key]) => legendKey(partStyle(key), p === 1 ? model.exposedName : text)),
    causes.size ? make("span", {}, "stripe, cause of idle time or copies:") : null,
    ...[...causes].map(([at, kinds]) => ofKind(at, kinds.join(", "))),
    hasTracks ? make("span", {}, "in threads:") : null,
    ...(hasTracks ? SPAN_KEYS.map(([at, text]) => ofKind(at, text)) : []));
}

function sumsOf(model) {
  const rows = model.steps.flatMap((step) => step.lanes.map((lane) => ({ step, lane })));
  const column = (name, title, kind, doc, value) => [name, title, kind, doc, rows.map(value)];
  const hasFused = rows.some(({ lane }) => model.partsOf(lane).fused > 0);
  const part = (name) => column(`${name}_ns`, name, "ns", name, ({ lane }) => model.partsOf(lane)[name]);
  return derivedGrid("timeline", [
    column("rank", "rank", "id", "rank", ({ lane }) => lane.rank),
    column("device", "device", "id", "device", ({ lane }) => lane.device),
    column("step", "step", "text", "step", ({ step }) => step.label),
    column("dur_ns", "length", "ns", "length of its window", ({ lane }) => lane.until - lane.start),
    ...["compute", ...(hasFused ? ["fused"] : []), "waiting", "transfer", "unmatched", "copies", "idle"].map(part),
  ]);
}

function waitsOf(model) {
  const ofLane = (step, lane) => lane.waits.map((wait) => ({ step, lane, wait }));
  const rows = model.steps.flatMap((step) => step.lanes.flatMap((lane) => ofLane(step, lane)));
  const column = (name, title, kind, doc, value) => [name, title, kind, doc, rows.map(value)];
  return derivedGrid("timeline_waits", [
    column("rank", "rank", "id", "rank that waits", ({ lane }) => lane.rank),
    column("step", "step", "text", "step", ({ step }) => step.label),
    column("start_ns", "start", "ns", "start, after the start of the step", ({ wait }) => wait.start),
    column("dur_ns", "length", "ns", "length of the wait", ({ wait }) => wait.dur),
    column("late_rank", "late rank", "id", "rank that came last", ({ wait }) => wait.late),
    column("kind", "collective", "text", "what waits", ({ wait }) => words(wait.kind)),
  ]);
}
