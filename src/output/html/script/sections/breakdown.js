// What the time of a step consists of: parts by rank and step, and idle time by cause.

import { addChart, addSelect, nameBars } from "page/chart.js";
import { chooseStep, stepFollowers } from "page/follow.js";
import { exact, inLines, make, ns, plain, plural } from "page/format.js";
import {
  chosenLanes, hasSeveralDevices, laneControls, laneName, onlyRows, PARTS, stackedBars, TOP, WORST,
} from "page/section.js";
import { perWindow } from "page/table.js";
import { colour, kinds } from "page/theme.js";

export function breakdownSection(f) {
  const sums = f.grids.lanes;
  const lanes = perWindow(sums);
  const state = { by: lanes.rows > WORST ? "without_compute" : "rank", all: false, lane: "", step: null };
  const partsOf = (columns) => PARTS.map(([, name, key], k) => ({ name, values: columns[k], colour: colour(key) }));
  f.heading(lanes.rows > 1 ? "By rank: mean of a step" : "A step on average");
  const orders = [["rank", "by rank"], ["without_compute", "least compute first"], ["exposed_communication_ns", "most exposed communication first"], ["idle_ns", "most idle first"], ["dur_ns", "longest first"]];
  if (state.by !== "rank") orders.push(orders.shift());
  laneControls(f, lanes, orders, state, () => byRank.render());
  const ofStep = make("p", { class: "note", hidden: "" });
  f.body.append(ofStep);
  const byRank = addChart(f.body, () => {
    const single = state.step !== null && f.grids.cells ? onlyRows(f.grids.cells, (i) => f.grids.cells.of("step")[i] === state.step) : null;
    const from = single && single.rows > 0 ? single : lanes;
    const { labels, values } = chosenLanes(from, [...PARTS.map((p) => p[0]), "dur_ns"], state.by, state.all);
    const chart = stackedBars(labels, partsOf(values), { xTitle: "rank", whole: values[4] });
    return { ...chart, says: `Stacked bars of ${labels.length} ranks: compute, exposed communication, exposed memory and idle time ${from === lanes ? "per step" : `in step ${state.step}`}` };
  });
  const follow = (label) => {
    state.step = label;
    const known = label !== null && f.grids.cells && f.grids.cells.of("step").includes(label);
    const back = make("button", { type: "button" }, "mean of all steps");
    back.addEventListener("click", () => chooseStep(null, null));
    ofStep.replaceChildren(`Step ${label} alone: `, back);
    ofStep.hidden = !known;
    byRank.render();
  };
  stepFollowers.push([byRank, follow]);
  f.table(lanes, "mean of a step by rank");
  f.table(sums, "sums by rank");
  const { steps, cells } = f.grids;
  if (!steps) return;
  f.heading("By step");
  const means = perWindow(steps);
  const laneKey = laneName(cells, hasSeveralDevices(lanes));
  const keys = [...new Set(cells.of("rank").map((_, i) => laneKey(i)))];
  if (lanes.rows > 1) {
    const row = f.controls();
    addSelect(row, "Rank", [["", "mean of all"], ...keys.map((k) => [k, k])], (v) => { state.lane = v; byStep.render(); });
  }
  const byStep = addChart(f.body, () => {
    const rows = state.lane === "" ? null : cells.of("rank").map((_, i) => i).filter((i) => laneKey(i) === state.lane);
    const from = (c) => (rows ? rows.map((i) => cells.of(c)[i]) : means.of(c));
    const partial = rows ? rows.map((i) => cells.of("is_partial")[i]) : [];
    const labels = from("step").map((s, i) => (partial[i] ? `${s} (partial)` : s));
    const chart = stackedBars(labels, partsOf(PARTS.map((p) => from(p[0]))), { xTitle: "step", whole: from("dur_ns") });
    return { ...chart, says: `Stacked bars of ${labels.length} steps: compute, exposed communication, exposed memory and idle time` };
  }, (point) => {
    // all charts follow the step that is clicked
    const rows = state.lane === "" ? null : cells.of("rank").map((_, i) => i).filter((i) => laneKey(i) === state.lane);
    const label = rows ? cells.of("step")[rows[point.pointNumber]] : means.of("step")[point.pointNumber];
    chooseStep(String(label), null);
  });
  f.body.append(make("p", { class: "note" }, "Click a step: the bars by rank and the timeline follow."));
  f.table(means, "mean over ranks by step");
  f.table(cells, "single steps of ranks");
}

export function idleSection(f) {
  const sums = f.grids.lanes;
  const lanes = perWindow(sums);
  const skip = new Set(["rank", "device", "windows", "idle_ns"]);
  const columns = lanes.columns.filter((c) => !skip.has(c.name) && c.cells.some((v) => v));
  const state = { by: lanes.rows > WORST ? "idle_ns" : "rank", all: false };
  const orders = [["rank", "by rank"], ["idle_ns", "most idle first"], ...columns.map((c) => [c.name, `most ${c.title} first`])];
  if (state.by !== "rank") orders.push(orders.shift());
  f.heading(lanes.rows > 1 ? "By rank: mean of a step" : "A step on average");
  laneControls(f, lanes, orders, state, () => chart.render());
  const chart = addChart(f.body, () => {
    const { labels, values } = chosenLanes(lanes, [...columns.map((c) => c.name), "idle_ns"], state.by, state.all);
    const palette = kinds();
    const parts = columns.map((c, k) => ({ name: c.title, values: values[k], colour: c.name === "untracked" ? colour("idle") : palette[k % 10] }));
    const bars = stackedBars(labels, parts, { xTitle: "rank", whole: values[columns.length], wholeName: "idle" });
    return { ...bars, says: `Stacked bars of ${labels.length} ranks: idle time per step by cause` };
  });
  const host = f.grids.host;
  if (host.rows > 0) {
    f.heading("What the host did while devices waited for it");
    addChart(f.body, () => {
      const rows = host.of("name").slice(0, TOP).map((_, i) => i);
      const all = [...new Set(host.of("activity"))];
      const bars = nameBars(rows.map((i) => `${host.of("name")[i] || host.of("activity")[i]}`), [{
        name: "host wait", values: rows.map((i) => host.of("time_ns")[i]),
        colours: rows.map((i) => { const k = columns.findIndex((c) => c.name === host.of("activity")[i]); return k < 0 || host.of("activity")[i] === "untracked" ? colour("idle") : kinds()[k % 10]; }),
      }], {
        label: "host wait over all ranks",
        hovers: (k) => { const i = rows[k]; return `<b>${inLines(host.of("name")[i] || "")}</b><br>${plain(host.of("activity")[i])}: ${ns(host.of("time_ns")[i])} = ${exact("ns", host.of("time_ns")[i])}<br>${plural(host.of("gap_count")[i], "gap")} on ${plural(host.of("ranks")[i], "rank")}, most on rank ${host.of("most_rank")[i]}`; },
      });
      return { ...bars, says: `Bars of the ${rows.length} host activities with most waiting, of ${all.length} kinds` };
    });
  }
  f.table(lanes, "mean of a step by rank");
  f.table(sums, "sums by rank");
  f.table(host, "host activities");
}
