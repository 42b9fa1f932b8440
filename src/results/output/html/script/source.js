// Ways out of the page: to lines of source, and to the shell. Python frames are named `path/file.py(123): function`,
// lines `path/file.py:123`; file and line become a link for the editor that the reader has. A link is only ever
// `vscode://file/...` or `cursor://file/...`: no name can make another one.

import { make, makeButton } from "page/dom.js";

const FILE = "[^\\s`'\"<>|;,(){}]+\\.(?:py|pyx|pxd|pyi|ipynb)";
const IN_TEXT = new RegExp(`(${FILE})(?:\\((\\d+)\\)|:(\\d+)\\b)`, "g");
// a cell that is a frame or a line and nothing else may have spaces in its path
const WHOLE = /^([^`<>|;\n]+\.(?:py|pyx|pxd|pyi|ipynb))(?:\((\d+)\)(?=: )|:(\d+)$)/;

export const source = { editor: "none", root: "" };

function absolute(path) {
  const unix = path.replace(/\\/g, "/");
  if (/^(\/|[A-Za-z]:\/)/.test(unix)) return unix;
  const root = source.root.trim().replace(/\\/g, "/").replace(/\/+$/, "");
  return /^(\/|[A-Za-z]:(\/|$))/.test(`${root}/`) && root !== "" ? `${root}/${unix}` : null;
}

/** Gives a file and line the link that it has now, or none. */
function aim(link) {
  const path = absolute(link.dataset.path);
  if (source.editor === "none" || path === null) {
    link.removeAttribute("href");
    const why = source.editor === "none" ? " (choose an editor at the top to open it)"
      : ": a relative path; give the source folder at the top to open it";
    link.title = `${link.dataset.path}, line ${link.dataset.line}${why}`;
    return;
  }
  const encoded = encodeURI(path).replace(/[?#]/g, encodeURIComponent);
  link.setAttribute("href", `${source.editor}://file/${encoded.replace(/^\/+/, "")}:${link.dataset.line}`);
  link.title = `open ${path} at line ${link.dataset.line}`;
}

function sourceLink(shown, path, line) {
  const link = make("a", { class: "source", "data-path": path, "data-line": line }, shown);
  aim(link);
  return link;
}

/** A text with its files and lines as links. */
export function linked(text, isName) {
  const whole = isName ? WHOLE.exec(text) : null;
  if (whole) return [sourceLink(whole[0], whole[1], whole[2] ?? whole[3]), text.slice(whole[0].length)];
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(IN_TEXT)) {
    parts.push(text.slice(from, found.index), sourceLink(found[0], found[1], found[2] ?? found[3]));
    from = found.index + found[0].length;
  }
  parts.push(text.slice(from));
  return parts.filter((p) => p !== "");
}

/** A sentence of ours: what stands in backticks is code. */
export function sentence(text) {
  const code = (part) => [make("code", {}, ...linked(part, true))];
  return text.split("`").flatMap((part, i) => (i % 2 ? code(part) : linked(part, false)));
}

export function aimAll() {
  document.querySelectorAll("a.source").forEach(aim);
}

/** The folder of the results, in which the page lies. */
export function resultsFolder() {
  const place = location.pathname.split("/").at(-2) || "";
  let folder = place;
  try { folder = decodeURIComponent(place); } catch { /* it is not UTF-8, and is shown as it is */ }
  return folder || "hta-out";
}

/** Copies a text; where the browser does not allow it, selects the element that has it. */
async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return "copied";
  } catch {
    getSelection()?.selectAllChildren(element);
    return "selected";
  }
}

/** The query of rows of a table, to copy. */
export function rowsQuery(table, filter) {
  const text = `SELECT * FROM ${table}${filter ? ` WHERE ${filter}` : ""}`;
  const code = make("code", { tabindex: "0" }, text);
  const title = "SQL, for hta query or DuckDB";
  const button = makeButton("copy", async () => { button.textContent = await copy(text, code); }, { title });
  return make("div", { class: "command" }, code, button);
}
