// What sections of the page have in common: their frame, and bars by rank or step.

import { addSelect } from "page/chart.js";
import { axisUnit, count, exact, make, ns, percent, plain } from "page/format.js";
import { sentence } from "page/source.js";
import { readGrid, tableToggle } from "page/table.js";
import { isNarrow } from "page/theme.js";
import { derivedGrid } from "page/timeline/model.js";

/** What is done when all sections are there. */
export const whenBuilt = [];

export const WORST = 32;
export const TOP = 20;

/** Controls, charts, notes and the buttons for tables of one section. */
export function frame(id, section, texts) {
  const body = document.querySelector(`#${id} .body`);
  const grids = Object.fromEntries(Object.entries(section.grids).map(([name, raw]) => [name, readGrid(raw, texts)]));
  const toggles = make("div", { class: "toggles" });
  const places = make("div");
  // `lengths` is drawn in another section, which says what is joined in it
  const notes = section.notes.concat(...Object.entries(grids).map(([name, g]) => (name === "lengths" ? [] : g.notes)));
  return {
    body,
    grids,
    table(grid, title) {
      if (!grid || grid.rows === 0) return;
      const toggle = tableToggle(grid, title, places);
      toggles.append(toggle);
      // of several grids of a table the first is the finest that names ranks
      const known = tablesShown.get(grid.table);
      if (!known || (!known.hasRanks && grid.of("rank").length > 0)) tablesShown.set(grid.table, { toggle, hasRanks: grid.of("rank").length > 0 });
    },
    heading: (text) => body.append(make("h3", {}, text)),
    controls() {
      const row = make("div", { class: "controls" });
      body.append(row);
      return row;
    },
    end() {
      for (const n of notes) body.append(make("p", { class: "note" }, ...sentence(n)));
      if (toggles.firstChild) body.append(toggles, places);
    },
  };
}

/** By table of the results: the button of the table on this page that shows it. */
export const tablesShown = new Map();

/** Opens the table on this page that is made of a table of the results, with the rows of some ranks only. */
export function showTable(name, ranks, label) {
  const { toggle } = tablesShown.get(name);
  if (toggle.getAttribute("aria-expanded") !== "true") toggle.click();
  const place = document.getElementById(toggle.getAttribute("aria-controls"));
  place.firstChild.narrow(ranks, label);
  place.scrollIntoView({ block: "start" });
  place.querySelector("input").focus({ preventScroll: true });
}

export const laneName = (grid, severalDevices) => (i) => {
  const device = grid.of("device")[i];
  return `${grid.of("rank")[i]}${severalDevices && device !== null && device !== undefined ? `:${device}` : ""}`;
};

export function hasSeveralDevices(grid) {
  const ranks = grid.of("rank");
  return new Set(ranks).size < ranks.length;
}

/** A grid with the share of each row in the sum of a column, rows that are not listed included. */
export function withShare(grid, name) {
  const at = grid.columns.findIndex((c) => c.name === name);
  const rest = grid.rest ? grid.rest.cells[at] || 0 : 0;
  const whole = grid.of(name).reduce((s, v) => s + (v || 0), rest);
  const share = (v) => (whole && v !== null && v !== undefined ? v / whole : null);
  const column = { name: "share", title: "share", kind: "ratio", doc: "of the time of all", cells: grid.of(name).map(share) };
  const columns = [...grid.columns.slice(0, at + 1), column, ...grid.columns.slice(at + 1)];
  const cells = grid.rest && [...grid.rest.cells.slice(0, at + 1), share(rest), ...grid.rest.cells.slice(at + 1)];
  const of = (n) => (n === "share" ? column.cells : grid.of(n));
  // the row of what is not listed finds its cells by the columns
  return { ...grid, columns, rest: grid.rest && { ...grid.rest, cells }, of };
}

/** The rows of a grid that `keep` selects. */
export function onlyRows(grid, keep) {
  const rows = Array.from({ length: grid.rows }, (_, i) => i).filter(keep);
  return derivedGrid(grid.table, grid.columns.map((c) => [c.name, c.title, c.kind, c.doc, rows.map((i) => c.cells[i])]));
}

