// Puts the page together when it is opened.

import { compareSection, stepBars } from "page/against.js";
import { change, stepsOf } from "page/change.js";
import { renderAll, renderInTurn } from "page/chart.js";
import { baseline, data, meanOf, run, withUnmatched } from "page/data.js";
import { byId, make } from "page/dom.js";
import { flameSection } from "page/flame.js";
import { bytes, count, exact, ns, percent, plural, short } from "page/format.js";
import { makeMenu } from "page/menu.js";
import { frame, whenBuilt } from "page/section.js";
import { collectivesSection, stragglersSection, whatIfSection } from "page/sections/across.js";
import { breakdownSection, idleSection } from "page/sections/breakdown.js";
import { findingsSection } from "page/sections/causes.js";
import { kernelsSection, patternsSection } from "page/sections/kernels.js";
import { memorySection } from "page/sections/memory.js";
import { linesSection, modulesSection, opsSection } from "page/sections/operators.js";
import { expertsSection } from "page/sections/experts.js";
import { fabricSection } from "page/sections/fabric.js";
import { meshSection } from "page/sections/mesh.js";
import { pipelineSection } from "page/sections/pipeline.js";
import { healthSection } from "page/sections/recording.js";
import { rolesSection } from "page/sections/roles.js";
import { criticalPathSection, iterationsSection, utilizationSection } from "page/sections/time.js";
import { settings } from "page/settings.js";
import { resultsFolder, sentence } from "page/source.js";
import { partStyle, PARTS } from "page/theme.js";
import { timelineSection } from "page/timeline/section.js";

/** What shows a section with charts, which are of the same grids as its tables. Any other shows its grids as tables. */
const CHARTS = {
  findings: findingsSection, compare: compareSection, timeline: timelineSection, health: healthSection,
  iterations: iterationsSection, breakdown: breakdownSection, stragglers: stragglersSection,
  mesh: meshSection, pipeline: pipelineSection, experts: expertsSection, fabric: fabricSection, roles: rolesSection,
  collectives: collectivesSection, idle: idleSection,
  kernels: kernelsSection, patterns: patternsSection,
  utilization: utilizationSection, "critical-path": criticalPathSection, memory: memorySection, ops: opsSection,
  modules: modulesSection, flame: flameSection, lines: linesSection, "what-if": whatIfSection,
};

/** What was recorded, when, and by which program the page was made. */
function heading() {
  const s = run.set;
  const bold = (text) => make("b", {}, text);
  const devices = s.devices.length ? [", ", bold(short(s.devices.join(", "), 80))] : [];
  const isCapture = s.step_rules.length === 1 && s.step_rules[0] === "capture";
  byId("set").append(
    baseline ? "after: " : "", bold(plural(s.ranks, "rank")),
    s.world_size !== null && s.world_size !== s.ranks ? ` of ${count(s.world_size)}` : "",
    s.ranks ? ` (${short(s.rank_list, 60)})` : "",
    s.hosts > 1 ? ` on ${plural(s.hosts, "host")}` : "",
    ...devices,
    ` · ${stepsOf(s)}`,
    isCapture ? " (none marked: the whole capture counts as one)" : "",
    ` · ${plural(s.events, "event")}, ${bytes(s.json_bytes)} of JSON · ${ns(s.length_ns)} recorded`,
    s.energy ? ` · energy: ${s.energy}` : "");
  if (s.missing) {
    byId("set").append(" · ", make("span", { class: "severity-lost" }, `missing: ranks ${short(s.missing, 60)}`));
  }
  const began = s.began_ms === null ? "" : new Date(s.began_ms).toISOString().replace("T", " ").slice(0, 16);
  const job = [short(resultsFolder(), 60), began && `${began} UTC`].filter((of) => of).join(", ");
  const kind = baseline ? "comparison" : "report";
  byId("kind").textContent = kind;
  byId("job").textContent = baseline ? `${short(baseline.name, 30)} and ${short(resultsFolder(), 30)}` : job;
  document.title = [job, plural(s.ranks, "rank"), `hta ${kind}`].join(" · ");
}

function foot() {
  byId("version").textContent = data.hta_version;
  const names = plural(data.cut_texts, "name was", "names were");
  if (data.cut_texts) byId("cut").textContent = `${names} too long for this page and cut; the tables have them whole.`;
}

