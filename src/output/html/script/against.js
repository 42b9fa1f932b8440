// The section of a page with a baseline: figures of both runs beside each other. It is there only with `--against`.

import { points, signedBy } from "page/change.js";
import { addChart, nameBars } from "page/chart.js";
import { axisUnit, count, exact, inLines, make, ns, percent, plain, short, shown } from "page/format.js";
import { PARTS, TOP } from "page/section.js";
import { sentence } from "page/source.js";
import { captionOf } from "page/table.js";
import { colour } from "page/theme.js";

/** Whether a difference that is more than noise, and can be seen in what is written, is an improvement, in a word. */
function judged(better, delta, share, surety) {
  if (surety !== "more than noise" || !better || Math.abs(share) < 0.0005) return null;
  return (better === "less") === (delta < 0) ? "better" : "worse";
}

/** Figures of both runs as a table: one line a figure, what it is a part of above it. */
function figures(where, grid, title) {
  if (!grid) return;
  const of = (name, i) => grid.of(name)[i];
  const unit = (i) => of("unit", i);
  const value = (name, i) => {
    const v = of(name, i);
    return make("td", { class: "number-cell", title: exact(unit(i), v) || null }, v === null ? "–" : shown(unit(i), v));
  };
  const row = (i) => {
    const [delta, ratio, surety] = [of("delta", i), of("delta_ratio", i), of("surety", i)];
    const isShare = unit(i) === "ratio";
    const verdict = judged(of("better", i), delta, isShare ? delta : ratio, surety);
    const words = [surety === "same" ? "" : surety, verdict].filter((w) => w).join(", ");
    const change = delta === null || delta === 0 ? (delta === 0 ? "same" : "") : isShare ? points(delta) : signedBy(unit(i), delta);
    const share = ratio === null || delta === 0 || isShare ? "" : ` (${signedBy("ratio", ratio)})`;
    return make("tr", { class: of("group", i) ? "part" : null },
      make("th", { scope: "row" }, of("name", i)),
      value("this", i), value("base", i),
      make("td", { class: "number-cell change", title: delta === null ? null : exact(unit(i), delta) || null },
        make("span", {}, change), share ? make("span", {}, share) : null,
        words ? make("span", { class: verdict ? `surety ${verdict}` : "surety" }, words) : null));
  };
  const rows = Array.from({ length: grid.rows }, (_, i) => row(i));
  const heads = [["", null], ["this run", "number-cell"], ["baseline", "number-cell"], ["difference", "number-cell"]];
  const table = make("table", {}, make("caption", {}, ...captionOf(grid, title)),
    make("thead", {}, make("tr", {}, ...heads.map(([text, kind]) => make("th", { scope: "col", class: kind }, text)))),
    make("tbody", {}, ...rows));
  where.append(make("div", { class: "figures", tabindex: "0", role: "region", "aria-label": title }, table));
}

/** Both runs: folder, version, ranks, devices. */
function bothRuns(where, runs) {
  const of = (name, i) => runs.of(name)[i];
  const list = make("dl", { class: "runs" });
  for (let i = 0; i < runs.rows; i++) {
    const about = [of("version", i) && `hta ${of("version", i)}`, of("rank_list", i) && `ranks ${short(of("rank_list", i), 60)}`, short(of("devices", i), 120)];
    list.append(make("dt", {}, of("run", i)), make("dd", {}, make("code", {}, of("folder", i)), ["", ...about].filter((t, k) => t || k === 0).join(" · ")));
  }
  where.append(list);
}

/** The step before and after, as one sentence. */
function headline(parts) {
  const of = (name) => parts.of(name)[0];
  const [delta, ratio, surety] = [of("delta"), of("delta_ratio"), of("surety")];
  const name = of("name");
  if (delta === 0) return `The ${name} is the same: ${ns(of("this"))}.`;
  const how = delta > 0 ? "longer" : "shorter";
  const told = surety === "more than noise" ? "this is more than the noise of the steps" : surety === "within noise" ? "this is within the noise of the steps" : surety;
  return `The ${name} is ${ns(Math.abs(delta))}${ratio === null ? "" : ` (${percent(Math.abs(ratio))})`} ${how} than the baseline's: ${ns(of("base"))} before, ${ns(of("this"))} now; ${told}.`;
}

