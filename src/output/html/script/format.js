// Numbers for people. Every time is nanoseconds, every size bytes; the exact value is never far: `exact`.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function significant(v) {
  const a = Math.abs(v);
  return v.toFixed(a < 10 ? 2 : a < 100 ? 1 : 0);
}

export function ns(v) {
  const a = Math.abs(v);
  if (a < 1e3) return `${Math.round(v)} ns`;
  if (a < 1e6) return `${significant(v / 1e3)} us`;
  if (a < 1e9) return `${significant(v / 1e6)} ms`;
  return `${significant(v / 1e9)} s`;
}

export function bytes(v) {
  if (v < 0) return `-${bytes(-v)}`;
  if (v < 1e3) return `${v} B`;
  if (v < 1e6) return `${significant(v / 1e3)} kB`;
  if (v < 1e9) return `${significant(v / 1e6)} MB`;
  return `${significant(v / 1e9)} GB`;
}

export const count = (v) => grouped.format(v);
export const percent = (v) => `${(100 * v).toFixed(1)} %`;
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || `${one}s`}`;

/** A value of a column, as it is shown. */
export function shown(kind, v) {
  if (v === null || v === undefined) return "";
  switch (kind) {
    case "ns": return ns(v);
    case "bytes": return bytes(v);
    case "ratio": return percent(v);
    case "gb_per_s": return significant(v);
    case "number": return Math.abs(v) >= 100 ? count(v) : String(Number(v.toPrecision(3)));
    case "count": return count(v);
    default: return String(v);
  }
}

/** The same, exactly. */
export function exact(kind, v) {
  if (v === null || v === undefined || typeof v === "string") return "";
  switch (kind) {
    case "ns": return `${grouped.format(v)} ns`;
    case "bytes": return `${grouped.format(v)} bytes`;
    case "ratio": return `${100 * v} %`;
    case "gb_per_s": return `${v} GB/s`;
    case "number": return String(v);
    default: return "";
  }
}

/** A unit that suits the largest of some times, for an axis. */
export function axisUnit(values) {
  const most = values.reduce((m, v) => Math.max(m, Math.abs(v || 0)), 0);
  if (most < 1e3) return ["ns", 1];
  if (most < 1e6) return ["us", 1e3];
  if (most < 1e9) return ["ms", 1e6];
  return ["s", 1e9];
}

/** Shortens a name in its middle, so that both of its ends are seen. */
export function short(text, most) {
  const letters = Array.from(String(text).replace(/\s+/g, " "));
  if (letters.length <= most) return letters.join("");
  const head = Math.ceil((most - 1) * 0.6);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (most - 1 - head)).join("")}`;
}

/** Plotly reads a little HTML in its texts: names must not be taken for it. */
export function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A long name in lines, for a label that follows the pointer. */
export function inLines(text, width = 72, most = 6) {
  const letters = Array.from(String(text).replace(/\s+/g, " "));
  const lines = [];
  for (let i = 0; i < letters.length && lines.length < most; i += width) lines.push(letters.slice(i, i + width).join(""));
  if (letters.length > width * most) lines[most - 1] += "…";
  return lines.map(plain).join("<br>");
}

/** An element with attributes and what is in it; texts are only ever texts. */
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...content.filter((c) => c !== null && c !== undefined));
  return element;
}
