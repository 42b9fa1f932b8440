// Tables of grids: sorted by their headings, searched, shown a few rows at a time.

import { besideNumber, changeOf, recordedOtherwise } from "page/change.js";
import { addSelect, make, makeButton, makeSearch, numberCell, tableOf } from "page/dom.js";
import { count, exact, names, plural, shown } from "page/format.js";
import { linked } from "page/source.js";

const isNumber = (c) => c.kind !== "text";
const PAGE_ROWS = 100;

/** What a table has in a cell, as text. */
const textIn = ({ kind, cells }, i) => (typeof cells[i] === "string" ? cells[i] : shown(kind, cells[i]));

/** A table of a grid, and what leaves rows of some ranks only in it. */
export function makeTable(grid, title) {
  // columns without any value are left out
  const columns = grid.columns.filter((c) => c.cells.some((v) => v !== null && v !== undefined));
  const hasBase = columns.some((c) => c.base);
  /** @type {any} */
  let sorted = { column: null, up: true };
  // `byChange`: with a baseline, whether numbers are sorted by their change; `only`: rows of these ranks, or null
  let [byChange, visible, only] = [false, PAGE_ROWS, /** @type {any} */ (null)];

  const redraw = (rows = PAGE_ROWS) => { visible = rows; draw(); };
  const search = makeSearch(title, () => redraw());
  const tally = make("span", { class: "count", "aria-live": "polite" });
  const all = makeButton("", () => { only = null; all.hidden = true; draw(); }, { hidden: "" });
  const more = makeButton("", () => redraw(visible + PAGE_ROWS * 5), { class: "more-rows" });

  function sortBy(column, head) {
    const first = !isNumber(column) || column.kind === "id";
    sorted = { column, up: sorted.column === column ? !sorted.up : first };
    for (const h of table.querySelectorAll("thead th")) h.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
    draw();
  }

  function compare(a, b) {
    const of = (i) => (byChange && sorted.column.base ? changeOf(sorted.column, i) : sorted.column.cells[i]);
    const [x, y] = [of(a), of(b)];
    // what is missing comes last, either way
    if (x === null || y === null) return Number(x === null) - Number(y === null) || a - b;
    const by = typeof x === "string" ? names.compare(x, y) : x - y;
    return (sorted.up ? by : -by) || a - b;
  }

  function cell(column, i, isFirst) {
    const value = column.cells[i];
    const isText = typeof value === "string";
    const kind = isNumber(column) ? "number-cell" : isText && value.length > 24 ? "name-cell" : null;
    const content = isText ? linked(value, true) : [shown(column.kind, value)];
    const isNew = hasBase && columns.every((c) => !c.base || c.base[i] === null);
    if (column.base && !isNew) content.push(besideNumber(column, i));
    if (isFirst && isNew) {
      content.push(make("span", { class: "was" }, `not ${grid.isBaseCut ? "listed " : ""}in the baseline`));
    }
    return make(isFirst ? "th" : "td", {
      class: column.name === "severity" ? `severity-${value}` : kind,
      title: (isNumber(column) && exact(column.kind, value)) || null, scope: isFirst ? "row" : null,
    }, ...content);
  }

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const isFound = (i) => wanted === "" || columns.some((c) => textIn(c, i).toLowerCase().includes(wanted));
    const order = grid.of(grid.columns[0].name).map((_, i) => i)
      .filter((i) => (only === null || only.has(grid.of("rank")[i])) && isFound(i));
    if (sorted.column) order.sort(compare);
    const rows = order.slice(0, visible).map((i) => make("tr", {}, ...columns.map((c, k) => cell(c, i, k === 0))));
    table.tBodies[0].replaceChildren(...rows);
    tally.textContent = (order.length === grid.rows ? "" : `${count(order.length)} of `) + plural(grid.rows, "row");
    more.hidden = order.length <= visible;
    more.textContent = `Show ${count(Math.min(PAGE_ROWS * 5, order.length - visible))} more rows`;
  }

  const heads = columns.map((c) => {
    const button = makeButton(c.title, () => sortBy(c, button.parentElement), { title: `${c.doc} (${c.name})` });
    return [button, { "aria-sort": "none", class: isNumber(c) ? "number-cell" : null }];
  });
  const table = tableOf(captionOf(grid, title), heads, []);
  if (grid.rest) table.append(make("tfoot", {}, restRow(grid, columns)));
  draw();
  const controls = make("div", { class: "controls" }, search);
  if (hasBase) {
    const orders = [["value", "value"], ["change", "change to the baseline"]];
    addSelect(controls, "Sort numbers by", orders, (v) => { byChange = v === "change"; draw(); });
  }
  controls.append(tally, all);
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table);
  return {
    element: make("div", { class: "table waiting" }, controls, scroll, more),
    /** Leaves the rows of some ranks only, and gives where to search in them. */
    narrow(ranks, label) {
      only = grid.of("rank").some((r) => ranks.has(r)) ? ranks : null;
      all.hidden = only === null;
      all.textContent = `only ${label}: show all`;
      search.value = "";
      redraw();
      return search;
    },
  };
}

export function captionOf(grid, title) {
  const from = grid.table.endsWith(".json") ? grid.table : `tables/${grid.table}.parquet`;
  const base = "; below each number that of the baseline, and the change";
  const beside = grid.columns.some((c) => c.base) ? base + recordedOtherwise() : "";
  return [`${title}, from `, make("code", {}, from), beside];
}

/** What is not listed one by one. */
function restRow(grid, columns) {
  const cells = columns.slice(1).map((c) => numberCell(shown(c.kind, c.rest), exact(c.kind, c.rest)));
  return make("tr", {}, make("th", { scope: "row" }, `${plural(grid.rest, "other")}, not listed here`), ...cells);
}

let tablesMade = 0;

/** A button that shows and hides a table, which is made when it is first asked for. */
export function tableToggle(grid, title, where) {
  tablesMade += 1;
  const id = `table-${tablesMade}`;
  const place = make("div", { id, class: "table-place", hidden: "" });
  where.append(place);
  /** @type {any} */
  let table = null;
  const show = (isShown) => {
    if (!table) {
      table = makeTable(grid, title);
      place.append(table.element);
    }
    place.hidden = !isShown;
    button.setAttribute("aria-expanded", String(isShown));
  };
  const text = `Table: ${title} (${count(grid.rows)})`;
  const button = makeButton(text, () => show(place.hidden), { "aria-expanded": "false", "aria-controls": id });
  /** Opens the table with the rows of some ranks only. */
  const open = (ranks, label) => {
    show(true);
    const search = table.narrow(ranks, label);
    place.scrollIntoView({ block: "start" });
    search.focus({ preventScroll: true });
  };
  return { button, open };
}
