// Colours of the page's theme, and the room that there is: on a screen, a narrow one, or paper.

/** A colour of the theme, as page.css names it. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star", "cross", "pentagon", "hexagon", "bowtie"];
/** Colours of further kinds of things, other than those that mean something. */
export const kinds = () => Array.from({ length: 10 }, (_, i) => colour(`kind-${i}`));

// black or white, whichever is read better on a colour: one of them has a contrast of 4.5 with any
const inks = new Map();
export function inkOn(tint) {
  if (!inks.has(tint)) {
    const parts = [1, 3, 5].map((i) => parseInt(tint.slice(i, i + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    const light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    inks.set(tint, (light + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff");
  }
  return inks.get(tint);
}

/** Whether the page is drawn for paper now. */
export const isOnPaper = () => document.documentElement.classList.contains("on-paper");

/** Whether there is little room beside a chart. */
export const isNarrow = () => !isOnPaper() && window.innerWidth < 700;
