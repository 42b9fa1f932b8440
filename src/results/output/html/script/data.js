// The data of the page: sections of this run and of a baseline, with their grids of typed columns.

import { byId } from "page/dom.js";
import { short } from "page/format.js";

/**
 * A column; `base`: cells of a baseline for the same rows; `rest`: the sum of the rows that are not listed.
 * @typedef {{ name: string, title: string, kind: string, doc: string, cells: any[], base?: any, rest?: any }} Column
 */
/** The cells of a row by the names of their columns. @typedef {(name: string) => any} Row */

/**
 * A table of the page; `title`: its name for the reader; `rest`: number of rows that are not listed; `isBaseCut`: the
 * same of the baseline's.
 */
export class Grid {
  /** @param {string} table @param {Column[]} columns @param {any} more */
  constructor(table, columns, { title = "", rest = 0, notes = [], isBaseCut = false } = {}) {
    this.table = table;
    this.title = title;
    this.columns = columns;
    this.rest = rest;
    /** @type {string[]} */
    this.notes = notes;
    this.isBaseCut = isBaseCut;
    this.rows = columns[0].cells.length;
    this.byName = new Map(columns.map((c) => [c.name, c]));
  }

  /** Cells of a column; none where the grid has no such column. @returns {any[]} */
  of = (name) => this.byName.get(name)?.cells ?? [];
  /** @returns {Row} */
  row = (i) => (name) => this.of(name)[i];
  list = () => Array.from({ length: this.rows }, (_, i) => this.row(i));
  /** What a column has, each value once. @returns {any[]} */
  distinct = (name) => [...new Set(this.of(name))];
  /** Whether a column has a value that is not zero. */
  has = (name) => this.of(name).some((v) => v);
  /** The sum of a column, rows that are not listed included. @returns {number} */
  sum = (name) => this.of(name).reduce((s, v) => s + (v || 0), this.byName.get(name)?.rest || 0);
  /** The same rows with other columns. */
  with = (columns) => new Grid(this.table, columns, this);
}

/** A grid that is made on the page. `columns`: `[name, title, kind, doc, cells]`. */
export const derivedGrid = (table, columns) =>
  new Grid(table, columns.map(([name, title, kind, doc, cells]) => ({ name, title, kind, doc, cells })));

/** A grid of the data with its texts in place. */
function readGrid(raw) {
  const text = (id) => (id === null ? null : data.texts[id]);
  const columns = raw.columns.map((c, i) => ({
    ...c, cells: c.kind === "text" ? c.cells.map(text) : c.cells, base: c.base || null, rest: raw.rest?.[1][i],
  }));
  const { title, notes } = raw;
  return new Grid(raw.table, columns, { title, rest: raw.rest?.[0], notes, isBaseCut: raw.is_base_cut === true });
}

class Run {
  constructor(raw) {
    this.set = raw.set;
    this.name = short(raw.folder ?? "", 60);
    this.sections = new Map(raw.sections);
    this.read = new Map();
  }

  /** The grids of a section by name; none where this run has no such section. @returns {Record<string, Grid>} */
  grids(section) {
    if (!this.read.has(section)) {
      const grids = Object.entries(this.sections.get(section)?.grids ?? {});
      this.read.set(section, Object.fromEntries(grids.map(([name, raw]) => [name, readGrid(raw)])));
    }
    return this.read.get(section);
  }
}

export const data = JSON.parse(byId("data").textContent);
export const run = new Run(data);
/** The run of `hta report RESULTS --against BASELINE`, of which the page has some sections; null without one. */
export const baseline = data.against && new Run(data.against);

// times that are of one window already
const OF_ONE = new Set(["shortest_ns", "longest_ns"]);

/** The same rows with times per window in place of sums over windows. @param {Grid} grid */
export function perWindow(grid) {
  const windows = grid.byName.get("windows");
  const each = (v, of) => (v === null || !of ? null : v / of);
  const mean = (cells, of) => cells && of && cells.map((v, i) => each(v, of[i]));
  return grid.with(grid.columns.map((c) => (c.kind !== "ns" || OF_ONE.has(c.name) ? c : {
    ...c, cells: mean(c.cells, windows?.cells), base: mean(c.base, windows?.base),
    rest: windows?.rest ? c.rest / windows.rest : c.rest,
  })));
}

/**
 * The same rows with the communication that is neither waiting nor transfer in a column of its own: it has no match on
 * other ranks. Where the results tell nothing apart it is all communication.
 */
export function withUnmatched(grid) {
  const exposed = grid.byName.get("exposed_communication_ns");
  if (!exposed) return grid;
  const of = (key) => grid.columns.map((c) => [c.name, c[key]]);
  const rest = (cells) => {
    const names = ["exposed_communication_ns", "waiting_ns", "transfer_ns"];
    const [whole, ...parts] = names.map((name) => new Map(cells).get(name));
    return whole && whole.map((v, i) => (v === null ? null : parts.reduce((left, part) => left - (part?.[i] || 0), v)));
  };
  const title = grid.has("waiting_ns") || grid.has("transfer_ns") ? "unmatched" : "communication";
  const doc = "communication runs and no compute, and its calls on other ranks are not known";
  const column = { name: "unmatched_ns", title, kind: "ns", doc, cells: rest(of("cells")), base: rest(of("base")) };
  return grid.with(grid.columns.flatMap((c) => (c === exposed ? [c, column] : [c])));
}

/** The mean over lanes of a step, or of the span, by column. */
export function meanOf(lanes) {
  const each = perWindow(lanes);
  return (name) => each.of(name).reduce((s, v) => s + (v || 0), 0) / each.rows;
}