/** The verdict in the words of the text report: of the comparison, where there is another run. */
function verdict() {
  const { verdict: compared, refusals } = run.grids("compare");
  const told = compared ?? run.grids("findings").verdict;
  byId("verdict").append(...(told ? told.of("text") : []).map((line) => make("p", {}, ...sentence(line))));
  if (refusals) {
    const why = `The runs are different work: ${refusals.of("text").join("; ")}.`;
    byId("verdict").append(make("p", { class: "severity-lost" }, why));
  }
  if (baseline) stepBars(byId("verdict"));
}

/** The mean of a step, or of the span, and its parts. */
function tiles() {
  const lanesOf = (of) => {
    const { account, lanes } = of?.grids("breakdown") ?? {};
    return account ?? (lanes && withUnmatched(lanes));
  };
  const [lanes, before] = [lanesOf(run), lanesOf(baseline)];
  if (!lanes) return;
  const [mean, old] = [lanes, before].map((grid) => grid && meanOf(grid));
  const whole = mean("dur_ns");
  const was = (column) => {
    const text = [`was ${ns(old(column))}`, change(mean(column), old(column))].filter((t) => t).join(", ");
    return make("div", { class: "more", title: exact("ns", old(column)) }, text);
  };
  const tile = (label, column, more, key) => make("div", {
    class: "tile", role: "listitem", style: key && `--key: ${partStyle(key)}`, title: exact("ns", mean(column)),
  },
  make("div", { class: "label" }, label), make("div", { class: "number" }, ns(mean(column))),
  make("div", { class: "more" }, more), old ? was(column) : null);
  const share = (column) => (whole ? `${percent(mean(column) / whole)} of it` : "");
  const ranks = lanes.rows > 1 ? `mean over ${plural(lanes.rows, "rank")}` : "one rank";
  /** @param {string[]} part */
  const isUsed = ([column]) => column === "compute_ns" || lanes.has(column) || before?.has(column);
  const names = PARTS.filter(isUsed).map(([column, name, key]) => tile(name, column, share(column), key));
  byId("tiles").append(tile(lanes.byName.get("dur_ns").title, "dur_ns", ranks, null), ...names);
}

/** @returns {NodeListOf<HTMLElement>} */
const sectionElements = () => document.querySelectorAll("main section");

/** How far the recording carries what a section says; nothing where it cannot lack anything. */
function trustBadge({ grade, reason }) {
  const title = reason ?? "the recording has everything that this needs";
  return make("span", { class: `trust ${grade.replace(" ", "-")}`, title }, grade);
}

/** The frame of a section: its heading, what it shows, where its definitions are, and a note below. */
function makeSection({ id, name, heading, about, topics, note }) {
  const { trust } = run.sections.get(id);
  const commands = topics.flatMap((topic) => [" ", make("code", {}, `hta explain ${topic}`)]);
  return make("section", { id, "data-title": name }, make("h2", {}, heading, trust ? trustBadge(trust) : null),
    make("p", { class: "what" }, about, ...commands), make("div", { class: "body" }),
    note ? make("p", { class: "note", id: `${id}-keys` }, note) : null);
}

const showTables = (f) => Object.values(f.grids).filter((grid) => grid.rows > 0).forEach(f.openTable);

function build() {
  /** @type {any[][]} */
  const [empty, shown] = [[], []];
  const contents = data.contents.filter(({ id }) => run.sections.has(id));
  byId("sections").replaceWith(...contents.map(makeSection));
  for (const element of sectionElements()) {
    const { id, dataset: { title } } = element;
    const reason = run.sections.get(id).empty;
    // without delays the lengths of steps by rank are shown instead
    const isShown = reason === null || (id === "stragglers" && run.grids("breakdown").lengths);
    if (!isShown) {
      empty.push({ title, reason });
      element.hidden = true;
      continue;
    }
    shown.push([id, title]);
    const f = frame(id);
    if (reason !== null) f.body.append(make("p", { class: "empty" }, reason));
    (CHARTS[id] ?? showTables)(f);
    f.end();
  }
  if (empty.length) {
    const reasons = empty.map(({ title, reason }) => make("li", {}, make("b", {}, title), `: ${reason}`));
    const summary = `Nothing to show: ${empty.map(({ title }) => title).join(", ")}`;
    byId("without").append(make("details", {}, make("summary", {}, summary), make("ul", {}, ...reasons)));
  }
  makeMenu(shown);
  whenBuilt.splice(0).forEach((act) => act());
}

settings();
heading();
foot();
verdict();
tiles();
build();
renderInTurn();
let width = window.innerWidth;
window.addEventListener("resize", () => {
  // what fits beside an axis depends on the width
  if (Math.abs(window.innerWidth - width) < 80) return;
  width = window.innerWidth;
  renderAll();
});
