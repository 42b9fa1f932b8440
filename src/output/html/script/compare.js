// The baseline of `hta report RESULTS --against BASELINE`: its sections, what the tiles say of it, and its timeline below
// that of this run. against.js has the section of all figures.

import { addSelect, charts } from "page/chart.js";
import { make, ns, short } from "page/format.js";
import { PARTS } from "page/section.js";
import { perWindow, readGrid } from "page/table.js";
import { laneModel } from "page/timeline/model.js";
import { makeTimeline } from "page/timeline/timeline.js";

/** The other run, with its sections read like those of this one; null without one. */
export function otherRun(data) {
  if (!data.against) return null;
  const sections = new Map(data.against.sections);
  const grids = (name) => {
    const section = sections.get(name);
    return section ? Object.fromEntries(Object.entries(section.grids).map(([n, raw]) => [n, readGrid(raw, data.texts)])) : {};
  };
  return { name: short(data.against.folder, 60), sections, grids };
}

/** Mean of a step by part, as the tiles show it. */
export function meanParts(lanes) {
  if (!lanes || lanes.rows === 0) return null;
  const each = perWindow(lanes);
  const mean = (name) => each.of(name).reduce((s, v) => s + (v || 0), 0) / each.rows;
  return Object.fromEntries(["dur_ns", ...PARTS.map((p) => p[0])].map((name) => [name, mean(name)]));
}

/** The other run's timeline, below this one's. */
export function otherTimeline(f, data) {
  const grids = data.other.grids("timeline");
  if (!grids.steps || grids.steps.rows === 0) return;
  const model = laneModel(grids);
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
