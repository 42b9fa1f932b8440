// Jump to source: Python frames are named `path/file.py(123): function`, lines `path/file.py:123`. File and line become a link for the editor that
// the reader has. A link is only ever `vscode://file/...` or `cursor://file/...`: no name can make another one.

import { make } from "page/format.js";

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
    link.title = source.editor === "none"
      ? `${link.dataset.path}, line ${link.dataset.line} (choose an editor at the top to open it)`
      : `${link.dataset.path}, line ${link.dataset.line}: a relative path; give the source folder at the top to open it`;
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
  return text.split("`").flatMap((part, i) => (i % 2 ? [make("code", {}, ...linked(part, true))] : linked(part, false)));
}

export function aimAll() {
  document.querySelectorAll("a.source").forEach(aim);
}
