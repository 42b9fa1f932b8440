// Charts, by Plotly: each is drawn again when the theme or what it shows is changed.

import { walkByKeys } from "page/chart_keys.js";
import { describe } from "page/chart_text.js";
import { axisUnit, make, plain, short } from "page/format.js";
import { colour, isNarrow, isOnPaper } from "page/theme.js";

export const charts = [];

function baseLayout(height) {
  const ink = colour("ink");
  const line = colour("line");
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true, tickfont: { size: 11.5 }, title: { font: { size: 12 }, standoff: 6 } };
  return {
    height,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: ink },
    // room at the top for the buttons that appear under the pointer
    margin: { l: 8, r: 8, t: isNarrow() ? 10 : 30, b: 8 },
    xaxis: { ...axis },
    yaxis: { ...axis },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, xanchor: "left", traceorder: "normal", bgcolor: "rgba(0,0,0,0)" },
    hoverlabel: { bgcolor: colour("panel"), bordercolor: line, font: { color: ink, size: 12.5 }, align: "left", namelength: -1 },
    bargap: 0.2,
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: ink, orientation: "h" },
    separators: ".,",
  };
}

function merged(base, over) {
  const out = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const both = value && typeof value === "object" && !Array.isArray(value) && out[key] && typeof out[key] === "object";
    out[key] = both ? merged(out[key], value) : value;
  }
  return out;
}

/**
 * A chart at the end of `where`. `draw` gives `{ data, layout, height, says }`; `says` is what it shows, in words.
 * `clicked` is told which point was clicked.
 */
export function addChart(where, draw, clicked) {
  const element = make("div", { class: "chart", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-describedby": "chart-keys" });
  const told = make("div", { class: "unseen", "aria-live": "polite" });
  where.append(element, told);
  const chart = {
    render() {
      const { data, layout, height, says } = draw();
      element.setAttribute("aria-label", describe(says, data));
      // nothing that leads out of the page: Plotly would offer to upload the chart
      const config = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", displayModeBar: isNarrow() ? false : "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]], doubleClick: "reset" };
      const isFirst = !element.on;
      Plotly.react(element, data, { ...merged(baseLayout(height), layout || {}), ...(isOnPaper() ? { width: element.clientWidth } : {}) }, config);
      if (!isFirst) return;
      walkByKeys(element, (text) => { told.textContent = text; }, clicked);
      if (clicked) element.on("plotly_click", (e) => { if (e.points.length) clicked(e.points[0]); });
    },
  };
  charts.push(chart);
  return chart;
}

export function renderAll() {
  for (const c of charts) c.render();
}

/** Draws the charts one after the other, so that the page can be read meanwhile. */
export function renderInTurn() {
  const queue = charts.slice();
  const next = () => {
    const chart = queue.shift();
    if (!chart) {
      document.documentElement.dataset.drawn = "all";
      return;
    }
    chart.render();
    setTimeout(next, 0);
  };
  next();
}

/** A choice above a chart. */
export function addSelect(where, label, options, changed) {
  const select = make("select", {}, ...options.map(([value, text]) => make("option", { value }, text)));
  select.addEventListener("change", () => changed(select.value));
  where.append(make("label", {}, label, select));
  return select;
}

/** The range of an axis of magnitudes that holds some values with room around, and its ticks. */
export function decades(values, show) {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
  const range = [low - 0.25, high + 0.25];
  const factors = high - low < 1.2 ? [1, 1.5, 2, 3, 5, 7] : high - low < 3 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.floor(range[0]); power <= Math.ceil(range[1]); power++) {
    for (const f of factors) ticks.push(f * 10 ** power);
  }
  const inside = ticks.filter((t) => Math.log10(t) >= range[0] && Math.log10(t) <= range[1]);
  return { type: "log", range, tickvals: inside, ticktext: inside.map(show) };
}

/** Bars to the right, one for each name, the largest on top. `series`: `{ name, values, colour, kind }`. */
export function nameBars(rowNames, series, { unit = "ns", stacked = true, label = "time", hovers }) {
  const n = rowNames.length;
  series = series.map((s, k) => ({ ...s, place: k })).filter((s) => s.values.some((v) => v));
  const all = rowNames.map((_, i) => series.reduce((s, t) => (stacked ? s + (t.values[i] || 0) : Math.max(s, t.values[i] || 0)), 0));
  const [name, size] = unit === "ns" ? axisUnit(all) : ["", 1];
  const positions = rowNames.map((_, i) => n - i);
  const most = isNarrow() ? 24 : 60;
  return {
    data: series.map((s) => ({
      type: "bar",
      orientation: "h",
      name: s.name,
      y: positions,
      x: s.values.map((v) => (v === null ? null : v / size)),
      marker: { color: s.colours || s.colour },
      hovertext: rowNames.map((_, i) => hovers(i, s.place)),
      hovertemplate: "%{hovertext}<extra></extra>",
    })),
    layout: {
      barmode: stacked ? "stack" : "group",
      xaxis: { title: { text: name ? `${label}, ${name}` : label }, rangemode: "tozero" },
      yaxis: { tickvals: positions, ticktext: rowNames.map((t) => plain(short(t, most))), tickfont: { size: 11.5 }, range: [0.4, n + 0.6], showgrid: false, ticks: "" },
      showlegend: series.length > 1,
      hovermode: "closest",
    },
    height: 80 + n * (stacked ? 22 : 26) + (series.length > 1 ? (isNarrow() ? 20 * series.length : 20) : 0),
  };
}

/** A map of values by row and column. */
export function heatMap({ rows, columns, values, hovers, scale, title, unit, low = 0, xTitle, yTitle }) {
  const numbers = values.flat().filter((v) => v !== null && v !== undefined);
  const most = numbers.reduce((m, v) => Math.max(m, v), 0);
  const [name, size] = unit === "ns" ? axisUnit(numbers) : [unit, 1];
  const step = Math.max(1, Math.ceil(rows.length / (rows.length > 60 ? 16 : 32)));
  const across = Math.max(1, Math.ceil(columns.length / (isNarrow() ? 8 : 24)));
  const ticks = (list, every) => ({ tickvals: list.map((_, i) => i).filter((i) => i % every === 0), ticktext: list.filter((_, i) => i % every === 0).map(plain) });
  return {
    data: [{
      type: "heatmap",
      x: columns.map((_, i) => i),
      y: rows.map((_, i) => i),
      z: values.map((row) => row.map((v) => (v === null || v === undefined ? null : v / size))),
      text: hovers,
      hovertemplate: "%{text}<extra></extra>",
      hoverongaps: false,
      colorscale: scale,
      zmin: low / size,
      zmax: Math.max(most, low + (unit === "ns" ? 1 : 1e-9)) / size,
      xgap: columns.length <= 60 ? 1 : 0,
      ygap: rows.length <= 40 ? 1 : 0,
      colorbar: { title: { text: isNarrow() ? name : name ? `${title}, ${name}` : title, side: "right", font: { size: 12 } }, thickness: 12, outlinewidth: 0, tickfont: { size: 11 }, x: 1.01 },
    }],
    layout: {
      xaxis: { ...ticks(columns, across), title: { text: xTitle }, showgrid: false, zeroline: false, ticks: "", tickangle: 0 },
      yaxis: { ...ticks(rows, step), title: { text: yTitle }, autorange: "reversed", showgrid: false, zeroline: false, ticks: "" },
      hovermode: "closest",
    },
    height: Math.min(640, 130 + rows.length * (rows.length > 60 ? 4 : 20)),
  };
}
