// The section of the time axis: controls, what is chosen with its source line and its command, legend, tables; and the
// way from a cause to its place.

import { addSelect, charts } from "page/chart.js";
import { commandLine, rowsCommand } from "page/command.js";
import { otherTimeline } from "page/compare.js";
import { chooseStep, stepFollowers } from "page/follow.js";
import { count, exact, make, ns, plural } from "page/format.js";
import { linked, sentence } from "page/source.js";
import { names, readGrid } from "page/table.js";
import { markCauses } from "page/timeline/cause_places.js";
import { CAUSE_TINTS, derivedGrid, LANE_PARTS, laneModel, PART_KEYS, words } from "page/timeline/model.js";
import { makeTimeline } from "page/timeline/timeline.js";

/** The causes of the diagnosis as the time axis needs them. */
function causesOf(grid) {
  if (!grid) return [];
  const list = (text) => (text ? text.split(",").filter((v) => v !== "") : []);
  return grid.of("kind").map((kind, i) => ({
    kind,
    ranks: new Set(list(grid.of("ranks")[i]).map(Number)),
    steps: list(grid.of("step_labels")[i]),
    sentence: grid.of("sentence")[i],
    named: (grid.of("sentence")[i] || "").split("`").filter((_, k) => k % 2 === 1),
    action: grid.of("action")[i],
  }));
}

/** Shows a cause on the time axis; set when the axis is made. */
export let showCause = null;
/** Whether a cause has a place on the axis. */
export let hasPlace = () => false;

export function timelineSection(f, data) {
  const findings = data.sections.get("findings");
  const causes = causesOf(findings.grids.findings ? readGrid(findings.grids.findings, data.texts) : null);
  const evidence = findings.grids.evidence ? readGrid(findings.grids.evidence, data.texts) : null;
  const model = laneModel(f.grids);
  markCauses(model, causes);
  const controls = f.controls();
  const order = model.steps.map((_, i) => i).sort((a, b) => names.compare(model.steps[a].label, model.steps[b].label));
  const named = (i) => (model.steps[i].label === "all" ? "all that was recorded" : `step ${model.steps[i].label}`);
  const select = addSelect(controls, "Step", order.map((i) => [String(i), `${named(i)}, ${ns(model.steps[i].length)}${i === 0 && model.steps.length > 1 ? " (the longest)" : ""}`]), (v) => {
    line.showStep(Number(v));
    chooseStep(model.steps[Number(v)].label, line);
  });
  select.value = "0";
  const button = (text, title, action) => {
    const b = make("button", { type: "button", title }, text);
    b.addEventListener("click", action);
    return b;
  };
  controls.append(make("span", { class: "buttons", role: "group", "aria-label": "zoom and move" },
    button("−", "zoom out (key -)", () => line.zoom(1 / 2)), button("+", "zoom in (key +)", () => line.zoom(2)),
    button("◂", "earlier (key page up)", () => line.pan(-0.4)), button("▸", "later (key page down)", () => line.pan(0.4)),
    button("whole step", "show the whole step (key 0)", () => line.fit())));
  const place = make("div", { class: "timeline" });
  f.body.append(place);
  const detail = make("div", { class: "chosen", role: "status", "aria-live": "polite" });
  const line = makeTimeline(place, model, (what) => {
    detail.replaceChildren();
    if (!what) return;
    const rows = what.lines.map((l, i) => make(i ? "div" : "b", {}, l === what.name ? "" : l));
    detail.append(...rows.filter((r) => r.textContent));
    if (what.name) detail.append(make("div", { class: "mono" }, ...linked(what.name, true)));
    if (what.cause !== undefined) {
      const cause = causes[what.cause];
      detail.append(make("p", {}, make("b", {}, `${what.cause + 1} `), ...sentence(cause.sentence || "")));
      if (what.waiting) detail.append(make("div", {}, `rank ${what.waiting.rank} waits for it ${exact("ns", what.wait.dur)} in ${words(what.wait.kind)}`));
      const back = make("a", { href: `#cause-${what.cause + 1}` }, "back to the cause");
      const rowsOf = evidence ? evidence.of("finding").map((_, k) => k).filter((k) => evidence.of("finding")[k] === what.cause) : [];
      for (const k of rowsOf.slice(0, 2)) detail.append(commandLine(rowsCommand(evidence.of("evidence_table")[k], evidence.of("filter")[k])));
      detail.append(make("div", {}, back));
    }
    if (what.lane) {
      const label = what.step.label;
      const step = label === "all" ? "" : ` AND ${label.startsWith("@") ? `step = ${label.slice(1)}` : `step_label = ${label}`}`;
      detail.append(commandLine(rowsCommand("timeline", `rank = ${what.lane.rank}${step}`)));
    }
  });
  stepFollowers.push([line, (label) => {
    const at = model.steps.findIndex((s) => s.label === String(label));
    if (at >= 0 && line.state.step !== model.steps[at]) {
      select.value = String(at);
      line.showStep(at);
    }
  }]);
  charts.push(line);
  line.showStep(0);
  const first = model.steps[0].lanes.flatMap((l) => l.marks).sort((a, b) => a.cause - b.cause)[0];
  if (first) line.unfold(first.place.lane);
  f.body.append(detail, legend(model), make("p", { class: "note", id: "timeline-keys" }, "Drag to move, Ctrl and wheel or pinch to zoom, double click to fill. A rank with ▸ unfolds to its streams and threads. Keys: arrows choose, + and - zoom, 0 whole step, Enter unfolds. Time from the start of the step, clocks aligned."));
  const merged = f.grids.merged;
  if (merged.rows) {
    const pieces = merged.of("count").reduce((s, v) => s + v, 0);
    f.body.append(make("p", { class: "note" }, `Drawn as ${plural(f.grids.blocks.rows, "block")}: ${count(pieces)} short pieces share ${count(merged.rows)} of them, which show the shares of their parts. Sums are exact.`));
  }
  const left = f.grids.tracks.of("left").reduce((s, v) => s + v, 0);
  if (left) f.body.append(make("p", { class: "note" }, ...sentence(`Of streams and threads ${plural(left, "shorter span is", "shorter spans are")} left out; the table \`events\` has them.`)));
  if (data.other) otherTimeline(f, data);
  f.table(sumsOf(model), "time of each lane by step");
  f.table(waitsOf(model), "longest waits for other ranks");
  hasPlace = (i) => causes[i] !== undefined && model.steps.some((s) => s.lanes.some((l) => l.marks.some((m) => m.cause === i)));
  showCause = (i) => {
    const at = model.steps.findIndex((s) => s.lanes.some((l) => l.marks.some((m) => m.cause === i)));
    if (at < 0) return;
    select.value = String(at);
    const found = model.steps[at].lanes.flatMap((l) => l.marks).find((m) => m.cause === i);
    document.getElementById("timeline").scrollIntoView({ block: "start" });
    line.showPlace(at, found.place, i);
    chooseStep(model.steps[at].label, line);
  };
}