/** Rows by falling value. */
export const largestFirst = (values) => values.map((_, i) => i).sort((a, b) => (values[b] || 0) - (values[a] || 0) || a - b);

/** Bars upwards, one for each lane or step, of parts that sum to their length. */
export function stackedBars(labels, parts, { xTitle, whole, wholeName = "length" }) {
  const [unit, size] = axisUnit(whole);
  const fits = labels.length <= (isNarrow() ? 16 : 48);
  return {
    data: parts.map((p) => ({
      type: "bar",
      name: p.name,
      x: labels.map((_, i) => i),
      y: p.values.map((v) => (v || 0) / size),
      marker: { color: p.colour, line: { width: 0 } },
      // few bars are not made as wide as the page
      width: labels.length > 120 ? 1 : 0.82 * Math.min(1, labels.length / 6),
      hovertext: labels.map((label, i) => `<b>${plain(label)}</b><br>${p.name} ${ns(p.values[i] || 0)}${whole[i] ? ` (${percent((p.values[i] || 0) / whole[i])})` : ""}<br>= ${exact("ns", p.values[i] || 0)}<br>${wholeName} ${exact("ns", whole[i])}`),
      hovertemplate: "%{hovertext}<extra></extra>",
    })),
    layout: {
      barmode: "stack",
      hovermode: "closest",
      xaxis: {
        title: { text: xTitle }, showgrid: false, zeroline: false, ticks: "", tickangle: labels.some((l) => l.length > 6) || (fits && labels.length > 40) ? -60 : 0,
        ...(fits ? { tickvals: labels.map((_, i) => i), ticktext: labels.map(plain) } : spreadTicks(labels)),
      },
      yaxis: { title: { text: unit }, rangemode: "tozero" },
    },
    height: 350 + (isNarrow() ? 18 * parts.length - 18 : 0),
  };
}

function spreadTicks(labels) {
  const every = Math.ceil(labels.length / (isNarrow() ? 8 : 24));
  const at = labels.map((_, i) => i).filter((i) => i % every === 0);
  return { tickvals: at, ticktext: at.map((i) => plain(labels[i])) };
}

/** The lanes that a chart shows: all, or the worst and what the others are on average. */
// `others` on the axis: the control above says that it is their mean, and of how many
export function chosenLanes(grid, columns, by, all) {
  const name = laneName(grid, hasSeveralDevices(grid));
  const order = by === "rank" ? grid.of("rank").map((_, i) => i) : largestFirst(measure(grid, by));
  const shownRows = all ? order : order.slice(0, WORST);
  const others = all ? [] : order.slice(WORST);
  const labels = shownRows.map(name);
  const values = columns.map((c) => shownRows.map((i) => grid.of(c)[i]));
  if (others.length > 0) {
    labels.push("others");
    columns.forEach((c, k) => values[k].push(others.reduce((s, i) => s + grid.of(c)[i], 0) / others.length));
  }
  return { labels, values };
}

function measure(grid, by) {
  if (by !== "without_compute") return grid.of(by);
  return grid.of("dur_ns").map((v, i) => v - grid.of("compute_ns")[i]);
}

export function laneControls(f, grid, orders, state, redraw) {
  if (grid.rows < 2) return;
  const row = f.controls();
  addSelect(row, "Order", orders, (v) => { state.by = v; redraw(); });
  if (grid.rows > WORST) {
    const few = [["few", `the first ${WORST}, and the mean of the ${count(grid.rows - WORST)} others`], ["all", `all ${count(grid.rows)}`]];
    addSelect(row, "Show", few, (v) => { state.all = v === "all"; redraw(); });
  }
}

export const PARTS = [
  ["compute_ns", "compute", "compute"],
  ["exposed_communication_ns", "exposed communication", "communication"],
  ["exposed_memory_ns", "exposed memory", "memory"],
  ["idle_ns", "idle", "idle"],
];
