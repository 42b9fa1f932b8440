// What a chart shows, in words: for those who do not see it.

import { short } from "page/format.js";

const LARGEST = 3;
const MOST_SERIES = 8;

/** The text of a label of Plotly: a little HTML, of which nothing but the text is left. */
export function textOf(label) {
  const plainText = String(label).replace(/<br>/g, ", ").replace(/<[^>]*>/g, "");
  return plainText.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
}

/** The points of a series that have a value and a label; those of a map by row and column. */
export function pointsOf(series, curve) {
  if (series.type === "heatmap") {
    const row = (cells, i) => cells.map((value, j) => ({ curve, at: [i, j], x: series.x[j], y: series.y[i], value, label: (series.text[i] || [])[j] }));
    return series.z.flatMap(row).filter((p) => p.value !== null && p.label);
  }
  const values = series.orientation === "h" ? series.x : series.y;
  if (!Array.isArray(values) || !series.hovertext) return [];
  return values.map((value, i) => ({ curve, at: i, x: series.x[i], y: series.y[i], value, label: series.hovertext[i] })).filter((p) => p.value !== null && p.label);
}

/** The points with the largest values, the largest first; of equal ones the first. */
function largestOf(points, most) {
  const out = [];
  for (const p of points) {
    const at = out.findIndex((o) => p.value > o.value);
    if (at >= 0) out.splice(at, 0, p);
    else if (out.length < most) out.push(p);
    out.length = Math.min(out.length, most);
  }
  return out;
}

/** What a chart shows and its largest values: of one series the first few, of several the largest of each. */
export function describe(says, data) {
  const all = data.map(pointsOf).filter((points) => points.length);
  const told = all.length === 1 ? largestOf(all[0], LARGEST) : all.slice(0, MOST_SERIES).flatMap((points) => largestOf(points, 1));
  const texts = told.map((p) => short(textOf(p.label), 120));
  return texts.length ? `${says}. Largest: ${texts.join("; ")}.` : says;
}
