// What the time of a step consists of: parts by rank and step, and idle time by cause.

import { addChart, nameBars } from "page/chart.js";
import { perWindow, withUnmatched } from "page/data.js";
import { addRankSelect } from "page/dom.js";
import {
  chooseStep, chosenLanes, hasSeveralDevices, laneControls, laneName, stackedBars, stepFollowers, stepNote, TOP,
} from "page/section.js";
import { colour, kinds, partMarker, PARTS } from "page/theme.js";

/** What the bars by rank show: means of steps, unless lanes have one window each, which is all that was recorded. */
function meanTitle(lanes) {
  const what = lanes.byName.get("dur_ns")?.title === "recorded" ? "all that was recorded" : "mean of a step";
  return lanes.rows > 1 ? `By rank: ${what}` : what[0].toUpperCase() + what.slice(1);
}

/** The parts of some rows of a grid, which names what is unmatched; those without any time are left out. */
function partsOf(grid, values) {
  const nameOf = ([column, name]) => (column === "unmatched_ns" ? grid.byName.get(column)?.title ?? name : name);
  const part = (of, k) => ({ name: nameOf(of), values: values[k], marker: partMarker(of[2]) });
  return PARTS.map(part).filter((p) => p.values.some((v) => v));
}

export function breakdownSection(f) {
  const { account, lanes: sums, steps } = f.grids;
  const cells = f.grids.cells && withUnmatched(f.grids.cells);
  const lanes = perWindow(sums);
  // a step as the verdict counts it, to the start of the next; else its own window
  const means = account ? perWindow(account) : withUnmatched(lanes);
  f.heading(meanTitle(means));
  const orders = [
    ["without_compute", "least compute first"],
    ...PARTS.slice(1).filter(([column]) => means.has(column)).map(([column, name]) => [column, `most ${name} first`]),
    ["dur_ns", "longest first"],
  ];
  const choice = laneControls(f, means, orders, () => byRank.render());
  let step = null;
  const rowsOf = (label) => (cells ? cells.list().filter((row) => row("step") === label) : []);
  const ofStep = stepNote(f, (label) => rowsOf(label).length > 0, "mean of all steps");
  const byRank = addChart(f.body, () => {
    const single = rowsOf(step);
    const [grid, rows] = single.length ? [cells, single] : [means, means.list()];
    const { labels, values } = chosenLanes(rows, [...PARTS.map((p) => p[0]), "dur_ns"], choice);
    const parts = partsOf(grid, values);
    const what = parts.map((p) => p.name).join(", ");
    const says = `Stacked bars of ${labels.length} ranks: ${what} ${single.length ? `in step ${step}` : "per step"}`;
    return stackedBars(labels, parts, { xTitle: "rank", whole: values[PARTS.length], says });
  });
  stepFollowers.push([byRank, (label) => {
    step = label;
    ofStep(label);
    byRank.render();
  }]);
  if (account) f.table(means, "mean of a step by rank, as in the verdict");
  f.table(lanes, "mean window of a step by rank");
  f.table(sums, "sums by rank");
  if (!steps) return;
  const ofSteps = withUnmatched(perWindow(steps));
  const nameOf = laneName(hasSeveralDevices(lanes.list()));
  let rows = ofSteps.list();
  f.table(ofSteps, "mean over ranks by step");
  f.table(cells, "single steps of ranks");
  // one step is what the bars by rank show
  if (rows.length < 2) return;
  f.heading("By step");
  if (lanes.rows > 1) {
    addRankSelect(f.controls(), [...new Set(cells.list().map(nameOf))], (key) => {
      rows = key === null ? ofSteps.list() : cells.list().filter((row) => nameOf(row) === key);
      byStep.render();
    }, "mean of all");
  }
  const byStep = addChart(f.body, () => {
    const labels = rows.map((row) => (row("is_partial") ? `${row("step")} (partial)` : row("step")));
    const parts = partsOf(ofSteps, PARTS.map(([column]) => rows.map((row) => row(column))));
    const says = `Stacked bars of ${labels.length} steps: ${parts.map((p) => p.name).join(", ")}`;
    return stackedBars(labels, parts, { xTitle: "step", whole: rows.map((row) => row("dur_ns")), says });
  }, (point) => chooseStep(String(rows[point.pointNumber]("step"))));
  f.note("Click a step: the bars by rank and the timeline follow.");
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
    const parts = columns.map((c, k) => ({ name: c.title, values: values[k], marker: { color: tintOf(c.name) } }));
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
