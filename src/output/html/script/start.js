// Puts the page together when it is opened.

import { change } from "page/change.js";
import { renderAll, renderInTurn } from "page/chart.js";
import { resultsFolder } from "page/command.js";
import { meanParts, otherRun } from "page/compare.js";
import { data } from "page/data.js";
import { bytes, count, exact, make, ns, percent, plural, short } from "page/format.js";
import { drawForPaper } from "page/paper.js";
import { frame, PARTS, whenBuilt } from "page/section.js";
import { sections } from "page/sections.js";
import { aimAll, source } from "page/source.js";
import { perWindow, readGrid } from "page/table.js";

/** What a reader chose before, in this browser; nothing where it keeps nothing. */
const memory = {
  get(name) {
    try { return localStorage.getItem(`hta.${name}`); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(`hta.${name}`, value); } catch { /* it is only not remembered */ }
  },
};

function theme(choice) {
  const isDark = choice === "dark" || (choice !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

function settings() {
  const chosen = document.getElementById("theme");
  chosen.value = memory.get("theme") || "system";
  if (chosen.selectedIndex < 0) chosen.value = "system";
  theme(chosen.value);
  chosen.addEventListener("change", () => {
    memory.set("theme", chosen.value);
    theme(chosen.value);
    renderAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    theme(chosen.value);
    renderAll();
  });

  const editor = document.getElementById("editor");
  editor.value = data.editor;
  source.editor = editor.value;
  editor.addEventListener("change", () => {
    source.editor = editor.value;
    aimAll();
  });
  const root = document.getElementById("source-root");
  root.value = data.source_root || memory.get("source-root") || "";
  source.root = root.value;
  root.addEventListener("input", () => {
    source.root = root.value;
    memory.set("source-root", root.value);
    aimAll();
  });
  document.querySelector(".settings").addEventListener("submit", (e) => e.preventDefault());
}

function heading() {
  const s = data.set;
  const bold = (text) => make("b", {}, text);
  const line = [bold(plural(s.ranks, "rank")), s.world_size !== null && s.world_size !== s.ranks ? ` of ${count(s.world_size)}` : "", s.ranks ? ` (${short(s.rank_list, 60)})` : ""];
  if (s.hosts > 1) line.push(` on ${plural(s.hosts, "host")}`);
  if (s.devices.length) line.push(", ", bold(short(s.devices.join(", "), 80)));
  line.push(` · ${s.min_steps === s.max_steps ? plural(s.min_steps, "step") : `${count(s.min_steps)} to ${count(s.max_steps)} steps`}`);
  if (s.step_rules.length === 1 && s.step_rules[0] === "capture") line.push(" (none marked: the whole capture counts as one)");
  line.push(` · ${plural(s.events, "event")}, ${bytes(s.json_bytes)} of JSON · ${ns(s.length_ns)} recorded`);
  if (s.missing) line.push(" · ", make("span", { class: "severity-loss" }, `missing: ranks ${short(s.missing, 60)}`));
  document.getElementById("set").append(...line);
  const began = s.began_ms === null ? "" : new Date(s.began_ms).toISOString().replace("T", " ").slice(0, 16);
  const job = [short(resultsFolder(), 60), began && `${began} UTC`].filter((of) => of).join(", ");
  if (job) document.getElementById("job").textContent = job;
  document.title = [job, plural(s.ranks, "rank"), "hta report"].filter((of) => of).join(" · ");
  document.getElementById("foot").append(make("p", {},
    `Made by hta ${data.hta_version}. Every number is in the Parquet tables beside this file, exactly and in full; rest the pointer on a number for its exact value. `,
    `A table that ends with "not listed here" shows the largest rows. ${data.cut_texts ? `${plural(data.cut_texts, "name was", "names were")} too long for this page and ${data.cut_texts === 1 ? "is" : "are"} cut; the tables have them whole. ` : ""}`,
    "Charts: Plotly.js, MIT licence."));
}

function tiles() {
  const breakdown = data.sections.get("breakdown");
  const lanes = breakdown.empty === null ? perWindow(readGrid(breakdown.grids.lanes, data.texts)) : null;
  if (!lanes) return;
  const mean = (name) => lanes.of(name).reduce((s, v) => s + v, 0) / lanes.rows;
  const whole = mean("dur_ns");
  const steps = breakdown.grids.steps ? "mean length of a step" : "mean length of the span";
  const old = data.other ? meanParts(data.other.grids("breakdown").lanes) : null;
  const was = (name) => (old ? make("div", { class: "more", title: exact("ns", old[name]) }, [`was ${ns(old[name])}`, change(mean(name), old[name])].filter((t) => t).join(", ")) : null);
  const tile = (label, value, more, key, name) => make("div", { class: "tile", role: "listitem", style: key ? `--key: var(--${key})` : null, title: exact("ns", value) },
    make("div", { class: "label" }, label), make("div", { class: "number" }, ns(value)), make("div", { class: "more" }, more), was(name));
  const place = document.getElementById("tiles");
  place.append(tile(steps, whole, lanes.rows > 1 ? `mean over ${plural(lanes.rows, "rank")}` : "one rank", null, "dur_ns"));
  for (const [column, name, key] of PARTS) place.append(tile(name, mean(column), whole ? `${percent(mean(column) / whole)} of it` : "", key, column));
}

function build() {
  const empty = [];
  const contents = document.getElementById("contents");
  data.other = otherRun(data);
  if (!data.other) document.getElementById("compare").remove();
  const lengths = data.sections.get("breakdown").grids.lengths;
  data.lengths = lengths ? readGrid(lengths, data.texts) : null;
  for (const element of document.querySelectorAll("main section")) {
    const section = data.sections.get(element.id);
    const link = make("a", { href: `#${element.id}` }, element.dataset.title);
    contents.append(link);
    const body = element.querySelector(".body");
    if (section.empty !== null) {
      const instead = element.id === "stragglers" && data.lengths;
      if (!instead) {
        empty.push([element.dataset.title, section.empty]);
        element.hidden = true;
        link.remove();
        continue;
      }
      body.append(make("p", { class: "empty" }, section.empty));
    }
    const f = frame(element.id, section, data.texts);
    sections[element.id](f, data);
    f.end();
  }
  if (empty.length) {
    const reasons = empty.map(([title, why]) => make("li", {}, make("b", {}, title), `: ${why}`));
    document.getElementById("without").append(
      make("details", {}, make("summary", {}, `Nothing to show: ${empty.map(([title]) => title).join(", ")}`), make("ul", {}, ...reasons)));
  }
}

/** Marks the section that is being read. */
function follow() {
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.getAttribute("href").slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) {
      if (!e.isIntersecting) continue;
      for (const a of links.values()) a.removeAttribute("aria-current");
      const link = links.get(e.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const s of document.querySelectorAll("main section")) seen.observe(s);
}

settings();
drawForPaper();
heading();
build();
whenBuilt.splice(0).forEach((f) => f());
tiles();
follow();
renderInTurn();
let width = window.innerWidth;
window.addEventListener("resize", () => {
  // what fits beside an axis depends on the width
  if (Math.abs(window.innerWidth - width) < 80) return;
  width = window.innerWidth;
  renderAll();
});
