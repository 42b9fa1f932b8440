// Colours of the page's theme, and the room that there is: on a screen, a narrow one, or paper.

/** A colour of the theme, as page.css names it. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const inks = new Map();
/** Black or white, whichever is read better on a colour: one of them has a contrast of 4.5 with any. */
export function inkOn(tint) {
  if (!inks.has(tint)) {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = [1, 3, 5].map((i) => linear(parseInt(tint.slice(i, i + 2), 16) / 255));
    const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    inks.set(tint, (light + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff");
  }
  return inks.get(tint);
}

/** The parts of time, which sum to a step: column, name, and colour. */
export const PARTS = [
  ["compute_ns", "compute", "compute"],
  ["fused_ns", "fused", "fused"],
  ["waiting_ns", "waiting", "waiting"],
  ["transfer_ns", "transfer", "communication"],
  ["unmatched_ns", "unmatched", "unmatched"],
  ["copies_ns", "copies", "memory"],
  ["idle_ns", "idle", "idle"],
  ["finished_early_ns", "finished early", "kind-1"],
];

/** Parts that are communication, with the stripes on its colour. @type {Record<string, [string, string, number]>} */
const STRIPES = { fused: ["compute", "/", 135], waiting: ["late", "/", 135], unmatched: ["panel", "\\", 45] };

/** How a part of time looks in a chart: waiting is striped as on the time axis. */
export function partMarker(key) {
  const stripes = STRIPES[key];
  if (!stripes) return { color: colour(key) };
  const [bgcolor, fgcolor] = [colour("communication"), colour(stripes[0])];
  return { color: bgcolor, pattern: { shape: stripes[1], bgcolor, fgcolor, size: 6, solidity: 0.35 } };
}

/** The same as a background in a style. */
export function partStyle(key) {
  const stripes = STRIPES[key];
  if (!stripes) return `var(--${key})`;
  return `repeating-linear-gradient(${stripes[2]}deg, var(--communication) 0 3px, var(--${stripes[0]}) 3px 5px)`;
}

/** Colours of further kinds of things, other than those that mean something. */
export const kinds = () => Array.from({ length: 10 }, (_, i) => colour(`kind-${i}`));

/** Whether the page is drawn for paper now. */
export const isOnPaper = () => document.documentElement.classList.contains("on-paper");

/** Whether there is little room beside a chart. */
export const isNarrow = () => !isOnPaper() && window.innerWidth < 700;
