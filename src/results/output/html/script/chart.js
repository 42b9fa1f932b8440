// Charts, by Plotly: each is drawn again when the theme or what it shows is changed.

import { describe, inWordsIfOne, walkByKeys } from "page/chart_access.js";
import { make } from "page/dom.js";
import { axisUnit, exact, inLines, plain, short, shown } from "page/format.js";
import { colour, inkOn, isNarrow, isOnPaper, kinds } from "page/theme.js";

/** All that is drawn: charts, timelines and flame graphs. @type {{ render: () => void }[]} */
export const charts = [];

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star", "cross", "pentagon", "hexagon", "bowtie"];
/** A label with the text of its point alone. */
export const HOVER = "%{hovertext}<extra></extra>";

/** How charts look unless they say otherwise. */
function template() {
  const [ink, line, clear] = [colour("ink"), colour("line"), "rgba(0,0,0,0)"];
  const axis = {
    gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true, tickfont: { size: 11.5 },
    title: { font: { size: 12 }, standoff: 6 },
  };
  return { layout: {
    paper_bgcolor: clear, plot_bgcolor: clear, bargap: 0.2, hovermode: "closest", separators: ".,",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: ink },
    // room at the top for the buttons that appear under the pointer
    margin: { l: 8, r: 8, t: isNarrow() ? 10 : 30, b: 8 },
    xaxis: axis, yaxis: axis,
    legend: {
      orientation: "h", y: 1.02, yanchor: "bottom", x: 0, xanchor: "left", traceorder: "normal", bgcolor: clear,
    },
    hoverlabel: {
      bgcolor: colour("panel"), bordercolor: line, font: { color: ink, size: 12.5 }, align: "left", namelength: -1,
    },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    modebar: { bgcolor: clear, color: colour("soft"), activecolor: ink, orientation: "h" },
  } };
}

/**
 * A chart at the end of `where`. `draw` gives `{ data, layout, height, says, words }`; `says` is what it shows, in
 * words. One bar or one point is told in a sentence instead: in `words`, or else in those of its label. `clicked` is
 * told which point was clicked.
 * @param {((point: any) => void) | null} clicked
 */
export function addChart(where, draw, clicked = null) {
  const role = { role: "application", "aria-roledescription": "chart", "aria-describedby": "chart-keys" };
  const element = make("div", { class: "chart", tabindex: "0", ...role });
  const told = make("div", { class: "unseen", "aria-live": "polite" });
  const single = make("p", { class: "single", hidden: "" });
  where.append(element, told, single);
  const render = () => {
    const { data, layout, height, says, words } = draw();
    element.setAttribute("aria-label", describe(says, data));
    const one = inWordsIfOne(data);
    [element.hidden, single.hidden] = [one !== null, one === null];
    if (one !== null) {
      single.textContent = words ?? one;
      return;
    }
    // nothing that leads out of the page: Plotly would offer to upload the chart
    const config = {
      responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", doubleClick: "reset",
      displayModeBar: isNarrow() ? false : "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
    };
    const isFirst = !element.on;
    const width = isOnPaper() ? { width: element.clientWidth } : {};
    Plotly.react(element, data, { template: template(), height, ...layout, ...width }, config);
    if (!isFirst) return;
    walkByKeys(element, (text) => { told.textContent = text; }, clicked);
    if (clicked) element.on("plotly_click", (e) => { if (e.points.length) clicked(e.points[0]); });
  };
  const chart = { render };
  charts.push(chart);
  return chart;
}

export function renderAll() {
  for (const c of charts) c.render();
}

/** Draws the charts one after the other, so that the page can be read meanwhile. */
export function renderInTurn(queue = charts.slice()) {
  const chart = queue.shift();
  if (!chart) {
    document.documentElement.dataset.drawn = "all";
    return;
  }
  chart.render();
  setTimeout(renderInTurn, 0, queue);
}

/** Ticks for a list of names, one of them at each whole number: about `most` of them. */
export function ticksOf(labels, most) {
  const every = Math.max(1, Math.ceil(labels.length / most));
  const at = labels.map((_, i) => i).filter((i) => i % every === 0);
  return { tickvals: at, ticktext: at.map((i) => plain(labels[i])) };
}

