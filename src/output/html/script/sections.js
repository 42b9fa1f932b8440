// What each section of the page shows. A section has grids of data; its charts and its tables are of the same grids.

/** What each rank costs the others, by host and place. */
function placeMap(f, grid) {
  f.heading("What ranks cost the others, by host and place on it");
  addChart(f.body, () => {
    const hosts = [...new Set(grid.of("host"))];
    const places = [...new Set(grid.of("place"))].sort((a, b) => a - b);
    const [row, column] = [new Map(hosts.map((h, i) => [h, i])), new Map(places.map((p, i) => [p, i]))];
    const values = hosts.map(() => places.map(() => null));
    const hovers = hosts.map(() => places.map(() => ""));
    grid.of("cost_ns").forEach((v, i) => {
      const [y, x] = [row.get(grid.of("host")[i]), column.get(grid.of("place")[i])];
      values[y][x] = v;
      hovers[y][x] = `<b>rank ${grid.of("rank")[i]}</b>: ${plain(grid.of("host")[i])}, local rank ${grid.of("place")[i]}<br>cost ${ns(v)} = ${exact("ns", v)}`;
    });
    const scale = [[0, colour("low")], [1, colour("late")]];
    const chart = heatMap({ rows: hosts, columns: places.map(String), values, hovers, scale, title: "cost", unit: "ns", xTitle: "local rank", yTitle: "host" });
    return { ...chart, says: `Heat map of ${hosts.length} hosts by ${places.length} local ranks: waiting of others that each rank is charged with` };
  });
}

