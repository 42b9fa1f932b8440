// Layers of experts: expert time and tokens by layer, and the ranks in each.

import { addChart, heatMap, HOVER, marks } from "page/chart.js";
import { exact, names, ns, plain, plural, shown } from "page/format.js";
import { colour, kinds } from "page/theme.js";

/** What a layer is called: its name, or else its position; the part of the step where it is not the forward. */
function layerName(row) {
  const name = row("layer") || `layer ${row("position")}`;
  return row("direction") === "forward" ? name : `${name}, ${row("direction")}`;
}

/** Means over steps of the passes of each rank, in the order of the layers: forward first. */
function means(grid, load) {
  const sums = new Map();
  for (const row of grid.list()) {
    const key = JSON.stringify([layerName(row), row("rank")]);
    const sum = sums.get(key) ?? { layer: layerName(row), rank: row("rank"), at: Infinity, count: 0, time: 0, load: 0 };
    sum.at = Math.min(sum.at, row("position") + (row("direction") === "forward" ? 0 : 1e6));
    sum.count += 1;
    sum.time += row("expert_ns");
    sum.load += row(load) ?? 0;
    sums.set(key, sum);
  }
  const all = [...sums.values()].map((s) => ({ ...s, time: s.time / s.count, load: Math.round(s.load / s.count) }));
  return all.sort((a, b) => a.at - b.at || a.rank - b.rank);
}

export function expertsSection(f) {
  const { layers, ranks } = f.grids;
  if (ranks?.rows && !ranks.rest) charts(f, ranks);
  if (ranks?.rest) f.note(`${plural(ranks.rest, "pass is", "passes are")} not listed: no charts of ranks.`);
  f.table(layers);
  f.table(ranks);
}

function charts(f, ranks) {
  const load = ranks.has("tokens_in") ? "tokens_in" : "received_bytes";
  const { kind, title } = ranks.byName.get(load);
  const all = means(ranks, load);
  const labels = [...new Set(all.map((m) => m.layer))];
  const rankNumbers = [...new Set(all.map((m) => m.rank))].sort(names.compare);
  const of = (label) => all.filter((m) => m.layer === label);
  const hasLoad = ranks.has(load);
  f.heading("Expert time by layer: shortest, mean and longest rank");
  addChart(f.body, () => {
    const times = labels.map((label) => of(label).map((m) => m.time));
    const [low, high] = [times.map((t) => Math.min(...t)), times.map((t) => Math.max(...t))];
    const mean = times.map((t) => t.reduce((s, v) => s + v, 0) / t.length);
    const told = (i) => `<b>${plain(labels[i])}</b><br>${ns(low[i])} to ${ns(high[i])}, mean ${ns(mean[i])}`;
    const at = labels.map((label) => plain(label));
    const range = {
      type: "bar", name: "shortest to longest rank", x: at, base: low.map((v) => v / 1e6),
      y: high.map((v, i) => (v - low[i]) / 1e6), marker: { color: kinds()[0], opacity: 0.5 },
      hovertext: at.map((_, i) => told(i)), hovertemplate: HOVER, hoverinfo: "text",
    };
    const point = (i) => ({ x: at[i], y: mean[i] / 1e6, size: 12, hover: told(i) });
    const middle = marks("mean", 2, labels.map((_, i) => point(i)), { symbol: "line-ew-open", color: colour("ink") });
    const dot = (m) => ({
      x: plain(m.layer), y: m.load, size: 7,
      hover: `<b>rank ${plain(m.rank)}, ${plain(m.layer)}</b><br>${title} ${shown(kind, m.load)}`,
    });
    const loads = hasLoad ? [{ ...marks(title, 1, all.map(dot)), yaxis: "y2" }] : [];
    return {
      data: [range, middle, ...loads], height: 360,
      layout: {
        showlegend: true, xaxis: { type: "category" },
        yaxis: { title: { text: "expert time, ms" }, rangemode: "tozero" },
        yaxis2: {
          title: { text: title }, overlaying: "y", side: "right", rangemode: "tozero", showgrid: false,
          tickmode: "auto", tickformat: "~s", ticksuffix: kind === "bytes" ? "B" : "",
        },
      },
      says: `Bars of ${plural(labels.length, "layer")}: expert time of the shortest to the longest rank; ${title}`,
    };
  });
  if (rankNumbers.length < 2) return;
  f.heading("Expert time by rank and layer");
  addChart(f.body, () => {
    const cells = all.map((m) => {
      const loaded = hasLoad ? `<br>${title} ${shown(kind, m.load)}` : "";
      const head = `<b>rank ${plain(m.rank)}, ${plain(m.layer)}</b><br>expert time ${ns(m.time)}`;
      return [m.rank, m.layer, m.time, `${head}<br>= ${exact("ns", Math.round(m.time))}${loaded}`];
    });
    const says = `Heat map of ${rankNumbers.length} ranks by ${labels.length} layers: expert time`;
    return heatMap({
      rows: rankNumbers, columns: labels, cells, key: "late", title: "expert time", unit: "ns", low: 0,
      xTitle: "layer", yTitle: "rank", says,
    });
  });
}