/** A label of a row: its name, and columns by their headings with exact values; those without a value are left out. */
export function rowLabel(grid, row, name, columns) {
  const line = (column) => {
    const { title, kind } = grid.byName.get(column);
    const [v, precise] = [row(column), exact(kind, row(column))];
    return `${title} ${kind === "text" ? inLines(v, 72, 8) : shown(kind, v)}${precise ? ` = ${precise}` : ""}`;
  };
  const known = columns.filter((c) => row(c) !== null && row(c) !== "");
  return [`<b>${inLines(name)}</b>`, ...known.map(line)].join("<br>");
}

/**
 * Marks of the `k`-th of several kinds of things, of points `{ x, y, size, hover }`.
 * @param {{ x: any, y: any, size: number, hover: string }[]} points
 */
export const marks = (name, k, points, marker = {}) => ({
  type: "scatter", mode: "markers", name: plain(name), x: points.map((p) => p.x), y: points.map((p) => p.y),
  marker: {
    color: kinds()[k % 10], symbol: SYMBOLS[k % 10], size: points.map((p) => p.size),
    line: { width: 1, color: colour("panel") }, ...marker,
  },
  hovertext: points.map((p) => p.hover), hovertemplate: HOVER,
});

/**
 * Bars to the right, one for each of some rows of a grid, the first on top. `name`: of a row; `hover`: the columns in
 * its label; each of `series` is `{ name, colour, value }`: `value` of a row, and a colour of all or of each, or a
 * `marker`.
 */
export function nameBars(grid, rows, { name, series, hover, label, says, unit = "ns", stacked = true }) {
  const n = rows.length;
  const kept = series.map((s) => ({ ...s, values: rows.map(s.value) })).filter((s) => s.values.some((v) => v));
  const longest = (sum, v) => (stacked ? sum + (v || 0) : Math.max(sum, v || 0));
  const lengths = rows.map((_, i) => kept.reduce((sum, s) => longest(sum, s.values[i]), 0));
  const [unitName, size] = unit === "ns" ? axisUnit(lengths) : [unit, 1];
  const positions = rows.map((_, i) => n - i);
  const ticktext = rows.map((row) => plain(short(name(row), isNarrow() ? 24 : 60)));
  const hovertext = rows.map((row) => rowLabel(grid, row, name(row), hover));
  const hasKey = kept.length > 1;
  return {
    data: kept.map((s) => ({
      type: "bar", orientation: "h", name: s.name, y: positions, x: s.values.map((v) => (v === null ? null : v / size)),
      marker: s.marker ?? { color: typeof s.colour === "function" ? rows.map(s.colour) : s.colour },
      hovertext, hovertemplate: HOVER,
    })),
    layout: {
      barmode: stacked ? "stack" : "group", showlegend: hasKey,
      xaxis: { title: { text: `${label}, ${unitName}` }, rangemode: "tozero" },
      yaxis: {
        tickvals: positions, ticktext, tickfont: { size: 11.5 }, range: [0.4, n + 0.6], showgrid: false, ticks: "",
      },
    },
    height: 80 + n * (stacked ? 22 : 26) + (hasKey ? (isNarrow() ? 20 * kept.length : 20) : 0),
    says,
  };
}

/** Bars of a colour, each in row `y` and from one time to another: `{ y, from, to, text, hover }`. */
export const spanBars = (name, tint, spans, { pattern, ...more } = /** @type {any} */ ({})) => ({
  type: "bar", orientation: "h", name, y: spans.map((s) => s.y), base: spans.map((s) => s.from),
  x: spans.map((s) => s.to - s.from), width: 0.84,
  marker: { color: tint, pattern, line: { width: 0.5, color: colour("panel") } },
  text: spans.map((s) => s.text), textposition: "inside", insidetextanchor: "middle", textangle: 0,
  insidetextfont: { color: inkOn(tint) }, hovertext: spans.map((s) => s.hover), hovertemplate: HOVER, ...more,
});

