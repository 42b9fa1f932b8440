// The section of a page with a baseline: figures of both runs beside each other. It is there only with `--against`.

import { points, signedBy } from "page/change.js";
import { addChart, HOVER, nameBars } from "page/chart.js";
import { derivedGrid, run } from "page/data.js";
import { make, note, numberCell, tableOf } from "page/dom.js";
import { axisUnit, count, exact, ns, nsExactly, percent, plain, short, shown } from "page/format.js";
import { TOP } from "page/section.js";
import { sentence } from "page/source.js";
import { captionOf } from "page/table.js";
import { colour, partMarker, PARTS } from "page/theme.js";

/** Whether a difference that is more than noise, and can be seen in what is written, is an improvement, in a word. */
function judged(better, delta, share, surety) {
  if (surety !== "more than noise" || !better || Math.abs(share) < 0.0005) return null;
  return (better === "less") === (delta < 0) ? "better" : "worse";
}

/** A figure of both runs as a line of a table. */
function figure(row) {
  const [unit, delta, ratio, surety] = [row("unit"), row("delta"), row("delta_ratio"), row("surety")];
  const value = (v) => numberCell(v === null ? "–" : shown(unit, v), exact(unit, v));
  const isShare = unit === "ratio";
  const verdict = judged(row("better"), delta, isShare ? delta : ratio, surety);
  const told = [surety === "same" ? "" : surety, verdict].filter((w) => w).join(", ");
  const by = delta === null ? "" : delta === 0 ? "same" : isShare ? points(delta) : signedBy(unit, delta);
  const share = ratio === null || delta === 0 || isShare ? null : make("span", {}, ` (${signedBy("ratio", ratio)})`);
  return make("tr", { class: row("group") ? "part" : null },
    make("th", { scope: "row" }, row("name")),
    value(row("base")), value(row("this")),
    make("td", { class: "number-cell change", title: exact(unit, delta) || null },
      make("span", {}, by), share,
      told ? make("span", { class: verdict ? `surety ${verdict}` : "surety" }, told) : null));
}

/** Figures of both runs as a table: one line a figure, what it is a part of above it. */
function figures(where, grid, title) {
  const right = { class: "number-cell" };
  const heads = [[""], ["before", right], ["after", right], ["difference", right]];
  const table = tableOf(captionOf(grid, title), heads, grid.list().map(figure));
  where.append(make("div", { class: "figures", tabindex: "0", role: "region", "aria-label": title }, table));
}

/** Both runs: folder, version, ranks, devices. */
function bothRuns(where, runs) {
  const list = make("dl", { class: "runs" });
  for (const row of runs.list()) {
    const version = row("version") && `hta ${row("version")}`;
    const ranks = row("rank_list") && `ranks ${short(row("rank_list"), 60)}`;
    const about = [version, ranks, short(row("devices"), 120)].filter((text) => text);
    const folder = make("code", {}, row("folder"));
    const run = row("run") === "baseline" ? "before" : "after";
    list.append(make("dt", {}, run), make("dd", {}, folder, ...about.map((text) => ` · ${text}`)));
  }
  where.append(list);
}

/** The parts of a figure that is told apart by them, in the order of the page. */
const isPart = (row) => PARTS.some(([, name]) => name === row("name"));

/**
 * The step of both runs as two bars of one scale: before, and after. Its parts are those of the verdict, or where a run
 * has no account of its time those of the breakdown.
 */
export function stepBars(where) {
  const { account, parts } = run.grids("compare");
  const figures = [account, parts].find((grid) => grid?.has("this") && grid.has("base"));
  if (!figures) return;
  const [whole] = figures.list();
  const kept = figures.list().filter((row) => isPart(row) && !(account === figures && row("group")));
  const column = (row) => [row("name"), row("name"), "ns", "", [row("base"), row("this")]];
  const runs = ["run", "run", "text", "", ["before", "after"]];
  const total = ["whole", whole("name"), "ns", "", [whole("base"), whole("this")]];
  const both = derivedGrid(figures.table, [runs, total, ...kept.map(column)]);
  const keyOf = (row) => PARTS.find(([, name]) => name === row("name"))?.[2] ?? "communication";
  addChart(where, () => {
    const bars = nameBars(both, both.list(), {
      name: (row) => `${row("run")}, ${ns(row("whole"))}`, hover: ["whole", ...kept.map((row) => row("name"))],
      series: kept.map((part) => ({
        name: part("name"), marker: partMarker(keyOf(part)), value: (row) => row(part("name")),
      })),
      label: whole("name"),
      says: `Bars of what a step consists of: before ${ns(whole("base"))}, after ${ns(whole("this"))}`,
    });
    return { ...bars, height: bars.height + 20 };
  });
}

