// Operators, modules and lines of user code.

function opsSection(f) {
  const { operators, waits, roofline, mfu, modules, python } = f.grids;
  addChart(f.body, () => {
    const most = operators.of("gpu_self_ns").map((v, i) => Math.max(v, operators.of("host_self_ns")[i]));
    const rows = largestFirst(most).slice(0, 15);
    const hasGpu = operators.of("gpu_self_ns").some((v) => v > 0);
    const series = [["own GPU time", "compute", "gpu_self_ns"], ["own host time", "host", "host_self_ns"]].filter((s) => hasGpu || s[2] === "host_self_ns");
    const tint = (key) => (key === "host" ? kinds()[2] : colour(key));
    const bars = nameBars(rows.map((i) => operators.of("name")[i]), series.map(([name, key, column]) => ({ name, colour: tint(key), values: rows.map((i) => operators.of(column)[i]) })), {
      label: "own time over all ranks", stacked: false,
      hovers: (k, s) => { const i = rows[k]; const v = operators.of(series[s][2])[i]; return `<b>${inLines(operators.of("name")[i])}</b><br>${series[s][0]} ${ns(v)} = ${exact("ns", v)}<br>${plural(operators.of("count")[i], "call")} on ${plural(operators.of("ranks")[i], "rank")}`; },
    });
    return { ...bars, says: `Bars of the ${rows.length} operators with most own time` };
  });
  if (roofline.rows > 0) addChart(f.body, () => {
    const of = (c) => roofline.of(c);
    const rows = of("name").map((_, i) => i);
    const most = Math.max(...of("busy_ns"));
    const hover = (i) => `<b>${inLines(of("name")[i])}</b><br>${shown("number", of("tflops_per_s")[i])} TFLOP/s, ${shown("number", of("tb_per_s")[i])} TB/s${of("attainable")[i] === null ? "" : `: ${percent(of("attainable")[i])} of attainable, bound by ${plain(of("bound")[i])}`}<br>${shown("number", of("intensity")[i])} FLOP/byte<br>${ns(of("busy_ns")[i])} in ${plural(of("count")[i], "call")}`;
    const points = { type: "scatter", mode: "markers", name: "operators", x: of("intensity"), y: of("tflops_per_s"), marker: { color: colour("compute"), size: rows.map((i) => 6 + 24 * Math.sqrt(of("busy_ns")[i] / most)), opacity: 0.75 }, hovertext: rows.map(hover), hovertemplate: "%{hovertext}<extra></extra>" };
    // The roof of each product and number type: bandwidth up to the ridge, then the peak.
    const roofs = new Map();
    mfu.of("rank").forEach((_, i) => { const [peak, band] = [mfu.of("peak_tflops_per_s")[i], mfu.of("peak_tb_per_s")[i]]; if (peak && band) roofs.set(`${mfu.of("device_name")[i]}, ${mfu.of("number")[i]}`, [peak, band]); });
    const [least, largest] = [Math.min(...of("intensity")) / 2, Math.max(...of("intensity")) * 2];
    const lines = [...roofs].map(([name, [peak, band]], k) => { const x = [least, peak / band, Math.max(largest, (2 * peak) / band)]; return { type: "scatter", mode: "lines", name: plain(name), x, y: x.map((v) => Math.min(peak, v * band)), line: { color: kinds()[(k + 2) % kinds().length], width: 1.5 }, hovertemplate: `${plain(name)}: ${shown("number", peak)} TFLOP/s, ${shown("number", band)} TB/s<extra></extra>` }; });
    return { data: [...lines, points], layout: { xaxis: { type: "log", title: { text: "FLOP/byte" } }, yaxis: { type: "log", title: { text: "TFLOP/s" } }, hovermode: "closest", showlegend: lines.length > 0 }, height: 380, says: `Roofline: ${roofline.rows} operators by operations per byte and rate, with the roofs of ${lines.length || "no"} known devices` };
  });
  else f.body.append(make("p", { class: "note" }, "No roofline: operations and bytes follow from shapes (record_shapes=True)."));
  if (python.rows === 0) f.body.append(make("p", { class: "note" }, "No Python functions: the traces were recorded without stacks (with_stack=True), or the results were written with --no-events."));
  f.table(operators, "operators");
  f.table(waits, "calls that make host and GPU wait");
  f.table(roofline, "roofline");
  f.table(mfu, "utilization by device");
  f.table(modules, "modules as a tree");
  f.table(python, "Python functions");
}

function linesSection(f) {
  const { lines } = f.grids;
  addChart(f.body, () => {
    const rows = largestFirst(lines.of("self_ns").map((v, i) => (lines.of("thread")[i] === "idle" ? 0 : v))).slice(0, 15);
    const series = [["native", "host", "native_ns"], ["Python code", "python", "python_ns"]];
    const tints = { host: kinds()[2], python: kinds()[4] };
    const bars = nameBars(rows.map((i) => lines.of("name")[i]), series.map(([name, key, column]) => ({ name, colour: tints[key], values: rows.map((i) => lines.of(column)[i]) })), {
      label: "own time over all ranks",
      hovers: (k, s) => { const i = rows[k]; const v = lines.of(series[s][2])[i]; return `<b>${inLines(lines.of("name")[i])}</b><br>${series[s][0]} ${ns(v)} = ${exact("ns", v)}<br>GPU work ${ns(lines.of("gpu_ns")[i])}, backward ${ns(lines.of("bwd_gpu_ns")[i])}<br>${plural(lines.of("calls")[i], "call")} on ${plural(lines.of("ranks")[i], "rank")}`; },
    });
    return { ...bars, says: `Bars of the ${rows.length} source lines with most own time` };
  });
  f.table(lines, "lines of user code");
}
