// Colours of the page's theme, and the room that there is: on a screen, a narrow one, or paper.

/** A colour of the theme, as page.css names it. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The parts of time, which sum to a window: column, name, and colour. */
export const PARTS = [
  ["compute_ns", "compute", "compute"],
  ["exposed_communication_ns", "exposed communication", "communication"],
  ["copies_ns", "exposed memory", "memory"],
  ["idle_ns", "idle", "idle"],
];

/** Colours of further kinds of things, other than those that mean something. */
export const kinds = () => Array.from({ length: 10 }, (_, i) => colour(`kind-${i}`));

/** Whether the page is drawn for paper now. */
export const isOnPaper = () => document.documentElement.classList.contains("on-paper");

/** Whether there is little room beside a chart. */
export const isNarrow = () => !isOnPaper() && window.innerWidth < 700;
