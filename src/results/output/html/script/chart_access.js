// Charts for those who do not see them or use no pointer. In words: what a chart shows and its largest values. By keys:
// arrows walk over the values, Enter does what a click does, digits show and hide a series, + and - zoom.

import { followKeys } from "page/dom.js";
import { between, short } from "page/format.js";

const [LARGEST, MOST_SERIES] = [3, 8];

/** The text of a label of Plotly: a little HTML, of which nothing but the text is left. */
function textOf(label) {
  const plainText = String(label).replace(/<br>/g, ", ").replace(/<[^>]*>/g, "");
  return plainText.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
}

/** The points of a series that have a value and a label; those of a map by row and column. */
function pointsOf({ type, orientation, x, y, z, text, hovertext }, curve) {
  const isKept = (p) => p.value !== null && p.label;
  if (type === "heatmap") {
    const point = (value, i, j) => ({ curve, at: [i, j], x: x[j], y: y[i], value, label: text[i]?.[j] });
    return z.flatMap((row, i) => row.map((value, j) => point(value, i, j))).filter(isKept);
  }
  const values = orientation === "h" ? x : y;
  if (!Array.isArray(values) || !hovertext) return [];
  return values.map((value, i) => ({ curve, at: i, x: x[i], y: y[i], value, label: hovertext[i] })).filter(isKept);
}

/**
 * The values of a chart in words if it is no chart: all of them stand at one place, as one bar or one point.
 * Null for a chart.
 */
export function inWordsIfOne(data) {
  const points = data.flatMap(pointsOf);
  const placeOf = ({ curve, x, y }) => {
    const { type, orientation } = data[curve];
    return type === "bar" ? (orientation === "h" ? y : x) : `${x} ${y}`;
  };
  if (points.length === 0 || new Set(points.map(placeOf)).size > 1) return null;
  const told = points.filter((p) => p.value).map((p) => textOf(p.label).replace(/ = [-\d.,]+ (ns|bytes|%)/g, ""));
  return told.length ? `${[...new Set(told)].join("; ")}.` : "Nothing.";
}

/** What a chart shows and its largest values: of one series the first few, of several the largest of each. */
export function describe(says, data) {
  const all = data.map(pointsOf).filter((points) => points.length);
  const largest = (points) => points.sort((a, b) => b.value - a.value).slice(0, all.length === 1 ? LARGEST : 1);
  const texts = all.slice(0, MOST_SERIES).flatMap(largest).map((p) => short(textOf(p.label), 120));
  return texts.length ? `${says}. Largest: ${texts.join("; ")}.` : says;
}

/** Makes a chart follow keys. `tell` is given the words of a value that is walked to; `clicked`: as in `addChart`. */
export function walkByKeys(element, tell, clicked) {
  // the value that was walked to: series, and place in the series
  let [series, at] = [0, -1];
  const shown = () => element.data.map((s, curve) => (s.visible === "legendonly" ? [] : pointsOf(s, curve)));
  const now = () => shown()[series]?.[at];

  function walk(bySeries, by) {
    const all = shown();
    const used = all.map((_, k) => k).filter((k) => all[k].length);
    if (used.length === 0) return;
    series = used[between(0, Math.max(0, used.indexOf(series)) + bySeries, used.length - 1)];
    at = between(0, at + by, all[series].length - 1);
    const p = all[series][at];
    const place = Array.isArray(p.at) ? { xval: p.x, yval: p.y } : { pointNumber: p.at };
    Plotly.Fx.hover(element, [{ curveNumber: p.curve, ...place }]);
    tell(textOf(p.label));
  }

  function choose() {
    const p = now();
    if (p && clicked) clicked({ curveNumber: p.curve, pointNumber: p.at, x: p.x, y: p.y });
  }

  function hide(index) {
    const named = element.data.map((_, k) => k).filter((k) => element.data[k].showlegend !== false);
    const k = named[index];
    if (k === undefined || named.length < 2) return;
    const isHidden = element.data[k].visible === "legendonly";
    Plotly.restyle(element, { visible: isHidden ? true : "legendonly" }, [k]);
    tell(`${textOf(element.data[k].name)} ${isHidden ? "shown" : "hidden"}`);
  }

  function zoom(factor) {
    const { type, range: [from, until] } = element._fullLayout.xaxis;
    const p = now();
    const middle = p && type !== "log" ? Number(p.x) : (from + until) / 2;
    const half = (until - from) / factor / 2;
    Plotly.relayout(element, { "xaxis.range": [middle - half, middle + half] });
  }

  function showAll() {
    const isMap = element.data.some((s) => s.type === "heatmap");
    Plotly.relayout(element, { "xaxis.autorange": true, "yaxis.autorange": isMap ? "reversed" : true });
  }

  element.addEventListener("blur", () => { if (at >= 0) Plotly.Fx.unhover(element); });
  const digits = Array.from({ length: 9 }, (_, i) => [i + 1, () => hide(i)]);
  const keys = {
    ArrowRight: () => walk(0, 1), ArrowLeft: () => walk(0, -1), ArrowDown: () => walk(1, 0), ArrowUp: () => walk(-1, 0),
    Enter: choose, "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: showAll,
    s: () => Plotly.downloadImage(element, { format: "png", filename: "chart" }),
    Escape: () => Plotly.Fx.unhover(element), ...Object.fromEntries(digits),
  };
  followKeys(element, (e) => (e.target === element ? keys : {}));
}
