// Layers of experts: expert time and tokens by layer, and the ranks in each.

import { addChart, heatMap, HOVER, marks } from "page/chart.js";
import { axisUnit, exact, names, ns, plain, plural, shown } from "page/format.js";
import { colour, kinds } from "page/theme.js";

/** What a layer is called: its name, or else its position; the part of the step where it is not the forward. */
function layerName(row) {
  const name = row("layer") || `layer ${row("position")}`;
  return row("direction") === "forward" ? name : `${name}, ${row("direction")}`;
}

export function expertsSection(f) {
  const { loads, layers, ranks } = f.grids;
  if (loads.rows > 0) charts(f, loads);
  f.table(layers);
  f.table(ranks);
}

function charts(f, loads) {
  const load = loads.has("tokens_in") ? "tokens_in" : "received_bytes";
  const [hasLoad, { kind, title }] = [loads.has(load), loads.byName.get(load)];
  const all = loads.list();
  const labels = [...new Set(all.map(layerName))];
  const rows = loads.distinct("ranks").sort(names.compare);
  const of = (label) => all.filter((row) => layerName(row) === label);
  const head = (row) => `<b>rank ${plain(row("ranks"))}, ${plain(layerName(row))}</b>`;
  const told = (row) => (row(load) === null ? "" : `<br>${title} ${shown(kind, row(load))}`);
  f.heading("Expert time by layer: shortest, mean and longest rank");
  addChart(f.body, () => {
    const low = labels.map((label) => Math.min(...of(label).map((row) => row("least_ns"))));
    const high = labels.map((label) => Math.max(...of(label).map((row) => row("most_ns"))));
    const mean = labels.map((label) => of(label).reduce((s, row) => s + row("mean_ns") * row("rank_count"), 0)
      / of(label).reduce((s, row) => s + row("rank_count"), 0));
    const [unit, size] = axisUnit(high);
    const at = labels.map((label) => plain(label));
    const hovertext = at.map((label, i) => `<b>${label}</b><br>${ns(low[i])} to ${ns(high[i])}, mean ${ns(mean[i])}`);
    const range = {
      type: "bar", name: "shortest to longest rank", x: at, base: low.map((v) => v / size),
      y: high.map((v, i) => (v - low[i]) / size), marker: { color: kinds()[0], opacity: 0.5 },
      hovertext, hovertemplate: HOVER, hoverinfo: "text",
    };
    const means = at.map((x, i) => ({ x, y: mean[i] / size, size: 12, hover: hovertext[i] }));
    const middle = marks("mean", 2, means, { symbol: "line-ew-open", color: colour("ink") });
    const dot = (row) => ({ x: plain(layerName(row)), y: row(load), size: 7, hover: head(row) + told(row) });
    const dots = hasLoad ? [{ ...marks(title, 1, all.map(dot)), yaxis: "y2" }] : [];
    return {
      data: [range, middle, ...dots], height: 360,
      layout: {
        showlegend: true, xaxis: { type: "category" },
        yaxis: { title: { text: `expert time, ${unit}` }, rangemode: "tozero" },
        yaxis2: {
          title: { text: title }, overlaying: "y", side: "right", rangemode: "tozero", showgrid: false,
          tickmode: "auto", tickformat: "~s", ticksuffix: kind === "bytes" ? "B" : "",
        },
      },
      says: `Bars of ${plural(labels.length, "layer")}: expert time of the shortest to the longest rank; ${title}`,
    };
  });
  if (rows.length < 2) return;
  f.heading("Expert time by rank and layer");
  addChart(f.body, () => {
    const cells = all.map((row) => {
      const most = row("rank_count") > 1 ? `<br>the longest of ${row("rank_count")}, on rank ${row("most_rank")}` : "";
      const time = `<br>expert time ${ns(row("most_ns"))}<br>= ${exact("ns", row("most_ns"))}`;
      return [row("ranks"), layerName(row), row("most_ns"), head(row) + time + most + told(row)];
    });
    const says = `Heat map of ${rows.length} ranks by ${labels.length} layers: expert time`;
    return heatMap({
      rows, columns: labels, cells, key: "late", title: "expert time", unit: "ns",
      xTitle: "layer", yTitle: "rank", says,
    });
  });
}
