// The roofline: operations per byte against rate, below the roofs of the devices.

import { addChart, marks, rowLabel } from "page/chart.js";
import { note } from "page/dom.js";
import { percent, plain, plural, shown } from "page/format.js";
import { colour, isNarrow } from "page/theme.js";

/** The roofs of the devices by product and number type: peak in TFLOP/s, bandwidth in TB/s. */
export function roofsOf(mfu) {
  const roofs = new Map();
  for (const row of mfu ? mfu.list() : []) {
    const [peak, band] = [row("peak_tflops_per_s"), row("peak_tb_per_s")];
    if (peak && band) roofs.set(`${row("device_name")}, ${row("number")}`, [peak, band]);
  }
  return roofs;
}

/** What limits something and how near it is, in percent of what is attainable, in words. */
export function roofWords(pct, roof) {
  if (!roof || roof.startsWith("cannot tell")) return roof || "";
  const limit = roof === "latency" ? "too short for either roof (latency)" : `${roof} roof`;
  // more than a device can do: the work is less than the shapes tell, as with a stride that was not recorded
  const over = pct > 105 ? ", so its operations are overestimated" : "";
  return `${pct === null ? "" : `${percent(pct / 100)} of attainable${over}, `}${limit}`;
}

/** A row as a point: operations per byte, TFLOP/s, and the time of a column; `told`: the columns of its label. */
export const roofPoint = (grid, column, told) => (row) => ({
  x: row("flops_per_byte"), y: row("tflops_per_s"), ns: row(column), hover: rowLabel(grid, row, row("name"), told),
});

/** The chart of points, in groups by name; the larger the mark, the more time. */
export function rooflineChart(where, groups, roofs, what) {
  const all = [...groups.values()].flat();
  const most = Math.max(...all.map((p) => p.ns));
  const [least, largest] = [Math.min(...all.map((p) => p.x)) / 2, Math.max(...all.map((p) => p.x)) * 2];
  addChart(where, () => {
    const only = groups.size === 1 ? { color: colour("compute") } : {};
    const sized = (points) => points.map((p) => ({ ...p, size: 7 + 23 * Math.sqrt(p.ns / most) }));
    const shapes = [...groups].map(([name, points], k) => marks(name, k, sized(points), { opacity: 0.8, ...only }));
    const lines = [...roofs].map(([name, [peak, band]], k) => {
      const ridge = peak / band;
      const x = [Math.min(least, ridge / 2), ridge, Math.max(largest, 2 * ridge)];
      const told = `${shown("number", peak)} TFLOP/s, ${shown("number", band)} TB/s`;
      return {
        type: "scatter", mode: "lines", name: plain(name), x, y: x.map((v) => Math.min(peak, v * band)),
        line: { color: colour("ink"), width: 1.5, dash: ["solid", "dash", "dot", "dashdot"][k % 4] },
        hovertemplate: `${plain(name)}: ${told}; the roofs meet at ${shown("number", ridge)} FLOP/byte<extra></extra>`,
      };
    });
    const axis = (text) => ({ type: "log", dtick: 1, exponentformat: "none", title: { text } });
    const data = [...lines, ...shapes];
    const roofsTold = `with the roofs of ${lines.length || "no"} known devices`;
    return {
      data,
      layout: { xaxis: axis("FLOP/byte"), yaxis: axis("TFLOP/s"), showlegend: data.length > 1 },
      height: 380 + (isNarrow() ? 18 * data.length : 0),
      says: `Roofline: ${plural(all.length, what)} by operations per byte and rate, ${roofsTold}`,
    };
  });
  if (roofs.size === 0) {
    where.append(note("No roofs: the peak rates of this device are not known; --peaks takes them from a file."));
  }
}
