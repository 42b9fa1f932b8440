// What sections of the page have in common: their frame, the step that is chosen, and bars by rank or step.

import { HOVER, ticksOf } from "page/chart.js";
import { run } from "page/data.js";
import { addSelect, byId, make, makeButton, note } from "page/dom.js";
import { axisUnit, count, exact, ns, percent, plain } from "page/format.js";
import { sentence } from "page/source.js";
import { makeTable, tableToggle } from "page/table.js";
import { isNarrow } from "page/theme.js";

/** What is done when all sections are there. @type {(() => void)[]} */
export const whenBuilt = [];

export const WORST = 32;
export const TOP = 20;

/** By table of the results: what opens the table on this page that is made of it, with the rows of some ranks only. */
export const tablesShown = new Map();

/** Controls, charts, notes and the buttons for tables of one section. */
export function frame(id) {
  const body = byId(id).querySelector(".body");
  const grids = run.grids(id);
  const toggles = make("div", { class: "toggles" });
  const places = make("div");
  const titles = new Set();
  return {
    body,
    grids,
    /** A button for a table; those of the section's grids that have a title follow at its end. */
    table(grid, title = grid?.title) {
      if (!grid || grid.rows === 0) return;
      titles.add(title);
      const { button, open } = tableToggle(grid, title, places);
      toggles.append(button);
      // of several grids of a table the first is the finest that names ranks
      const known = tablesShown.get(grid.table);
      const hasRanks = grid.of("rank").length > 0;
      if (!known || (!known.hasRanks && hasRanks)) tablesShown.set(grid.table, { open, hasRanks });
    },
    /** A table that is open from the start. */
    openTable(grid) {
      titles.add(grid.title);
      body.append(makeTable(grid, grid.title).element);
    },
    heading: (text) => body.append(make("h3", {}, text)),
    note: (text) => body.append(note(...sentence(text))),
    controls() {
      const row = make("div", { class: "controls" });
      body.append(row);
      return row;
    },
    end() {
      run.sections.get(id).notes.forEach(this.note);
      // `lengths` is drawn in another section, which says what is joined in it
      for (const [name, grid] of Object.entries(grids)) if (name !== "lengths") grid.notes.forEach(this.note);
      Object.values(grids).filter((grid) => grid.title && !titles.has(grid.title)).forEach((grid) => this.table(grid));
      if (toggles.firstChild) body.append(toggles, places);
    },
  };
}

/** Followers, and what each does when a step is chosen; null: all steps. @type {[any, (label: any) => void][]} */
export const stepFollowers = [];

/** A line of a section that says which step it shows, with the way back to `all`; `has`: whether it has a step. */
export function stepNote(f, has, all) {
  const line = make("p", { class: "note", hidden: "" });
  f.body.append(line);
  return (label) => {
    line.hidden = label === null;
    if (label === null) return;
    const alone = () => [`Step ${label} alone: `, makeButton(all, () => chooseStep(null))];
    line.replaceChildren(...(has(label) ? alone() : [`Step ${label} is not among these: ${all}.`]));
  };
}

/** Tells all followers but the one that chose. */
export function chooseStep(label, /** @type {any} */ from = null) {
  for (const [follower, follow] of stepFollowers) if (follower !== from) follow(label);
}

/** The name of a lane by its row: a rank, with its device where ranks have several. */
export const laneName = (hasSeveral) => (row) =>
  String(row("rank")) + (hasSeveral && (row("device") ?? null) !== null ? `:${row("device")}` : "");

export const hasSeveralDevices = (rows) => new Set(rows.map((row) => row("rank"))).size < rows.length;

/** A grid with the share of each row in the sum of a column, rows that are not listed included. */
export function withShare(grid, name) {
  const whole = grid.sum(name);
  const of = grid.byName.get(name);
  const share = (v) => (whole && v !== null && v !== undefined ? v / whole : null);
  const [cells, rest] = [of.cells.map(share), share(of.rest)];
  const column = { name: "share", title: "share", kind: "ratio", doc: "of the time of all", cells, rest };
  return grid.with(grid.columns.flatMap((c) => (c === of ? [c, column] : [c])));
}

