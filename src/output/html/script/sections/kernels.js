// Kernels by name and by what they do, and sequences of them that repeat.

function kernelsSection(f) {
  const { kernels: grid, categories } = f.grids;
  addChart(f.body, () => {
    const rows = categories.of("category").map((_, i) => i);
    const all = rows.reduce((s, i) => s + categories.of("sum_ns")[i], 0);
    const tint = (c) => (c === "communication" ? colour("communication") : c.startsWith("mem") ? colour("memory") : colour("compute"));
    const bars = nameBars(categories.of("category"), [{ name: "time", values: categories.of("sum_ns"), colours: categories.of("category").map(tint) }], {
      label: "time over all ranks, by what kernels do",
      hovers: (i) => { const v = categories.of("sum_ns")[i]; return `<b>${plain(categories.of("category")[i])}</b><br>${ns(v)} (${all ? percent(v / all) : ""}) = ${exact("ns", v)}<br>${plural(categories.of("count")[i], "kernel, copy or set", "kernels, copies and sets")}`; },
    });
    return { ...bars, says: `Bars of ${rows.length} categories of kernels by time` };
  });
  const classes = { compute: "compute", communication: "communication", memory: "memory" };
  const state = { of: "" };
  addSelect(f.controls(), "Class", [["", "all"], ...Object.keys(classes).map((c) => [c, c])], (v) => { state.of = v; chart.render(); });
  const chart = addChart(f.body, () => {
    const rows = grid.of("name").map((_, i) => i).filter((i) => !state.of || grid.of("class")[i] === state.of);
    rows.sort((a, b) => grid.of("sum_ns")[b] - grid.of("sum_ns")[a] || a - b);
    rows.splice(TOP);
    const bars = nameBars(rows.map((i) => grid.of("short")[i]), Object.entries(classes).map(([name, key]) => ({
      name, colour: colour(key), values: rows.map((i) => (grid.of("class")[i] === name ? grid.of("sum_ns")[i] : null)),
    })), {
      label: "time over all ranks",
      hovers: (k) => { const i = rows[k]; const of = (c) => grid.of(c)[i]; return `<b>${inLines(of("name"))}</b><br>${plain(of("class"))}: ${ns(of("sum_ns"))} = ${exact("ns", of("sum_ns"))}<br>${count(of("count"))} times on ${plural(of("ranks"), "rank")}, ${ns(of("sum_ns") / of("count"))} on average<br>from ${ns(of("min_ns"))} to ${ns(of("max_ns"))}; most on rank ${of("most_rank")}: ${ns(of("most_ns"))}`; },
    });
    return { ...bars, says: `Bars of the ${rows.length} kernels with most time` };
  });
  f.table(withShare(categories, "sum_ns"), "categories");
  f.table(withShare(grid, "sum_ns"), "kernels");
}

function patternsSection(f) {
  const grid = f.grids.sequences;
  addChart(f.body, () => {
    const rows = grid.of("names").slice(0, 12).map((_, i) => i);
    const held = (i) => grid.of("gap_ns")[i] - grid.of("idle_ns")[i];
    const series = [["GPU time", "compute", (i) => grid.of("gpu_ns")[i]], ["other streams run", null, held], ["device idle", "idle", (i) => grid.of("idle_ns")[i]]];
    const bars = nameBars(rows.map((i) => `${grid.of("length")[i]} kernels × ${count(grid.of("count")[i])}: ${grid.of("names")[i]}`),
      series.map(([name, key, value]) => ({ name, colour: key ? colour(key) : kinds()[1], values: rows.map(value) })), {
        label: "time over all ranks",
        hovers: (k, s) => { const i = rows[k]; return `<b>${series[s][0]} ${ns(series[s][2](i))}</b> = ${exact("ns", series[s][2](i))}<br>${grid.of("length")[i]} activities, ${count(grid.of("count")[i])} times on ${plural(grid.of("ranks")[i], "rank")}<br>${inLines(grid.of("names")[i], 72, 8)}`; },
      });
    return { ...bars, says: `Bars of the ${rows.length} kernel sequences with most GPU time` };
  });
  f.table(grid, "sequences");
}