const sections = {
  timeline: timelineSection,

  flame: flameSection,

  compare: compareSection,

  iterations(f) {
    const grid = f.grids.iterations;
    const of = (c) => grid.of(c);
    const [xUnit, xSize] = axisUnit(of("start_ns"));
    const [yUnit, ySize] = axisUnit(of("dur_ns"));
    const ranks = [...new Set(of("rank"))];
    const state = { rank: ranks[0] };
    if (ranks.length > 1) addSelect(f.controls(), "Rank", ranks.map((r) => [String(r), String(r)]), (v) => { state.rank = Number(v); chart.render(); });
    const phases = [...new Set(of("phase"))].sort(names.compare);
    const chart = addChart(f.body, () => {
      const rows = of("rank").map((_, i) => i).filter((i) => of("rank")[i] === state.rank);
      const hover = (i) => `<b>iteration ${of("step")[i]}: ${plain(of("label")[i] || of("phase")[i])}</b><br>${ns(of("dur_ns")[i])} = ${exact("ns", of("dur_ns")[i])}, busy ${ns(of("busy_ns")[i])}${of("slow")[i] ? "<br>slow for its phase and batch" : ""}`;
      const data = phases.map((phase, k) => {
        const mine = rows.filter((i) => of("phase")[i] === phase);
        return { type: "scatter", mode: "markers", name: plain(phase), x: mine.map((i) => of("start_ns")[i] / xSize), y: mine.map((i) => of("dur_ns")[i] / ySize), marker: { color: kinds()[k % 10], symbol: SYMBOLS[k % 10], size: mine.map((i) => (of("slow")[i] ? 12 : 8)), line: { width: mine.map((i) => (of("slow")[i] ? 2 : 0)), color: colour("late") } }, hovertext: mine.map(hover), hovertemplate: "%{hovertext}<extra></extra>" };
      });
      return { data, height: 320, layout: { xaxis: { title: { text: `time, ${xUnit}` }, showgrid: false }, yaxis: { title: { text: `length, ${yUnit}` }, rangemode: "tozero" }, showlegend: true, hovermode: "closest" }, says: `Iterations of rank ${state.rank} over time by phase: ${phases.map((p) => `${rows.filter((i) => of("phase")[i] === p).length} ${p}`).join(", ")}` };
    }, (point) => chooseStep(`@${of("step")[of("rank").map((_, i) => i).filter((i) => of("rank")[i] === state.rank && of("phase")[i] === phases[point.curveNumber])[point.pointNumber]]}`));
    f.table(grid, "iterations");
  },

  findings(f, data) {
    const { verdict, findings: grid, evidence, places } = f.grids;
    const old = data.other ? data.other.grids("findings").findings : null;
    const before = new Map((old ? old.of("id") : []).map((id, i) => [id, old.of("recoverable_pct")[i]]));
    const versus = (id) => (data.other === null ? null : make("span", { class: before.has(id) ? null : "severity-loss" }, before.has(id) ? `was ${before.get(id) === null ? "-" : percent(before.get(id))}` : "new"));
    // made when it is opened: by then the page knows all of its tables
    const details = (content) => {
      const element = make("details", {}, make("summary", {}, "evidence"));
      element.addEventListener("toggle", () => { if (element.open && element.childElementCount === 1) element.append(content()); });
      return element;
    };
    const lines = verdict ? verdict.of("text") : [];
    if (lines.length) f.body.append(make("div", { class: "verdict" }, ...lines.map((line) => make("p", {}, ...sentence(line)))));
    const list = make("ol", { class: "findings" });
    const item = (i) => {
      const of = (name) => grid.of(name)[i];
      const ranks = new Set((of("ranks") || "").split(",").filter((r) => r !== "").map(Number));
      const line = (k) => {
        const [table, words] = [evidence.of("evidence_table")[k], evidence.of("words")[k]];
        const show = make("button", { type: "button", class: "show-me" }, "show me");
        show.addEventListener("click", () => showTable(table, ranks, short(of("rank_label") || "", 40)));
        const filter = evidence.of("filter")[k];
        return make("li", {}, ...sentence(words), " ", make("code", {}, table), tablesShown.has(table) ? " " : null, tablesShown.has(table) ? show : null, commandLine(rowsCommand(table, filter)));
      };
      const mine = evidence.of("finding").map((_, k) => k).filter((k) => evidence.of("finding")[k] === i);
      const marks = make("div", { class: "marks" },
        of("rank_label") !== null ? make("span", {}, short(of("rank_label"), 60)) : null,
        of("step_labels") !== null ? make("span", {}, `step ${short(of("step_labels"), 40)}`) : null,
        make("span", { title: grid.doc("confidence") }, `confidence ${of("confidence")}`),
        of("trust") !== "ok" ? make("span", { class: "severity-loss", title: of("trust_reason") || "" }, of("trust")) : null,
        make("span", { class: "mono" }, of("kind")), versus(of("id")));
      const gain = of("recoverable_ns");
      const cost = make("div", { class: "cost", title: exact("ns", gain) },
        make("b", {}, of("recoverable_pct") === null ? "-" : percent(of("recoverable_pct"))), make("span", {}, "gain of its repair"));
      const shows = make("button", { type: "button", class: "show-place", "data-cause": i, hidden: "" }, "show me on the timeline");
      shows.addEventListener("click", () => showCause(i));
      whenBuilt.push(() => { shows.hidden = !hasPlace(i); });
      return make("li", { id: `cause-${i + 1}` },
        make("div", { class: "sentence" }, ...sentence(of("sentence")),
          of("action") !== null ? make("p", { class: "action" }, make("b", {}, "do: "), ...sentence(of("action"))) : null,
          of("trust_reason") !== null ? make("p", { class: "note" }, of("trust_reason")) : null,
          shows, mine.length ? details(() => make("ul", {}, ...mine.map(line))) : null),
        cost, marks);
    };
    const first = 5;
    for (let i = 0; i < Math.min(first, grid.rows); i++) list.append(item(i));
    f.body.append(grid.rows ? list : make("p", { class: "note" }, "No cause gives 1 % of the time."));
    if (grid.rows > first) {
      const more = make("button", { type: "button" }, `Show ${plural(grid.rows - first, "more cause")}`);
      more.addEventListener("click", () => {
        for (let i = first; i < grid.rows; i++) list.append(item(i));
        more.remove();
        whenBuilt.splice(0).forEach((f) => f());
      });
      f.body.append(more);
    }
    if (places) placeMap(f, places);
    if (grid.rows) f.table(grid, "causes");
    f.table(places, "cost of ranks by host");
  },

  health(f) {
    const { problems, refused } = f.grids;
    const severities = problems.of("severity");
    const lost = severities.filter((s) => s === "loss" || s === "fatal").length;
    const repaired = severities.filter((s) => s === "repair").length;
    const serious = lost + repaired;
    const words = [];
    if (lost) words.push(`${plural(lost, "kind")} of loss.`);
    if (repaired) words.push(`${plural(repaired, "kind")} of repair.`);
    if (!serious) words.push("Nothing was lost or repaired.");
    if (problems.rows > serious) words.push(`${plural(problems.rows - serious, "kind")} of harmless oddities.`);
    if (refused.rows) words.push(`${plural(refused.rows + (refused.rest ? refused.rest.rows : 0), "file was", "files were")} not analysed.`);
    f.body.append(make("p", { class: lost || refused.of("severity").includes("fatal") ? "severity-loss" : "note" }, words.join(" ")));
    if (serious) f.body.append(makeTable(problems, "problems by kind"));
    else f.table(problems, "problems by kind");
    if (refused.rows) f.body.append(makeTable(refused, "files that were not analysed"));
  },

  breakdown(f) {
    const sums = f.grids.lanes;
    const lanes = perWindow(sums);
    const state = { by: lanes.rows > WORST ? "without_compute" : "rank", all: false, lane: "", step: null };
    const partsOf = (columns) => PARTS.map(([, name, key], k) => ({ name, values: columns[k], colour: colour(key) }));
    f.heading(lanes.rows > 1 ? "By rank: mean of a step" : "A step on average");
    const orders = [["rank", "by rank"], ["without_compute", "least compute first"], ["exposed_communication_ns", "most exposed communication first"], ["idle_ns", "most idle first"], ["dur_ns", "longest first"]];
    if (state.by !== "rank") orders.push(orders.shift());
    laneControls(f, lanes, orders, state, () => byRank.render());
    const ofStep = make("p", { class: "note", hidden: "" });
    f.body.append(ofStep);
    const byRank = addChart(f.body, () => {
      const single = state.step !== null && f.grids.cells ? onlyRows(f.grids.cells, (i) => f.grids.cells.of("step")[i] === state.step) : null;
      const from = single && single.rows > 0 ? single : lanes;
      const { labels, values } = chosenLanes(from, [...PARTS.map((p) => p[0]), "dur_ns"], state.by, state.all);
      const chart = stackedBars(labels, partsOf(values), { xTitle: "rank", whole: values[4] });
      return { ...chart, says: `Stacked bars of ${labels.length} ranks: compute, exposed communication, exposed memory and idle time ${from === lanes ? "per step" : `in step ${state.step}`}` };
    });
    const follow = (label) => {
      state.step = label;
      const known = label !== null && f.grids.cells && f.grids.cells.of("step").includes(label);
      const back = make("button", { type: "button" }, "mean of all steps");
      back.addEventListener("click", () => follow(null));
      ofStep.replaceChildren(`Step ${label} alone: `, back);
      ofStep.hidden = !known;
      byRank.render();
    };
    stepFollowers.push([byRank, follow]);
    f.table(lanes, "mean of a step by rank");
    f.table(sums, "sums by rank");
    const { steps, cells } = f.grids;
    if (!steps) return;
    f.heading("By step");
    const means = perWindow(steps);
    const laneKey = laneName(cells, hasSeveralDevices(lanes));
    const keys = [...new Set(cells.of("rank").map((_, i) => laneKey(i)))];
    if (lanes.rows > 1) {
      const row = f.controls();
      addSelect(row, "Rank", [["", "mean of all"], ...keys.map((k) => [k, k])], (v) => { state.lane = v; byStep.render(); });
    }
    const byStep = addChart(f.body, () => {
      const rows = state.lane === "" ? null : cells.of("rank").map((_, i) => i).filter((i) => laneKey(i) === state.lane);
      const from = (c) => (rows ? rows.map((i) => cells.of(c)[i]) : means.of(c));
      const partial = rows ? rows.map((i) => cells.of("is_partial")[i]) : [];
      const labels = from("step").map((s, i) => (partial[i] ? `${s} (partial)` : s));
      const chart = stackedBars(labels, partsOf(PARTS.map((p) => from(p[0]))), { xTitle: "step", whole: from("dur_ns") });
      return { ...chart, says: `Stacked bars of ${labels.length} steps: compute, exposed communication, exposed memory and idle time` };
    }, (point) => {
      // all charts follow the step that is clicked
      const rows = state.lane === "" ? null : cells.of("rank").map((_, i) => i).filter((i) => laneKey(i) === state.lane);
      const label = rows ? cells.of("step")[rows[point.pointNumber]] : means.of("step")[point.pointNumber];
      chooseStep(String(label), null);
    });
    f.body.append(make("p", { class: "note" }, "Click a step: the bars by rank and the timeline follow."));
    f.table(means, "mean over ranks by step");
    f.table(cells, "single steps of ranks");
  },

  stragglers(f, data) {
    const { delays, verdicts, causes } = f.grids;
    const lengths = data.lengths;
    const metrics = [];
    if (delays) {
      for (const name of ["gain_ns", "excess_ns", "imposed_wait_ns", "wait_ns"]) {
        const column = delays.columns.find((c) => c.name === name);
        metrics.push([name, column.title, delays]);
      }
    }
    // one step alone is in the breakdown
    if (lengths && (delays || new Set(lengths.of("steps")).size > 1)) metrics.push(["dur_ns", "length of the step", lengths]);
    if (metrics.length === 0) return;
    let chosen = metrics[0];
    let shownStep = null;
    let axisSteps = [];
    addSelect(f.controls(), "Show", metrics.map((m) => [m[0], m[1]]), (v) => { chosen = metrics.find((m) => m[0] === v); map.render(); });
    const map = addChart(f.body, () => {
      const [name, title, grid] = chosen;
      const rows = [...new Set(grid.of("ranks"))].sort(names.compare);
      const steps = [...new Set(grid.of("steps"))].sort(names.compare);
      axisSteps = steps;
      const [row, column] = [new Map(rows.map((r, i) => [r, i])), new Map(steps.map((s, i) => [s, i]))];
      const values = rows.map(() => steps.map(() => null));
      const hovers = rows.map(() => steps.map(() => ""));
      const counts = grid.of("count");
      // the first value is coloured by the largest in the place, the others by their mean there
      const isFirst = name === "gain_ns" || name === "dur_ns";
      grid.of("ranks").forEach((r, i) => {
        const [y, x] = [row.get(r), column.get(grid.of("steps")[i])];
        const value = isFirst ? grid.of("most_ns")[i] : grid.of(name)[i] / counts[i];
        values[y][x] = value;
        const joined = counts[i] > 1 ? `<br>${isFirst ? `the largest of ${counts[i]}, on rank ${grid.of("most_rank")[i]}` : `mean of ${counts[i]}`}` : "";
        hovers[y][x] = `<b>rank ${plain(r)}, step ${plain(grid.of("steps")[i])}</b><br>${title} ${ns(value)}<br>= ${exact("ns", value)}${joined}`;
      });
      const scale = [[0, colour("low")], [1, colour("late")]];
      const low = name === "dur_ns" ? Math.min(...values.flat().filter((v) => v !== null)) : 0;
      const chart = heatMap({ rows, columns: steps, values, hovers, scale, title, unit: "ns", low, xTitle: "step", yTitle: "rank" });
      const at = steps.indexOf(shownStep);
      if (at >= 0) chart.layout.shapes = [{ type: "rect", x0: at - 0.5, x1: at + 0.5, y0: -0.5, y1: rows.length - 0.5, line: { color: colour("ink"), width: 2 } }];
      return { ...chart, says: `Heat map of ${rows.length} ranks by ${steps.length} steps: ${title}` };
    }, (point) => chooseStep(axisSteps[point.x], null));
    stepFollowers.push([map, (label) => { shownStep = label; map.render(); }]);
    for (const n of lengths && !delays ? lengths.notes : []) f.body.append(make("p", { class: "note" }, n));
    f.table(verdicts, "ranks that make the others wait");
    f.table(causes, "why they are late");
    f.table(delays, "delay by rank and step");
    f.table(lengths, "length of the step by rank and step");
  },

  collectives(f) {
    const { sizes, groups } = f.grids;
    const state = { by: "kind" };
    addSelect(f.controls(), "Colour", [["kind", "by kind"], ["process_group", "by group"], ["dtype", "by element type"]], (v) => { state.by = v; scatter.render(); });
    const scatter = addChart(f.body, () => {
      const of = (c) => sizes.of(c);
      const at = of("size_bytes").map((_, i) => i).filter((i) => of("size_bytes")[i] > 0 && of("bus_bw_gb_per_s")[i] > 0);
      const most = Math.max(1, ...at.map((i) => of("dur_sum_ns")[i]));
      const groupOf = (i) => of(state.by)[i] || "unknown";
      const all = [...new Set(at.map(groupOf))].sort(names.compare);
      const hover = (i) => `<b>${plain(of("kind")[i])}, ${bytes(of("size_bytes")[i])}</b> (${exact("bytes", of("size_bytes")[i])})<br>bus ${shown("gb_per_s", of("bus_bw_gb_per_s")[i])} GB/s, algorithm ${shown("gb_per_s", of("alg_bw_gb_per_s")[i])} GB/s<br>transfer ${ns(of("transfer_p50_ns")[i])} (median), ${plural(of("count")[i], "collective")}<br>time ${ns(of("dur_sum_ns")[i])}, of that waiting ${ns(of("wait_sum_ns")[i])}<br>${inLines(of("process_group")[i] || "", 60, 3)}`;
      const data = all.map((name, k) => {
        const rows = at.filter((i) => groupOf(i) === name);
        return {
          type: "scatter", mode: "markers", name: plain(short(name, 40)),
          x: rows.map((i) => of("size_bytes")[i]), y: rows.map((i) => of("bus_bw_gb_per_s")[i]),
          marker: { color: kinds()[k % 10], symbol: SYMBOLS[k % 10], size: rows.map((i) => 7 + 15 * Math.sqrt(of("dur_sum_ns")[i] / most)), opacity: 0.85, line: { width: 1, color: colour("panel") } },
          hovertext: rows.map(hover), hovertemplate: "%{hovertext}<extra></extra>",
        };
      });
      const tick = (v, show) => show(Number(v.toPrecision(3))).replace(/\.0+(?= |$)/, "").replace(/(\.\d*?)0+(?= |$)/, "$1");
      const axis = (column, title, show) => (at.length === 0 ? {} : { ...decades(at.map((i) => of(column)[i]), (v) => tick(v, show)), title: { text: title } });
      return {
        data, height: 400,
        layout: {
          xaxis: axis("size_bytes", "size", bytes),
          yaxis: axis("bus_bw_gb_per_s", "bus bandwidth, GB/s", (v) => String(v)),
          showlegend: true, hovermode: "closest",
        },
        says: `Scatter plot of bus bandwidth against size for ${at.length} sizes of collectives`,
      };
    });
    f.table(sizes, "collectives by kind and size");
    f.table(groups, "how calls were matched");
  },

  idle(f) {
    const sums = f.grids.lanes;
    const lanes = perWindow(sums);
    const skip = new Set(["rank", "device", "windows", "idle_ns"]);
    const columns = lanes.columns.filter((c) => !skip.has(c.name) && c.cells.some((v) => v));
    const state = { by: lanes.rows > WORST ? "idle_ns" : "rank", all: false };
    const orders = [["rank", "by rank"], ["idle_ns", "most idle first"], ...columns.map((c) => [c.name, `most ${c.title} first`])];
    if (state.by !== "rank") orders.push(orders.shift());
    f.heading(lanes.rows > 1 ? "By rank: mean of a step" : "A step on average");
    laneControls(f, lanes, orders, state, () => chart.render());
    const chart = addChart(f.body, () => {
      const { labels, values } = chosenLanes(lanes, [...columns.map((c) => c.name), "idle_ns"], state.by, state.all);
      const palette = kinds();
      const parts = columns.map((c, k) => ({ name: c.title, values: values[k], colour: c.name === "untracked" ? colour("idle") : palette[k % 10] }));
      const bars = stackedBars(labels, parts, { xTitle: "rank", whole: values[columns.length], wholeName: "idle" });
      return { ...bars, says: `Stacked bars of ${labels.length} ranks: idle time per step by cause` };
    });
    const host = f.grids.host;
    if (host.rows > 0) {
      f.heading("What the host did while devices waited for it");
      addChart(f.body, () => {
        const rows = host.of("name").slice(0, TOP).map((_, i) => i);
        const all = [...new Set(host.of("activity"))];
        const bars = nameBars(rows.map((i) => `${host.of("name")[i] || host.of("activity")[i]}`), [{
          name: "host wait", values: rows.map((i) => host.of("time_ns")[i]),
          colours: rows.map((i) => { const k = columns.findIndex((c) => c.name === host.of("activity")[i]); return k < 0 || host.of("activity")[i] === "untracked" ? colour("idle") : kinds()[k % 10]; }),
        }], {
          label: "host wait over all ranks",
          hovers: (k) => { const i = rows[k]; return `<b>${inLines(host.of("name")[i] || "")}</b><br>${plain(host.of("activity")[i])}: ${ns(host.of("time_ns")[i])} = ${exact("ns", host.of("time_ns")[i])}<br>${plural(host.of("gap_count")[i], "gap")} on ${plural(host.of("ranks")[i], "rank")}, most on rank ${host.of("most_rank")[i]}`; },
        });
        return { ...bars, says: `Bars of the ${rows.length} host activities with most waiting, of ${all.length} kinds` };
      });
    }
    f.table(lanes, "mean of a step by rank");
    f.table(sums, "sums by rank");
    f.table(host, "host activities");
  },

  kernels(f) {
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
  },

  patterns(f) {
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
  },

  utilization(f) {
    const { stretches, map } = f.grids;
    const starts = stretches.of("start_ns");
    const [unit, size] = axisUnit(starts);
    const many = map && new Set(map.of("ranks")).size > 1;
    addChart(f.body, () => {
      const x = starts.map((v) => v / size);
      const line = (name, column, key, dash) => ({
        type: "scatter", mode: "lines", name, x, y: stretches.of(column).map((v) => (v === null ? null : 100 * v)), connectgaps: false,
        line: { color: key, width: 2, dash, shape: "hv" },
        hovertext: starts.map((s, i) => `from ${ns(s)}<br>${name} ${stretches.of(column)[i] === null ? "" : percent(stretches.of(column)[i])}`),
        hovertemplate: "%{hovertext}<extra></extra>",
      });
      const data = [];
      if (many) {
        data.push({ ...line("busiest device", "highest", colour("idle"), "solid"), line: { color: colour("idle"), width: 1, shape: "hv" } });
        data.push({ ...line("least busy device", "lowest", colour("idle"), "solid"), line: { color: colour("idle"), width: 1, shape: "hv" }, fill: "tonexty", fillcolor: `${colour("idle")}44` });
      }
      data.push(line(many ? "utilization, mean" : "utilization", "mean", colour("compute"), "solid"));
      for (const [name, column, key, dash] of [["SM efficiency", "sm_efficiency", kinds()[0], "dot"], ["occupancy", "occupancy", kinds()[6], "dashdot"]]) {
        if (stretches.of(column).some((v) => v !== null)) data.push(line(name, column, key, dash));
      }
      return { data, height: 300, layout: { xaxis: { title: { text: `time, ${unit}` }, showgrid: false }, yaxis: { range: [0, 103], title: { text: "%" } }, showlegend: true, hovermode: "closest" }, says: "Lines of GPU utilization over time" };
    });
    if (map) {
      f.heading("By rank");
      addChart(f.body, () => {
        const rows = [...new Set(map.of("ranks"))].sort(names.compare);
        const [row, column] = [new Map(rows.map((r, i) => [r, i])), new Map(starts.map((s, i) => [s, i]))];
        const values = rows.map(() => starts.map(() => null));
        const hovers = rows.map(() => starts.map(() => ""));
        map.of("ranks").forEach((r, i) => {
          const start = map.of("start_ns")[i];
          if (!column.has(start)) return;
          values[row.get(r)][column.get(start)] = 100 * map.of("utilization")[i];
          hovers[row.get(r)][column.get(start)] = `<b>rank ${plain(r)}</b>, from ${ns(start)}<br>utilization ${percent(map.of("utilization")[i])}`;
        });
        const scale = [[0, colour("low")], [1, colour("compute")]];
        const chart = heatMap({ rows, columns: starts.map((s) => String(Number((s / size).toPrecision(3)))), values, hovers, scale, title: "utilization", unit: "%", xTitle: `time, ${unit}`, yTitle: "rank" });
        return { ...chart, says: `Heat map of GPU utilization of ${rows.length} ranks over time` };
      });
    }
    f.table(stretches, "utilization over time");
    f.table(map, "utilization by rank");
  },

  "critical-path"(f) {
    const { classes, names: tops } = f.grids;
    const windows = [...new Set(classes.of("window"))].sort(names.compare);
    const state = { window: windows[0] };
    if (windows.length === 1) f.body.append(make("p", { class: "note" }, `Window: ${windows[0]}.`));
    else addSelect(f.controls(), "Window", windows.map((w) => [w, w]), (v) => { state.window = v; chart.render(); });
    const chart = addChart(f.body, () => {
      const rows = classes.of("class").map((_, i) => i).filter((i) => classes.of("window")[i] === state.window && classes.of("time_ns")[i] > 0);
      const all = rows.reduce((s, i) => s + classes.of("time_ns")[i], 0);
      const groups = [["compute on the GPU", colour("compute"), /^gpu_compute/], ["communication", colour("communication"), /communication/], ["memory on the GPU", colour("memory"), /^gpu_memory/], ["host", kinds()[2], /^host_/], ["launching, waiting, rest", colour("idle"), /./]];
      const groupOf = (i) => groups.findIndex((g) => g[2].test(classes.of("class")[i]));
      const bars = nameBars(rows.map((i) => classes.of("class")[i].replace(/_/g, " ")), groups.map(([name, tint], g) => ({ name, colour: tint, values: rows.map((i) => (groupOf(i) === g ? classes.of("time_ns")[i] : null)) })), {
        label: "time on the path over all ranks",
        hovers: (k) => { const i = rows[k]; const v = classes.of("time_ns")[i]; return `<b>${plain(classes.of("class")[i])}</b><br>${ns(v)} (${all ? percent(v / all) : ""} of the path) = ${exact("ns", v)}<br>work ${ns(classes.of("work_ns")[i])}, waiting and overhead ${ns(classes.of("overhead_ns")[i])}<br>${plural(classes.of("count")[i], "segment")} on ${plural(classes.of("ranks")[i], "rank")}`; },
      });
      return { ...bars, says: `Bars of ${rows.length} classes of the critical path` };
    });
    f.table(classes, "the path by class");
    f.table(tops, "names with most of the path");
  },

  memory(f) {
    const { curve, content, steps, peaks } = f.grids;
    const starts = curve.of("start_ns");
    const [unit, size] = axisUnit(starts);
    const begins = steps.of("start_ns");
    // the stretch of a chosen step; null: all
    let shownStep = null;
    const stretch = () => {
      const at = steps.of("step").findIndex((s) => shownStep !== null && String(s) === shownStep.replace(/^@/, ""));
      return at < 0 || begins[at] === null ? null : [begins[at], begins[at + 1] ?? starts[starts.length - 1]];
    };
    const overTime = addChart(f.body, () => {
      const x = starts.map((v) => v / size);
      const most = Math.max(1, ...curve.of("highest_bytes"), ...curve.of("reserved_bytes").map((v) => v || 0));
      const [name, by] = most < 1e6 ? ["kB", 1e3] : most < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
      const line = (label, column, key, more) => ({
        type: "scatter", mode: "lines", name: label, x, y: curve.of(column).map((v) => (v === null ? null : v / by)), connectgaps: false,
        line: { color: key, width: 2, shape: "hv" },
        hovertext: starts.map((s, i) => `from ${ns(s)}<br>${label} ${curve.of(column)[i] === null ? "" : `${bytes(curve.of(column)[i])} = ${exact("bytes", curve.of(column)[i])}`}`),
        hovertemplate: "%{hovertext}<extra></extra>", ...more,
      });
      const data = [
        line("lowest", "lowest_bytes", colour("idle"), { line: { color: colour("idle"), width: 1, shape: "hv" } }),
        line("allocated", "highest_bytes", colour("memory"), { fill: "tonexty", fillcolor: `${colour("memory")}33` }),
      ];
      if (curve.of("reserved_bytes").some((v) => v)) data.push(line("reserved", "reserved_bytes", kinds()[0], { line: { color: kinds()[0], width: 1.5, dash: "dot", shape: "hv" } }));
      const [at, peak] = [peaks.of("at_ns")[0], peaks.of("peak_bytes")[0]];
      data.push({ type: "scatter", mode: "markers", name: "peak", x: [at / size], y: [peak / by], marker: { color: colour("late"), size: 10, symbol: "diamond" }, hovertext: [`<b>peak ${bytes(peak)}</b> = ${exact("bytes", peak)}<br>at ${ns(at)}, ${plain(peaks.of("phase")[0] || "")}<br>${plain(peaks.of("trigger")[0] || "")}`], hovertemplate: "%{hovertext}<extra></extra>" });
      const shapes = begins.length > 60 ? [] : begins.filter((v) => v !== null).map((v) => ({ type: "line", xref: "x", yref: "paper", x0: v / size, x1: v / size, y0: 0, y1: 1, line: { color: colour("line"), width: 1, dash: "dash" } }));
      const only = stretch();
      const range = only && only[1] > only[0] ? { range: only.map((v) => v / size) } : { autorange: true };
      return { data, height: 320, layout: { xaxis: { title: { text: only ? `time, ${unit} (step ${shownStep}; double click for all)` : `time, ${unit}` }, showgrid: false, ...range }, yaxis: { title: { text: name }, rangemode: "tozero" }, shapes, showlegend: true, hovermode: "closest" }, says: `Line of allocated memory over time with its peak of ${bytes(peak)} and the starts of ${steps.rows} steps` };
    });
    stepFollowers.push([overTime, (label) => { shownStep = label; overTime.render(); }]);
    if (content.rows > 0) {
      f.heading("What holds the peak");
      const all = [...new Set(content.of("kind"))];
      const state = { by: all.includes("op") ? "op" : all[0] };
      const words = { op: "operator", line: "line", module: "module", phase: "phase" };
      addSelect(f.controls(), "By", [state.by, ...all.filter((k) => k !== state.by)].map((k) => [k, words[k] || k]), (v) => { state.by = v; chart.render(); });
      const chart = addChart(f.body, () => {
        const rows = content.of("kind").map((_, i) => i).filter((i) => content.of("kind")[i] === state.by).slice(0, TOP);
        const peak = peaks.of("peak_bytes")[0];
        const [name, by] = peak < 1e6 ? ["kB", 1e3] : peak < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
        const bars = nameBars(rows.map((i) => content.of("holder")[i]), [{ name: "bytes", values: rows.map((i) => content.of("bytes")[i] / by), colours: rows.map((i) => (content.of("holder")[i].startsWith("[") ? colour("idle") : colour("memory"))) }], {
          unit: "", label: `held at the peak, ${name}`,
          hovers: (k) => { const i = rows[k]; const v = content.of("bytes")[i]; return `<b>${inLines(content.of("holder")[i])}</b><br>${bytes(v)} (${peak ? percent(v / peak) : ""}) = ${exact("bytes", v)}${content.of("count")[i] === null ? "" : `<br>${plural(content.of("count")[i], "allocation")}`}`; },
        });
        return { ...bars, says: `Bars of the ${rows.length} largest holders of the peak by ${words[state.by] || state.by}` };
      });
    } else f.body.append(make("p", { class: "note" }, "What holds the peak is not known: the file has no addresses or no totals."));
    f.table(peaks, "peaks by rank and device");
    f.table(content, "holders of the peak");
    f.table(steps, "memory by step");
    f.table(curve, "memory over time");
  },

  ops(f) {
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
  },

  lines(f) {
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
  },

  "what-if"(f) {
    const grid = f.grids.repairs;
    addChart(f.body, () => {
      const rows = largestFirst(grid.of("gain_ns")).slice(0, 15);
      const scopes = ["all", "rank", "step", "cause"];
      const bars = nameBars(rows.map((i) => (grid.of("what")[i] === grid.of("scope")[i] ? grid.of("what")[i] : `${grid.of("scope")[i]} ${grid.of("what")[i]}`)), [{
        name: "gain", values: rows.map((i) => grid.of("gain_ns")[i]), colours: rows.map((i) => kinds()[Math.max(0, scopes.indexOf(grid.of("scope")[i]))]),
      }], {
        label: "gain per step",
        hovers: (k) => { const i = rows[k]; return `<b>${inLines(`${grid.of("scope")[i]}: ${grid.of("what")[i]}`)}</b><br>gives ${ns(grid.of("gain_ns")[i])} a step = ${exact("ns", grid.of("gain_ns")[i])}${grid.of("gain_pct")[i] === null ? "" : ` (${percent(grid.of("gain_pct")[i])})`}`; },
      });
      return { ...bars, says: `Bars of the ${rows.length} repairs that give most` };
    });
    f.table(grid, "repairs");
  },

  ranks(f) {
    f.body.append(makeTable(f.grids.ranks, "ranks"));
  },
};
