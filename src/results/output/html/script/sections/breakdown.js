// What the time of a step consists of: parts by rank and step, and idle time by cause.

import { addChart, nameBars } from "page/chart.js";
import { perWindow } from "page/data.js";
import { addRankSelect } from "page/dom.js";
import {
  chooseStep, chosenLanes, hasSeveralDevices, laneControls, laneName, stackedBars, stepFollowers, stepNote, TOP,
} from "page/section.js";
import { colour, kinds, PARTS } from "page/theme.js";

const meanTitle = (lanes) => (lanes.rows > 1 ? "By rank: mean of a step" : "A step on average");
const partsOf = (values) => PARTS.map(([, name, key], k) => ({ name, values: values[k], colour: colour(key) }));
const WHAT = "compute, exposed communication, exposed memory and idle time";

export function breakdownSection(f) {
  const { lanes: sums, steps, cells } = f.grids;
  const lanes = perWindow(sums);
  f.heading(meanTitle(lanes));
  const orders = [
    ["without_compute", "least compute first"], ["exposed_communication_ns", "most exposed communication first"],
    ["idle_ns", "most idle first"], ["dur_ns", "longest first"],
  ];
  const choice = laneControls(f, lanes, orders, () => byRank.render());
  let step = null;
  const rowsOf = (label) => (cells ? cells.list().filter((row) => row("step") === label) : []);
  const ofStep = stepNote(f, (label) => rowsOf(label).length > 0, "mean of all steps");
  const byRank = addChart(f.body, () => {
    const single = rowsOf(step);
    const rows = single.length ? single : lanes.list();
    const { labels, values } = chosenLanes(rows, [...PARTS.map((p) => p[0]), "dur_ns"], choice);
    const says = `Stacked bars of ${labels.length} ranks: ${WHAT} ${single.length ? `in step ${step}` : "per step"}`;
    return stackedBars(labels, partsOf(values), { xTitle: "rank", whole: values[4], says });
  });
  stepFollowers.push([byRank, (label) => {
    step = label;
    ofStep(label);
    byRank.render();
  }]);
  f.table(lanes, "mean of a step by rank");
  f.table(sums, "sums by rank");
  if (!steps) return;
  f.heading("By step");
  const means = perWindow(steps);
  const nameOf = laneName(hasSeveralDevices(lanes.list()));
  let rows = means.list();
  if (lanes.rows > 1) {
    addRankSelect(f.controls(), [...new Set(cells.list().map(nameOf))], (key) => {
      rows = key === null ? means.list() : cells.list().filter((row) => nameOf(row) === key);
      byStep.render();
    }, "mean of all");
  }
  const byStep = addChart(f.body, () => {
    const labels = rows.map((row) => (row("is_partial") ? `${row("step")} (partial)` : row("step")));
    const values = PARTS.map(([column]) => rows.map((row) => row(column)));
    const says = `Stacked bars of ${labels.length} steps: ${WHAT}`;
    return stackedBars(labels, partsOf(values), { xTitle: "step", whole: rows.map((row) => row("dur_ns")), says });
  }, (point) => chooseStep(String(rows[point.pointNumber]("step"))));
  f.note("Click a step: the bars by rank and the timeline follow.");
  f.table(means, "mean over ranks by step");
  f.table(cells, "single steps of ranks");
}

export function idleSection(f) {
  const { lanes: sums, host } = f.grids;
  const lanes = perWindow(sums);
  const skip = new Set(["rank", "device", "windows", "idle_ns"]);
  const columns = lanes.columns.filter((c) => !skip.has(c.name) && lanes.has(c.name));
  const tintOf = (cause) => {
    const k = columns.findIndex((c) => c.name === cause);
    return k < 0 || cause === "untracked" ? colour("idle") : kinds()[k % 10];
  };
  f.heading(meanTitle(lanes));
  const orders = [["idle_ns", "most idle first"], ...columns.map((c) => [c.name, `most ${c.title} first`])];
  const choice = laneControls(f, lanes, orders, () => chart.render());
  const chart = addChart(f.body, () => {
    const { labels, values } = chosenLanes(lanes.list(), [...columns.map((c) => c.name), "idle_ns"], choice);
    const parts = columns.map((c, k) => ({ name: c.title, values: values[k], colour: tintOf(c.name) }));
    const says = `Stacked bars of ${labels.length} ranks: idle time per step by cause`;
    return stackedBars(labels, parts, { xTitle: "rank", whole: values[columns.length], wholeName: "idle", says });
  });
  if (host.rows > 0) {
    f.heading("What the host did while devices waited for it");
    const rows = host.list().slice(0, TOP);
    addChart(f.body, () => nameBars(host, rows, {
      name: (row) => row("name") || row("activity"), hover: ["activity", "time_ns", "gap_count", "ranks", "most_rank"],
      series: [{ name: "host wait", value: (row) => row("time_ns"), colour: (row) => tintOf(row("activity")) }],
      label: "host wait over all ranks",
      says: `Bars of the ${rows.length} host activities with most waiting`,
    }));
  }
  f.table(lanes, "mean of a step by rank");
  f.table(sums, "sums by rank");
  f.table(host, "host activities");
}
