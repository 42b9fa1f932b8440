// The verdict: causes with what they cost, what to do, and their evidence; what ranks cost by host.

import { addChart, heatMap, rowLabel } from "page/chart.js";
import { baseline, run } from "page/data.js";
import { make, makeButton, note } from "page/dom.js";
import { exact, listOf, ns, percent, plural, short } from "page/format.js";
import { tablesShown, whenBuilt } from "page/section.js";
import { rowsQuery, sentence } from "page/source.js";
import { hasPlace, showCause } from "page/timeline/section.js";

/** Causes that are shown before the reader asks for more. */
const FIRST = 5;

/** What each rank costs the others, by host and place. */
function placeMap(f, grid) {
  f.heading("What ranks cost the others, by host and place on it");
  const rows = grid.distinct("host");
  const columns = grid.distinct("place").sort((a, b) => a - b);
  const hover = (row) => rowLabel(grid, row, `rank ${row("rank")}`, ["host", "place", "cost_ns"]);
  addChart(f.body, () => heatMap({
    rows, columns, cells: grid.list().map((row) => [row("host"), row("place"), row("cost_ns"), hover(row)]),
    key: "late", title: "cost", unit: "ns", xTitle: "local rank", yTitle: "host",
    says: `Heat map of ${rows.length} hosts by ${columns.length} local ranks: `
      + "waiting of others that each rank is charged with",
  }));
}

/** What is folded is made when it is opened: by then the page knows all of its tables. */
function details(content) {
  const element = make("details", {}, make("summary", {}, "evidence"));
  element.addEventListener("toggle", () => {
    if (element.open && element.childElementCount === 1) element.append(content());
  });
  return element;
}

export function findingsSection(f) {
  const { verdict, findings: grid, evidence, places } = f.grids;
  const { account } = run.grids("breakdown");
  const windows = account?.of("windows")[0] || 1;
  const old = baseline?.grids("findings").findings;
  const before = new Map(old?.list().map((row) => [row("finding_id"), row("recoverable_pct")]));
  const was = (id) => (before.get(id) === null ? "was -" : `was ${percent(before.get(id) / 100)}`);
  const versus = (id) => baseline && (before.has(id)
    ? make("span", {}, was(id)) : make("span", { class: "severity-lost" }, "new"));
  // the page opens with it, or with that of the comparison
  if (baseline && verdict.rows) {
    const lines = verdict.of("text").map((line) => make("p", {}, ...sentence(line)));
    f.body.append(make("div", { class: "verdict" }, ...lines));
  }
  const list = make("ol", { class: "findings" });

  function evidenceOf(of) {
    const ranks = new Set(listOf(of("ranks")).map(Number));
    return (row) => {
      const table = row("evidence_table");
      const open = tablesShown.get(table)?.open;
      const show = () => open(ranks, short(of("rank_label") || "", 40));
      return make("li", {}, ...sentence(row("words")), " ", make("code", {}, table), open ? " " : null,
        open ? makeButton("show me", show, { class: "show-me" }) : null, rowsQuery(table, row("filter")));
    };
  }

  function marksOf(of) {
    const mark = (text, attributes = {}) => make("span", attributes, text);
    return make("div", { class: "marks" },
      of("rank_label") ? mark(short(of("rank_label"), 60)) : null,
      of("step_labels") ? mark(`step ${short(of("step_labels"), 40)}`) : null,
      mark(of("certainty"), { title: of("reason") || grid.byName.get("certainty").doc,
        class: ["sure", "likely"].includes(of("certainty")) ? "" : "severity-lost" }),
      mark(of("kind"), { class: "mono" }), versus(of("finding_id")));
  }

  function item(of, i) {
    const mine = evidence.list().filter((row) => row("finding_id") === of("finding_id"));
    const [saved, share] = [of("recoverable_ns"), of("recoverable_pct")];
    const per = account?.byName.get("dur_ns")?.title === "a step" ? " a step" : "";
    const cost = make("div", { class: "cost", title: exact("ns", saved) },
      make("b", {}, saved ? `saves ${ns(saved / windows)}${per}` : "no time"),
      make("span", {}, !saved ? "is surely saved" : share === null ? "" : `${percent(share / 100)} of the time`));
    const attributes = { class: "show-place", "data-cause": i, hidden: "" };
    const shows = makeButton("show me on the timeline", () => showCause(i), attributes);
    whenBuilt.push(() => { shows.hidden = !hasPlace(i); });
    const line = (what, text, kind = what) =>
      (text ? make("p", { class: `line ${kind}` }, make("b", {}, what), ...sentence(text)) : null);
    return make("li", { id: `cause-${i + 1}` },
      make("div", { class: "sentence" }, make("div", { class: "cause" }, ...sentence(of("sentence"))),
        line("because", mine.length ? mine[0]("words") : null), line("where", of("place"), "place"),
        line("do", of("action")),
        of("reason") === null ? null : note(of("reason")),
        shows, mine.length ? details(() => make("ul", {}, ...mine.map(evidenceOf(of)))) : null),
      cost, marksOf(of));
  }

  const show = (from, until) => list.append(...grid.list().slice(from, until).map((of, k) => item(of, from + k)));
  show(0, FIRST);
  f.body.append(grid.rows ? list : note("No cause gives 1 % of the time."));
  if (grid.rows > FIRST) {
    const more = makeButton(`Show ${plural(grid.rows - FIRST, "more cause")}`, () => {
      show(FIRST, grid.rows);
      more.remove();
      whenBuilt.splice(0).forEach((act) => act());
    });
    f.body.append(more);
  }
  f.table(grid);
  if (places) placeMap(f, places);
}
