// The roofline: operations per byte against rate, below the roofs of the devices.

import { addChart } from "page/chart.js";
import { make, percent, plain, plural, shown } from "page/format.js";
import { colour, isNarrow, kinds, SYMBOLS } from "page/theme.js";

/** The roofs of the devices by product and number type: peak in TFLOP/s, bandwidth in TB/s. */
export function roofsOf(mfu) {
  const roofs = new Map();
  if (!mfu) return roofs;
  mfu.of("rank").forEach((_, i) => {
    const [peak, band] = [mfu.of("peak_tflops_per_s")[i], mfu.of("peak_tb_per_s")[i]];
    if (peak && band) roofs.set(`${mfu.of("device_name")[i]}, ${mfu.of("number")[i]}`, [peak, band]);
  });
  return roofs;
}

/** What limits something and how near it is, in words. */
export function roofWords(attainable, roof) {
  if (!roof || roof.startsWith("cannot tell")) return roof || "";
  const limit = roof === "latency" ? "too short for either roof (latency)" : `${roof} roof`;
  // more than a device can do: the work is less than the shapes tell, as with a stride that was not recorded
  const over = attainable > 1.05 ? ", so its operations are overestimated" : "";
  return `${attainable === null ? "" : `${percent(attainable)} of attainable${over}, `}${limit}`;
}

/**
 * The chart. `points`: groups by name of `{ x, y, ns, hover }`, operations per byte, TFLOP/s and time; the larger the mark,
 * the more time.
 */
export function rooflineChart(where, groups, roofs, what) {
  const all = [...groups.values()].flat();
  const most = Math.max(...all.map((p) => p.ns));
  const [least, largest] = [Math.min(...all.map((p) => p.x)) / 2, Math.max(...all.map((p) => p.x)) * 2];
  addChart(where, () => {
    const tints = groups.size === 1 ? [colour("compute")] : kinds();
    const marks = [...groups].map(([name, points], k) => ({
      type: "scatter", mode: "markers", name: plain(name), x: points.map((p) => p.x), y: points.map((p) => p.y),
      marker: { color: tints[k % 10], symbol: SYMBOLS[k % 10], size: points.map((p) => 7 + 23 * Math.sqrt(p.ns / most)), opacity: 0.8, line: { width: 1, color: colour("panel") } },
      hovertext: points.map((p) => p.hover), hovertemplate: "%{hovertext}<extra></extra>",
    }));
    const axis = { type: "log", dtick: 1, exponentformat: "none" };
    const dashes = ["solid", "dash", "dot", "dashdot"];
    const lines = [...roofs].map(([name, [peak, band]], k) => {
      const ridge = peak / band;
      const x = [Math.min(least, ridge / 2), ridge, Math.max(largest, 2 * ridge)];
      return { type: "scatter", mode: "lines", name: plain(name), x, y: x.map((v) => Math.min(peak, v * band)), line: { color: colour("ink"), width: 1.5, dash: dashes[k % 4] }, hovertemplate: `${plain(name)}: ${shown("number", peak)} TFLOP/s, ${shown("number", band)} TB/s; the roofs meet at ${shown("number", ridge)} FLOP/byte<extra></extra>` };
    });
    return {
      data: [...lines, ...marks],
      layout: { xaxis: { ...axis, title: { text: "FLOP/byte" } }, yaxis: { ...axis, title: { text: "TFLOP/s" } }, hovermode: "closest", showlegend: lines.length + marks.length > 1 },
      height: 380 + (isNarrow() ? 18 * (lines.length + marks.length) : 0),
      says: `Roofline: ${plural(all.length, what)} by operations per byte and rate, with the roofs of ${lines.length || "no"} known devices`,
    };
  });
  if (roofs.size === 0) where.append(make("p", { class: "note" }, "No roofs: the peak rates of this device are not known; --peaks takes them from a file."));
}