/** As `hatch` on the canvas. */
const HATCHED = "repeating-linear-gradient(135deg, var(--communication) 0 3px, var(--late) 3px 5px)";

function legend(model) {
  const used = new Set(model.causes);
  const key = (tint, text) => make("span", { class: "key" }, make("i", { style: `background:${tint}` }), text);
  const spans = model.lanes.some((l) => l.tracks.length) ? [[1, "API call"], [2, "operator"], [4, "Python"], [9, "annotation"]] : [];
  const causes = new Map();
  for (const [kind, at] of CAUSE_TINTS) if (used.has(kind)) causes.set(at, [...(causes.get(at) || []), words(kind)]);
  return make("div", { class: "legend", role: "group", "aria-label": "colours" },
    ...LANE_PARTS.map((text, p) => key(`var(--${PART_KEYS[p]})`, text)), key(HATCHED, "waits for a late rank"),
    ...[...causes].map(([at, kinds]) => key(`var(--kind-${at})`, `at the foot: ${kinds.join(", ")}`)),
    ...spans.map(([at, text]) => key(`var(--kind-${at})`, text)));
}

function sumsOf(model) {
  const rows = model.steps.flatMap((s) => s.lanes.map((l) => [s, l]));
  const sum = (l, p) => { let v = 0; for (let b = l.first; b < l.end; b++) v += model.time(b, p); return v; };
  return derivedGrid("timeline", [
    ["rank", "rank", "id", "rank", rows.map(([, l]) => l.rank)], ["device", "device", "id", "device", rows.map(([, l]) => l.device)],
    ["step", "step", "text", "step", rows.map(([s]) => s.label)],
    ["dur_ns", "length", "ns", "length of its window", rows.map(([, l]) => l.until - l.start)],
    ...PART_KEYS.map((k, p) => [`${k}_ns`, LANE_PARTS[p], "ns", LANE_PARTS[p], rows.map(([, l]) => sum(l, p))]),
    ["waiting_ns", "of that waiting", "ns", "exposed communication that waits for other ranks", rows.map(([, l]) => l.waiting)],
    ["transfer_ns", "transfer", "ns", "exposed communication that transfers", rows.map(([, l]) => (l.waiting === null ? null : sum(l, 1) - l.waiting - l.unmatched))],
    ["unmatched_ns", "without a match", "ns", "exposed communication of calls that have no match on other ranks", rows.map(([, l]) => l.unmatched || null)],
  ]);
}

function waitsOf(model) {
  const rows = model.steps.flatMap((s) => s.lanes.flatMap((l) => l.waits.map((w) => [s, l, w])));
  return derivedGrid("timeline_waits", [
    ["rank", "rank", "id", "rank that waits", rows.map(([, l]) => l.rank)], ["step", "step", "text", "step", rows.map(([s]) => s.label)],
    ["start_ns", "start", "ns", "start, after the start of the step", rows.map(([, , w]) => w.start)],
    ["dur_ns", "length", "ns", "length of the wait", rows.map(([, , w]) => w.dur)],
    ["late_rank", "late rank", "id", "rank that came last", rows.map(([, , w]) => w.late)],
    ["kind", "collective", "text", "what waits", rows.map(([, , w]) => words(w.kind))],
  ]);
}