/** The parts of the step of both runs, as bars of one scale. */
function partBars(where, parts) {
  const row = new Map(parts.of("name").map((name, i) => [name, i]));
  const values = (name) => ["this", "base"].map((run) => parts.of(run)[row.get(name)]);
  addChart(where, () => {
    const whole = values(parts.of("name")[0]);
    const series = PARTS.map(([, name, key]) => ({ name, values: values(name), colour: colour(key) }));
    const runs = ["this run", "baseline"];
    const hovers = (i, k) => `<b>${runs[i]}</b><br>${series[k].name} ${ns(series[k].values[i])}${whole[i] ? ` (${percent(series[k].values[i] / whole[i])})` : ""}<br>= ${exact("ns", series[k].values[i])}`;
    const bars = nameBars(runs, series, { label: parts.of("name")[0], hovers });
    return { ...bars, height: bars.height + 30, says: `Bars of what the step consists of: ${runs.map((run, i) => `${run} ${ns(whole[i])}`).join(", ")}` };
  });
}

/** Lengths of the steps of both runs, in their order. */
function stepLines(where, steps) {
  addChart(where, () => {
    const runs = [["this", "this run", "ink", "circle", "solid"], ["base", "baseline", "soft", "diamond-open", "dot"]];
    const all = runs.flatMap(([run]) => steps.of(`${run}_ns`)).filter((v) => v !== null);
    const [unit, size] = axisUnit(all);
    const data = runs.map(([run, name, key, symbol, dash]) => {
      const rows = steps.of(`${run}_ns`).map((_, i) => i).filter((i) => steps.of(`${run}_ns`)[i] !== null);
      const partial = (i) => steps.of(`${run}_partial`)[i];
      return {
        type: "scatter", mode: "lines+markers", name,
        x: rows.map((i) => steps.of("place")[i] + 1), y: rows.map((i) => steps.of(`${run}_ns`)[i] / size),
        line: { color: colour(key), dash, width: 2 }, marker: { color: colour(key), symbol, size: 8 },
        hovertext: rows.map((i) => `<b>${name}, step ${plain(steps.of(`${run}_step`)[i])}</b><br>${ns(steps.of(`${run}_ns`)[i])} = ${exact("ns", steps.of(`${run}_ns`)[i])}${partial(i) ? "<br>partial: counts in no mean" : ""}`),
        hovertemplate: "%{hovertext}<extra></extra>",
      };
    });
    return {
      data, height: 300,
      layout: { xaxis: { title: { text: "step, in order" }, zeroline: false, ...(steps.rows <= 30 ? { dtick: 1 } : {}) }, yaxis: { title: { text: unit }, rangemode: "tozero" }, showlegend: true, hovermode: "closest" },
      says: `Lines of the lengths of ${steps.rows} steps, this run and the baseline`,
    };
  });
}

/** The largest changes of GPU time by name, to the right where this run takes longer. */
function changeBars(where, grid, name) {
  const rows = grid.of("delta_ns").map((_, i) => i).filter((i) => grid.of("delta_ns")[i]).slice(0, TOP);
  if (!rows.length) {
    where.append(make("p", { class: "note" }, "None takes another time than in the baseline."));
    return;
  }
  addChart(where, () => {
    const delta = (i) => grid.of("delta_ns")[rows[i]];
    const keep = (sign) => rows.map((_, i) => (Math.sign(delta(i)) === sign ? delta(i) : null));
    const hovers = (i) => {
      const of = (column) => grid.of(column)[rows[i]];
      return `<b>${inLines(of("name"))}</b><br>${ns(of("base_ns"))} before, ${ns(of("this_ns"))} now: ${signedBy("ns", of("delta_ns"))}<br>${shown("number", of("base_count"))} calls before, ${shown("number", of("this_count"))} now${of("surety") ? `<br>${plain(of("surety"))}` : ""}`;
    };
    const series = [{ name: "more time than the baseline", values: keep(1), colour: colour("bad") }, { name: "less", values: keep(-1), colour: colour("good") }];
    const bars = nameBars(rows.map((i) => grid.of(name)[i]), series, { label: "difference per step", hovers });
    bars.layout.xaxis = { ...bars.layout.xaxis, rangemode: "normal", zeroline: true };
    bars.layout.showlegend = true;
    return { ...bars, height: bars.height + 24, says: `Bars of the difference of GPU time per step for ${rows.length} names; the largest is ${signedBy("ns", delta(0))}` };
  });
}

