// Numbers and names for people. Every time is nanoseconds, every size bytes; the exact value is never far: `exact`.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
/** Sorts names with numbers in them as people do: `rank 2` before `rank 10`. */
export const names = new Intl.Collator("en", { numeric: true });

/** @typedef {[name: string, size: number]} Unit */
/** @type {Unit[]} */
const TIMES = [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9]];
/** @type {Unit[]} */
export const SIZES = [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9]];

/** The largest unit that a number has one of; else the smallest. @param {Unit[]} units */
const unitOf = (units, v) => units.findLast(([, size]) => Math.abs(v) >= size) ?? units[0];

/** A unit that suits the largest of some times, for an axis. */
export const axisUnit = (values, units = TIMES) =>
  unitOf(units, values.reduce((m, v) => Math.max(m, Math.abs(v || 0)), 0));

/**
 * A number with some digits behind the point, as the text report has it: of two that are equally near, the even one.
 * `toFixed` takes the larger one.
 */
function fixed(v, digits) {
  const text = v.toFixed(digits);
  // the text of a number between two has nothing but a five behind those digits
  const isBetween = Math.abs(Math.abs(v * 10 ** digits) % 1 - 0.5) < 1e-6
    && /^50*$/.test(v.toFixed(50).split(".")[1].slice(digits));
  const isOdd = Number(text.at(-1)) % 2 === 1;
  return isBetween && isOdd ? (v - Math.sign(v) * 10 ** -digits / 2).toFixed(digits) : text;
}

function significant(v) {
  const a = Math.abs(v);
  return fixed(v, a < 10 ? 2 : a < 100 ? 1 : 0);
}

/** A number with three significant digits: `0.25`, `32.7`, `327`, `5,714`, `339 k`, `1.20 M`. */
export function number(v) {
  const a = Math.abs(v);
  if (a >= 1e6) return `${significant(v / 1e6)} M`;
  if (a >= 1e5) return `${significant(v / 1e3)} k`;
  if (a >= 1e3) return count(v);
  return a < 0.005 ? "0.00" : significant(v);
}

export function ns(v) {
  const whole = Math.round(v) || 0;
  const [unit, size] = unitOf(TIMES, whole);
  return `${size === 1 ? whole : significant(whole / size)} ${unit}`;
}

export function bytes(v) {
  const [unit, size] = unitOf(SIZES, v);
  return `${size === 1 ? v : significant(v / size)} ${unit}`;
}

export const count = (v) => grouped.format(v);
/** A percentage: `12.3 %`, `1,104 %`; no zero has a sign. */
const ofHundred = (v) => `${Math.abs(v) >= 1000 ? number(v) : fixed(Math.abs(v) < 0.05 ? 0 : v, 1)} %`;
/** A share of one, in percent. */
export const percent = (v) => ofHundred(100 * v);
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
/** A number from `least` to `most`. */
export const between = (least, v, most) => Math.min(Math.max(v, least), most);

/** A value of a column, as it is shown. */
export function shown(kind, v) {
  if (v === null || v === undefined) return "";
  switch (kind) {
    case "ns": return ns(v);
    case "bytes": return bytes(v);
    case "ratio": return percent(v);
    case "percent": return ofHundred(v);
    case "gb_per_s":
    case "number": return number(v);
    case "count": return count(v);
    default: return String(v);
  }
}

/** The same, exactly. */
export function exact(kind, v) {
  if (v === null || v === undefined || typeof v === "string") return "";
  switch (kind) {
    case "ns": return `${count(v)} ns`;
    case "bytes": return `${count(v)} bytes`;
    case "ratio": return `${100 * v} %`;
    case "percent": return `${v} %`;
    case "gb_per_s": return `${v} GB/s`;
    case "number": return String(v);
    default: return "";
  }
}

/** A time as it is shown, and exactly. */
export const nsExactly = (v) => `${ns(v)} = ${exact("ns", v)}`;
/** A share of a whole in brackets; nothing where there is no whole. */
export const shareOf = (v, whole) => (whole ? ` (${percent(v / whole)})` : "");

/** Shortens a name in its middle, so that both of its ends are seen. */
export function short(text, most) {
  const letters = Array.from(String(text).replace(/\s+/g, " "));
  if (letters.length <= most) return letters.join("");
  const head = Math.ceil((most - 1) * 0.6);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (most - 1 - head)).join("")}`;
}

/** A name of a table's cells in words. */
export const words = (name) => String(name).replace(/_/g, " ");

/** Numbers or names that a cell lists. */
export const listOf = (text) => (text || "").split(",").filter((v) => v !== "");

/** Plotly reads a little HTML in its texts: names must not be taken for it. */
export function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A long name in lines, for a label that follows the pointer. */
export function inLines(text, width = 72, most = 6) {
  const letters = Array.from(String(text).replace(/\s+/g, " "));
  const count = Math.min(most, Math.ceil(letters.length / width));
  const lines = Array.from({ length: count }, (_, i) => letters.slice(i * width, (i + 1) * width).join(""));
  if (letters.length > width * most) lines[most - 1] += "…";
  return lines.map(plain).join("<br>");
}

/** A label that follows the pointer: a name, and lines of Plotly's HTML; those that are empty are left out. */
export const hoverText = (name, ...lines) => [`<b>${inLines(name)}</b>`, ...lines].filter((l) => l).join("<br>");