/** How rows of such bars are laid out, by their names: time to the right, the first on top. */
export const spanLayout = (labels, xTitle, whole) => ({
  barmode: "overlay", showlegend: true, uniformtext: { mode: "hide", minsize: 8 },
  xaxis: { title: { text: xTitle }, range: [0, whole] },
  yaxis: { autorange: "reversed", tickvals: labels.map((t) => t[0]), ticktext: labels.map((t) => plain(t[1])) },
});

/**
 * A map of values by row and column. `cells`: row, column, value, and label of each; `columnText`: what a column is
 * called; `key`: colour of the largest value, and of `high` if that is more; or `tints`: one for each whole number.
 * @param {any} map
 */
export function heatMap({
  rows, columns, columnText = String, cells, key, tints, title, unit, low = 0, high = 0, xTitle, yTitle, says,
}) {
  const [yOf, xOf] = [rows, columns].map((list) => new Map(list.map((of, i) => [of, i])));
  const [values, text] = [null, ""].map((none) => rows.map(() => columns.map(() => none)));
  for (const [row, column, value, hover] of cells) {
    const [y, x] = [yOf.get(row), xOf.get(column)];
    if (y !== undefined && x !== undefined) [values[y][x], text[y][x]] = [value, hover];
  }
  const numbers = values.flat().filter((v) => v !== null && v !== undefined);
  const most = numbers.reduce((m, v) => Math.max(m, v), 0);
  const [name, size] = unit === "ns" ? axisUnit(numbers) : [unit, 1];
  const axis = { showgrid: false, zeroline: false, ticks: "" };
  const across = { ...axis, tickangle: 0 };
  const isHigh = rows.length > 60;
  const scale = tints ? {
    colorscale: tints.flatMap((tint, i) => [[i / tints.length, tint], [(i + 1) / tints.length, tint]]),
    zmin: -0.5, zmax: tints.length - 0.5,
  } : {
    colorscale: [[0, colour("low")], [1, colour(key)]],
    zmin: low / size, zmax: Math.max(most, high, low + (unit === "ns" ? 1 : 1e-9)) / size,
  };
  return {
    data: [{
      type: "heatmap", x: columns.map((_, i) => i), y: rows.map((_, i) => i),
      z: values.map((row) => row.map((v) => (v === null || v === undefined ? null : v / size))),
      text, hovertemplate: "%{text}<extra></extra>", hoverongaps: false,
      ...scale, xgap: columns.length <= 60 ? 1 : 0, ygap: rows.length <= 40 ? 1 : 0,
      colorbar: {
        title: { text: isNarrow() ? name : name ? `${title}, ${name}` : title, side: "right", font: { size: 12 } },
        ...(tints && { tickvals: tints.map((_, i) => i) }),
        thickness: 12, outlinewidth: 0, tickfont: { size: 11 }, x: 1.01,
      },
    }],
    layout: {
      xaxis: { ...ticksOf(columns.map(columnText), isNarrow() ? 8 : 24), title: { text: xTitle }, ...across },
      yaxis: { ...ticksOf(rows, isHigh ? 16 : 32), title: { text: yTitle }, autorange: "reversed", ...axis },
    },
    // room for the names of the tints, too
    height: Math.min(640, 130 + Math.max(rows.length * (isHigh ? 4 : 20), tints ? tints.length * 14 - 40 : 0)),
    says,
  };
}

/** A line around fields of a map, from a column and row to others. */
export const outline = (x0, y0, x1 = x0, y1 = y0) => ({
  type: "rect", x0: x0 - 0.5, x1: x1 + 0.5, y0: y0 - 0.5, y1: y1 + 0.5, line: { color: colour("ink"), width: 2 },
});

/** Lines over time of columns of a grid, `[name, column, style, more]`; each keeps a value until the next. */
export const timeLines = (grid, lines, size, scale) => lines.map(([name, column, line, more = {}]) => ({
  type: "scatter", mode: "lines", name, connectgaps: false, line: { width: 2, shape: "hv", ...line },
  x: grid.of("start_ns").map((v) => v / size), y: grid.of(column).map((v) => (v === null ? null : v * scale)),
  hovertext: grid.list().map((row) => rowLabel(grid, row, name, ["start_ns", column])), hovertemplate: HOVER, ...more,
}));
