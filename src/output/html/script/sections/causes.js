// The verdict: causes with what they cost, what to do, and their evidence; what ranks cost by host.

import { addChart, heatMap } from "page/chart.js";
import { commandLine, rowsCommand } from "page/command.js";
import { exact, make, ns, percent, plain, plural, short } from "page/format.js";
import { showTable, tablesShown, whenBuilt } from "page/section.js";
import { sentence } from "page/source.js";
import { colour } from "page/theme.js";
import { hasPlace, showCause } from "page/timeline/section.js";

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

export function findingsSection(f, data) {
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
}