/** Rows by falling value; of equal ones the first. @template T @param {T[]} rows @param {(row: T) => number} value */
export const largestFirst = (rows, value) => rows.slice().sort((a, b) => (value(b) || 0) - (value(a) || 0));

/** Bars upwards, one for each lane or step, of parts that sum to their length. */
export function stackedBars(labels, parts, { xTitle, whole, wholeName = "length", says }) {
  const [unit, size] = axisUnit(whole);
  const fits = labels.length <= (isNarrow() ? 16 : 48);
  const isTurned = labels.some((l) => l.length > 6) || (fits && labels.length > 40);
  const share = (v, i) => (whole[i] ? ` (${percent(v / whole[i])})` : "");
  const hover = (name, v, i) => `<b>${plain(labels[i])}</b><br>${name} ${ns(v)}${share(v, i)}<br>= ${exact("ns", v)}`
    + `<br>${wholeName} ${exact("ns", whole[i])}`;
  return {
    data: parts.map((p) => ({
      type: "bar", name: p.name, x: labels.map((_, i) => i), y: p.values.map((v) => (v || 0) / size),
      marker: { ...p.marker, line: { width: 0 } },
      // few bars are not made as wide as the page
      width: labels.length > 120 ? 1 : 0.82 * Math.min(1, labels.length / 6),
      hovertext: labels.map((_, i) => hover(p.name, p.values[i] || 0, i)), hovertemplate: HOVER,
    })),
    layout: {
      barmode: "stack",
      xaxis: {
        title: { text: xTitle }, showgrid: false, zeroline: false, ticks: "", tickangle: isTurned ? -60 : 0,
        ...ticksOf(labels, fits ? labels.length : isNarrow() ? 8 : 24),
      },
      yaxis: { title: { text: unit }, rangemode: "tozero" },
    },
    height: 350 + (isNarrow() ? 18 * parts.length - 18 : 0),
    says,
    words: `${xTitle} ${labels[0]}: ${parts.filter((p) => p.values[0])
      .map((p) => `${p.name} ${ns(p.values[0])}${share(p.values[0], 0)}`).join(", ")}.`,
  };
}

/** The lanes that a chart shows: all, or the worst and the mean of the `others`; the control above says of how many. */
export function chosenLanes(rows, columns, { by, all }) {
  const value = (row) => (by === "without_compute" ? row("dur_ns") - row("compute_ns") : row(by));
  const order = by === "rank" ? rows : largestFirst(rows, value);
  const [lanes, others] = all ? [order, []] : [order.slice(0, WORST), order.slice(WORST)];
  const labels = lanes.map(laneName(hasSeveralDevices(rows)));
  const values = columns.map((c) => lanes.map((row) => row(c)));
  if (others.length > 0) {
    labels.push("others");
    columns.forEach((c, k) => values[k].push(others.reduce((s, row) => s + row(c), 0) / others.length));
  }
  return { labels, values };
}

/** Controls of lanes: their order, `by rank` first where there are few, and whether all are shown. Gives the choice. */
export function laneControls(f, grid, orders, redraw) {
  const all = [["rank", "by rank"], ...orders];
  if (grid.rows > WORST) all.push(...all.splice(0, 1));
  const state = { by: all[0][0], all: false };
  if (grid.rows < 2) return state;
  const row = f.controls();
  addSelect(row, "Order", all, (v) => { state.by = v; redraw(); });
  if (grid.rows > WORST) {
    const few = `the first ${WORST}, and the mean of the ${count(grid.rows - WORST)} others`;
    const options = [["few", few], ["all", `all ${count(grid.rows)}`]];
    addSelect(row, "Show", options, (v) => { state.all = v === "all"; redraw(); });
  }
  return state;
}