const STATES = [["new", "New causes", "only in this run"], ["gone", "Causes that are gone", "only in the baseline"], ["changed", "Causes that give more or less", ""], ["same", "The same causes", ""]];

/** Causes by what became of them; those that are the same are folded. */
function causeLists(where, grid) {
  for (const [state, title, what] of STATES) {
    const rows = grid.of("state").map((_, i) => i).filter((i) => grid.of("state")[i] === state);
    if (!rows.length) continue;
    const item = (i) => {
      const of = (name) => grid.of(name)[i];
      const share = (v) => (v === null ? "–" : percent(v));
      const change = state === "changed" ? `: ${points(of("delta_ratio"))}` : "";
      return make("li", {}, make("div", { class: "sentence" }, ...sentence(of("sentence"))),
        make("div", { class: "marks" }, make("span", {}, `gain now ${share(of("this_ratio"))}, before ${share(of("base_ratio"))}${change}`),
          make("span", {}, short(of("rank_label"), 60)), make("span", { class: "mono" }, of("kind"))));
    };
    const list = make("ul", { class: "causes" }, ...rows.map(item));
    const heading = `${title} (${count(rows.length)})`;
    if (state === "same") where.append(make("details", {}, make("summary", {}, heading), list));
    else where.append(make("h4", { class: state }, heading, what ? make("span", {}, ` ${what}`) : null), list);
  }
}

export function compareSection(f) {
  const { runs, refusals, warnings, about, totals, parts, steps, kernels, categories, causes, account, efficiency, memory, serving } = f.grids;
  bothRuns(f.body, runs);
  const list = (grid, kind, title) => {
    if (grid) f.body.append(make("div", { class: kind, role: "note" }, make("p", {}, title), make("ul", {}, ...grid.of("text").map((t) => make("li", {}, t)))));
  };
  list(refusals, "refusal", "The runs are different work, so their figures do not say that one is faster:");
  list(warnings, "warning", "Part of a difference may not come from the program:");
  if (parts) {
    f.body.append(make("p", { class: "headline" }, headline(parts)));
    partBars(f.body, parts);
    figures(f.body, parts, `what the ${parts.of("name")[0]} consists of, mean over ranks`);
  }
  const notes = about ? about.of("text") : [];
  if (notes.length) f.body.append(make("p", { class: "note" }, `${notes.join("; ")}. As in hta diff, the baseline is base, or before; this run is test, or after.`));
  if (steps && steps.rows > 1) {
    f.heading("Steps");
    stepLines(f.body, steps);
    f.table(steps, "steps of both runs");
  }
  if (causes) {
    f.heading("Causes gone and new");
    causeLists(f.body, causes);
  }
  const tables = [["Account of time", account, "mean of a step of a device"], ["Efficiency", efficiency, "efficiency and its factors"], ["Iterations", serving, "iterations by phase and batch: median period, and what it consists of"], ["Memory", memory, "peaks of memory, of the device with most"], ["What was recorded", totals, "totals of both runs"]];
  const [first, last] = [tables.slice(0, 2), tables.slice(2)];
  const add = ([title, grid, caption]) => {
    if (!grid) return;
    f.heading(title);
    figures(f.body, grid, caption);
  };
  first.forEach(add);
  for (const [title, grid, name] of [["GPU time by what kernels do", categories, "name"], ["GPU time by kernel", kernels, "short"]]) {
    if (!grid) continue;
    f.heading(title);
    changeBars(f.body, grid, name);
    f.table(grid, `${title}, per step, mean over ranks`);
  }
  last.forEach(add);
}
