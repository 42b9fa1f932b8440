// Grids of the data, and tables of them: sorted by their headings, searched, shown a few rows at a time.

import { besideNumber, changeOf, recordedOtherwise } from "page/change.js";
import { addSelect } from "page/chart.js";
import { count, exact, make, plural, shown } from "page/format.js";
import { linked } from "page/source.js";

/** A grid of the data with its texts in place. */
export function readGrid(raw, texts) {
  const columns = raw.columns.map((c) => ({
    ...c,
    cells: c.kind === "text" ? c.cells.map((id) => (id === null ? null : texts[id])) : c.cells,
    base: c.base || null,
  }));
  const byName = new Map(columns.map((c) => [c.name, c]));
  return {
    table: raw.table,
    rows: raw.rows,
    columns,
    rest: raw.rest && { rows: raw.rest[0], cells: raw.rest[1] },
    notes: raw.notes,
    isBaseCut: raw.is_base_cut === true,
    of: (name) => (byName.has(name) ? byName.get(name).cells : []),
    doc: (name) => (byName.has(name) ? byName.get(name).doc : ""),
  };
}

// times that are of one window already
const OF_ONE = new Set(["shortest_ns", "longest_ns"]);

/** The same rows with times per window in place of sums over windows. */
export function perWindow(grid) {
  const windows = grid.of("windows");
  const isSum = (c) => c.kind === "ns" && !OF_ONE.has(c.name);
  const window = grid.columns.find((c) => c.name === "windows");
  const mean = (cells, of) => cells && of && cells.map((v, i) => (v === null || !of[i] ? null : v / of[i]));
  const each = (c) => (isSum(c) ? { ...c, cells: mean(c.cells, windows) || c.cells.map(() => null), base: mean(c.base, window && window.base) } : c);
  const columns = grid.columns.map(each);
  const at = grid.columns.findIndex((c) => c.name === "windows");
  const rest = grid.rest && { ...grid.rest, cells: grid.rest.cells.map((v, i) => (isSum(grid.columns[i]) && grid.rest.cells[at] ? v / grid.rest.cells[at] : v)) };
  const byName = new Map(columns.map((c) => [c.name, c]));
  return { ...grid, columns, rest, of: (name) => (byName.has(name) ? byName.get(name).cells : []) };
}

/** Leaves out columns without any value. */
const filled = (columns) => columns.filter((c) => c.cells.some((v) => v !== null && v !== undefined));

const isNumber = (c) => c.kind !== "text";
const PAGE_ROWS = 100;
export const names = new Intl.Collator("en", { numeric: true });

