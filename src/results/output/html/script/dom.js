// Elements of the page: texts are only ever texts.

/** An element with attributes and what is in it; attributes and content of null are left out. */
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...content.filter((c) => c !== null && c !== undefined));
  return element;
}

/** An element of page.html. @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

export const note = (...content) => make("p", { class: "note" }, ...content);

/** A button, and what a click on it does. */
export function makeButton(text, act, attributes = {}) {
  const button = make("button", { type: "button", ...attributes }, text);
  button.addEventListener("click", act);
  return button;
}

/** A choice: pairs of a value and its text; `changed` is told the value. */
export function addSelect(where, label, options, changed) {
  const select = make("select", {}, ...options.map(([value, text]) => make("option", { value }, text)));
  select.addEventListener("change", () => changed(select.value));
  where.append(make("label", {}, label, select));
  return select;
}

/** A choice of a rank, or of all together, which is null; `all` is the text of that. */
export function addRankSelect(where, ranks, changed, all = "all") {
  const options = [["", all], ...ranks.map((r) => [String(r), String(r)])];
  return addSelect(where, "Rank", options, (v) => changed(v === "" ? null : v));
}

/** A field to search with; `changed` is told what is wanted, in small letters. */
export function makeSearch(what, changed) {
  const search = make("input", { type: "search", placeholder: "search", "aria-label": `search in ${what}` });
  search.addEventListener("input", () => changed(search.value.trim().toLowerCase()));
  return search;
}

/** A colour of a legend, and what it stands for. */
export const legendKey = (tint, text, kind = "") =>
  make("span", { class: "key" }, make("i", { class: kind || null, style: `background:${tint}` }), text);

/** Makes an element follow keys: `actsOf` gives what each key does at an event. */
export function followKeys(element, actsOf) {
  element.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act = actsOf(e)[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
}

/** A table with a heading for each column, `[content, attributes]`, and rows. */
export function tableOf(caption, heads, rows) {
  const cells = heads.map(([content, attributes]) => make("th", { scope: "col", ...attributes }, content));
  const head = make("thead", {}, make("tr", {}, ...cells));
  return make("table", {}, caption && make("caption", {}, ...caption), head, make("tbody", {}, ...rows));
}

/** A cell of a number, with its exact value. */
export const numberCell = (text, title) => make("td", { class: "number-cell", title: title || null }, text);