/** Lengths of the steps of both runs, in their order. */
function stepLines(where, steps) {
  addChart(where, () => {
    const runs = [
      ["this", "this run", "ink", "circle", "solid"], ["base", "baseline", "soft", "diamond-open", "dot"],
    ];
    const [unit, size] = axisUnit(runs.flatMap(([run]) => steps.of(`${run}_ns`)));
    const data = runs.map(([run, name, key, symbol, dash]) => {
      const rows = steps.list().filter((row) => row(`${run}_ns`) !== null);
      const hover = (row) => [
        `<b>${name}, step ${plain(row(`${run}_step`))}</b>`, nsExactly(row(`${run}_ns`)),
        ...(row(`${run}_partial`) ? ["partial: counts in no mean"] : []),
      ].join("<br>");
      return {
        type: "scatter", mode: "lines+markers", name,
        x: rows.map((row) => row("place") + 1), y: rows.map((row) => row(`${run}_ns`) / size),
        line: { color: colour(key), dash, width: 2 }, marker: { color: colour(key), symbol, size: 8 },
        hovertext: rows.map(hover), hovertemplate: HOVER,
      };
    });
    const ticks = steps.rows <= 30 ? { dtick: 1 } : {};
    return {
      data, height: 300,
      layout: {
        xaxis: { title: { text: "step, in order" }, zeroline: false, ...ticks },
        yaxis: { title: { text: unit }, rangemode: "tozero" }, showlegend: true,
      },
      says: `Lines of the lengths of ${steps.rows} steps, this run and the baseline`,
    };
  });
}

/** The largest changes of GPU time by name, to the right where this run takes longer. */
function changeBars(where, grid, name) {
  const rows = grid.list().filter((row) => row("delta_ns")).slice(0, TOP);
  if (!rows.length) {
    where.append(note("None takes another time than in the baseline."));
    return;
  }
  const keep = (sign) => (row) => (Math.sign(row("delta_ns")) === sign ? row("delta_ns") : null);
  const told = `the largest is ${signedBy("ns", rows[0]("delta_ns"))}`;
  addChart(where, () => {
    const bars = nameBars(grid, rows, {
      name: (row) => row(name),
      series: [
        { name: "more time than the baseline", value: keep(1), colour: colour("bad") },
        { name: "less", value: keep(-1), colour: colour("good") },
      ],
      hover: ["name", "base_ns", "this_ns", "delta_ns", "base_count", "this_count", "surety"],
      label: "difference per step",
      says: `Bars of the difference of GPU time per step for ${rows.length} names; ${told}`,
    });
    const xaxis = { ...bars.layout.xaxis, rangemode: "normal", zeroline: true };
    return { ...bars, height: bars.height + 24, layout: { ...bars.layout, xaxis, showlegend: true } };
  });
}

const STATES = [
  ["new", "New causes", "only in this run"], ["gone", "Causes that are gone", "only in the baseline"],
  ["changed", "Causes that give more or less", ""], ["same", "The same causes", ""],
];

/** Causes by what became of them; those that are the same are folded. */
function causeLists(where, grid) {
  const share = (v) => (v === null ? "–" : percent(v));
  const item = (of) => {
    const change = of("state") === "changed" ? `: ${points(of("delta_ratio"))}` : "";
    const gain = `gain now ${share(of("this_ratio"))}, before ${share(of("base_ratio"))}${change}`;
    return make("li", {}, make("div", { class: "sentence" }, ...sentence(of("sentence"))),
      make("div", { class: "marks" }, make("span", {}, gain), make("span", {}, short(of("rank_label"), 60)),
        make("span", { class: "mono" }, of("kind"))));
  };
  for (const [state, title, what] of STATES) {
    const rows = grid.list().filter((row) => row("state") === state);
    if (!rows.length) continue;
    const list = make("ul", { class: "causes" }, ...rows.map(item));
    const heading = `${title} (${count(rows.length)})`;
    if (state === "same") where.append(make("details", {}, make("summary", {}, heading), list));
    else where.append(make("h4", { class: state }, heading, what ? make("span", {}, ` ${what}`) : null), list);
  }
}

export function compareSection(f) {
  const { runs, refusals, warnings, about, parts, steps, causes } = f.grids;
  bothRuns(f.body, runs);
  const list = (grid, kind, title) => {
    if (!grid) return;
    const lines = grid.of("text").map((text) => make("li", {}, text));
    f.body.append(make("div", { class: kind, role: "note" }, make("p", {}, title), make("ul", {}, ...lines)));
  };
  list(refusals, "refusal", "The runs are different work, so their figures do not say that one is faster:");
  list(warnings, "warning", "Part of a difference may not come from the program:");
  if (parts) {
    figures(f.body, parts, `what the ${parts.of("name")[0]} consists of, mean over ranks`);
  }
  const notes = about ? about.of("text") : [];
  if (notes.length) {
    f.body.append(note(`${notes.join("; ")}.`));
  }
  if (steps && steps.rows > 1) {
    f.heading("Steps");
    stepLines(f.body, steps);
    f.table(steps, "steps of both runs");
  }
  if (causes) {
    f.heading("Causes gone and new");
    causeLists(f.body, causes);
  }
  const addFigures = (name, title, caption) => {
    if (!f.grids[name]) return;
    f.heading(title);
    figures(f.body, f.grids[name], caption);
  };
  const addChanges = (name, title, column) => {
    if (!f.grids[name]) return;
    f.heading(title);
    changeBars(f.body, f.grids[name], column);
    f.table(f.grids[name], `${title}, per step, mean over ranks`);
  };
  addFigures("account", "Account of time", "mean of a step of a device");
  addFigures("efficiency", "Efficiency", "efficiency and its factors");
  addChanges("categories", "GPU time by what kernels do", "name");
  addChanges("kernels", "GPU time by kernel", "short");
  addFigures("serving", "Iterations", "iterations by phase and batch: median period, and what it consists of");
  addFigures("memory", "Memory", "peaks of memory, of the device with most");
  addFigures("totals", "What was recorded", "totals of both runs");
}