export function makeTable(grid, title) {
  const columns = filled(grid.columns);
  let order = Array.from({ length: grid.rows }, (_, i) => i);
  let sorted = { column: null, up: true };
  // with a baseline: whether numbers are sorted by their change
  const hasBase = columns.some((c) => c.base);
  let byChange = false;
  let visible = PAGE_ROWS;

  const search = make("input", { type: "search", placeholder: "search", "aria-label": `search in ${title}` });
  const tally = make("span", { class: "count", "aria-live": "polite" });
  // rows of these ranks only, until the reader asks for all
  let only = null;
  const all = make("button", { type: "button", hidden: "" });
  all.addEventListener("click", () => { only = null; all.hidden = true; draw(); });
  const body = make("tbody");
  const more = make("button", { type: "button", class: "more-rows" });
  const heads = columns.map((c) => {
    const button = make("button", { type: "button", title: `${c.doc} (${c.name})` }, c.title);
    const head = make("th", { scope: "col", "aria-sort": "none", class: isNumber(c) ? "number-cell" : null }, button);
    button.addEventListener("click", () => sortBy(c, head));
    return head;
  });

  function sortBy(column, head) {
    const first = isNumber(column) && column.kind !== "id" ? false : true;
    sorted = { column, up: sorted.column === column ? !sorted.up : first };
    for (const h of heads) h.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
    draw();
  }

  function compare(a, b) {
    const of = (i) => (byChange && sorted.column.base ? changeOf(sorted.column, i) : sorted.column.cells[i]);
    const [x, y] = [of(a), of(b)];
    // what is missing comes last, either way
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    const by = typeof x === "string" ? names.compare(x, y) : x - y;
    return (sorted.up ? by : -by) || a - b;
  }

  function cell(column, i, isFirst) {
    const value = column.cells[i];
    const attributes = isNumber(column)
      ? { class: "number-cell", title: exact(column.kind, value) || null }
      : { class: typeof value === "string" && value.length > 24 ? "name-cell" : null };
    if (isFirst) attributes.scope = "row";
    if (column.name === "severity") attributes.class = `severity-${value}`;
    const content = typeof value === "string" ? linked(value, true) : [shown(column.kind, value)];
    const isNew = hasBase && columns.every((c) => !c.base || c.base[i] === null);
    if (column.base && !isNew) content.push(besideNumber(column, i));
    if (isFirst && isNew) content.push(make("span", { class: "was" }, grid.isBaseCut ? "not listed in the baseline" : "not in the baseline"));
    return make(isFirst ? "th" : "td", attributes, ...content);
  }

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const has = (c, i) => c.cells[i] !== null && (typeof c.cells[i] === "string" ? c.cells[i] : shown(c.kind, c.cells[i])).toLowerCase().includes(wanted);
    order = [];
    const isOf = (i) => only === null || only.has(grid.of("rank")[i]);
    for (let i = 0; i < grid.rows; i++) if (isOf(i) && (wanted === "" || columns.some((c) => has(c, i)))) order.push(i);
    if (sorted.column) order.sort(compare);
    const rows = order.slice(0, visible).map((i) => make("tr", {}, ...columns.map((c, k) => cell(c, i, k === 0))));
    body.replaceChildren(...rows);
    tally.textContent = order.length === grid.rows ? plural(grid.rows, "row") : `${count(order.length)} of ${plural(grid.rows, "row")}`;
    more.hidden = order.length <= visible;
    more.textContent = `Show ${count(Math.min(PAGE_ROWS * 5, order.length - visible))} more rows`;
  }

  search.addEventListener("input", () => { visible = PAGE_ROWS; draw(); });
  more.addEventListener("click", () => { visible += PAGE_ROWS * 5; draw(); });
  const table = make("table", {}, make("caption", {}, ...captionOf(grid, title)), make("thead", {}, make("tr", {}, ...heads)), body);
  if (grid.rest) table.append(make("tfoot", {}, restRow(grid, columns)));
  draw();
  const sorting = make("span");
  if (hasBase) addSelect(sorting, "Sort numbers by", [["value", "value"], ["change", "change to the baseline"]], (v) => { byChange = v === "change"; draw(); });
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table);
  const element = make("div", { class: "table waiting" }, make("div", { class: "controls" }, search, hasBase ? sorting : null, tally, all), scroll, more);
  element.narrow = (ranks, label) => {
    only = grid.of("rank").some((r) => ranks.has(r)) ? ranks : null;
    all.hidden = only === null;
    all.textContent = `only ${label}: show all`;
    search.value = "";
    visible = PAGE_ROWS;
    draw();
  };
  return element;
}

export function captionOf(grid, title) {
  const from = grid.table.endsWith(".json") ? grid.table : `tables/${grid.table}.parquet`;
  return [`${title}, from `, make("code", {}, from), grid.columns.some((c) => c.base) ? `; below each number that of the baseline, and the change${recordedOtherwise()}` : ""];
}

/** What is not listed one by one. */
function restRow(grid, columns) {
  const at = new Map(grid.columns.map((c, i) => [c.name, i]));
  const cells = columns.map((c, k) => {
    if (k === 0) return make("th", { scope: "row" }, `${plural(grid.rest.rows, "other")}, not listed here`);
    const value = grid.rest.cells[at.get(c.name)];
    return make("td", { class: "number-cell", title: exact(c.kind, value) || null }, shown(c.kind, value));
  });
  return make("tr", {}, ...cells);
}

let tablesMade = 0;

/** A button that shows and hides a table, and makes it when it is first asked for. */
export function tableToggle(grid, title, where) {
  tablesMade += 1;
  const id = `table-${tablesMade}`;
  const place = make("div", { id, class: "table-place", hidden: "" });
  where.append(place);
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": id }, `Table: ${title} (${count(grid.rows)})`);
  button.addEventListener("click", () => {
    if (!place.firstChild) place.append(makeTable(grid, title));
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
  });
  return button;
}
