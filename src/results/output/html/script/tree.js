// The modules of the model as a tree: rows that unfold, with bars of their time forward and backward. And what it
// shares with the flame graph: rows of a grid that are inside one another.

import { addRankSelect, addSelect, followKeys, legendKey, make, makeButton, makeSearch, note } from "page/dom.js";
import { count, exact, ns, percent, plural } from "page/format.js";
import { isNarrow } from "page/theme.js";

/** The trees of a rank; null: of all together. `total`: time of a row; the rows inside another come by falling time. */
export function treeOf(grid, rank, total, isKept = (_i) => true) {
  const [ranks, parents] = [grid.of("rank"), grid.of("parent")];
  const rows = ranks.map((_, i) => i).filter((i) => ranks[i] === rank && isKept(i));
  const byParent = new Map();
  for (const i of rows) {
    if (!byParent.has(parents[i])) byParent.set(parents[i], []);
    byParent.get(parents[i]).push(i);
  }
  for (const list of byParent.values()) list.sort((a, b) => total(b) - total(a) || a - b);
  /** The rows directly inside one; those that are in none are the roots. @returns {number[]} */
  const inside = (i) => byParent.get(i) ?? [];
  return { rows, roots: inside(null), inside, parents };
}

/** Time of the rows that are found; one inside another counts once. */
export function timeFound(tree, isFound, total) {
  const timeOf = (i) => (isFound(i) ? total(i) : sum(tree.inside(i)));
  const sum = (rows) => rows.reduce((s, i) => s + timeOf(i), 0);
  return sum(tree.roots);
}

/** Controls of a choice between times, `[key, text, columns]`, and between ranks; `changed` is told which. */
export function chooseTime(controls, grid, times, changed) {
  const known = times.filter(([, , columns]) => columns.some((c) => grid.has(c)));
  const ranks = grid.distinct("rank").filter((r) => r !== null).sort((a, b) => a - b);
  const hasAll = grid.of("rank").includes(null);
  const choice = { time: known[0], rank: hasAll ? null : ranks[0] };
  if (known.length === 0) return choice;
  addSelect(controls, "Time", known, (v) => { choice.time = known.find((t) => t[0] === v); changed("time"); });
  const chooseRank = (v) => { choice.rank = v === null ? null : Number(v); changed("rank"); };
  if (hasAll && ranks.length) addRankSelect(controls, ranks, chooseRank);
  return choice;
}

/** What a bar is of: columns of the forward and of the backward part. */
const TIMES = [
  ["gpu", "GPU time, everything inside", ["gpu_ns", "bwd_gpu_ns"]],
  ["host", "host time, everything inside", ["host_ns", "bwd_host_ns"]],
  ["gpu_self", "own GPU time", ["gpu_self_ns", "bwd_gpu_self_ns"]],
  ["host_self", "own host time, forward", ["host_self_ns"]],
];
/** Rows that are unfolded at first, about. */
const FIRST_ROWS = 16;

export function moduleTree(f, grid) {
  const controls = f.controls();
  const choice = chooseTime(controls, grid, TIMES, (what) => (what === "rank" ? unfold() : rebuild()));
  if (!choice.time) return;
  /** @type {{ open: Set<any>, wanted: string, at: any }} */
  const state = { open: new Set(), wanted: "", at: null };
  const search = makeSearch("the modules", (wanted) => { state.wanted = wanted; draw(); });
  const open = (rows) => { state.open = new Set(rows); draw(); };
  const matched = make("span", { class: "note", "aria-live": "polite" });
  const unfoldAll = makeButton("unfold all", () => open(tree.rows));
  controls.append(search, unfoldAll, makeButton("fold all", () => open([])), matched);
  const list = make("div", { class: "tree", role: "tree", "aria-label": "modules" });
  const legend = make("div", { class: "legend" });
  f.body.append(list, legend);
  let tree = modules();

  /** The modules of the chosen rank, with the chosen time of each: forward, and backward where it is known. */
  function modules() {
    const [key, , columns] = choice.time;
    const parts = (i) => columns.map((c) => grid.of(c)[i] || 0);
    const total = (i) => parts(i).reduce((s, v) => s + v, 0);
    const found = treeOf(grid, choice.rank, total);
    // of what is within one another only the outermost counts
    const isSelf = key.endsWith("self");
    const whole = (isSelf ? found.rows : found.roots).reduce((s, i) => s + total(i), 0);
    return { ...found, parts, total, isSelf, whole, most: Math.max(1, ...found.rows.map(total)) };
  }

  function rebuild() {
    tree = modules();
    draw();
  }

  /** Unfolds the largest modules until there are enough rows. */
  function unfold() {
    tree = modules();
    const [largest, waiting] = [/** @type {number[]} */ ([]), [...tree.roots]];
    let rows = waiting.length;
    while (waiting.length && rows < FIRST_ROWS) {
      const i = waiting.shift();
      const children = tree.inside(i);
      if (children.length === 0 || (rows + children.length > 3 * FIRST_ROWS && rows > 4)) continue;
      largest.push(Number(i));
      rows += children.length;
      waiting.push(...children);
      waiting.sort((a, b) => tree.total(b) - tree.total(a));
    }
    state.at = tree.roots[0];
    open(largest);
  }

  const isFound = (i) => state.wanted !== "" && grid.of("name")[i].toLowerCase().includes(state.wanted);

  /** The rows that are seen, in order. While something is searched, what is found and what is around it. */
  function visible() {
    const around = (i) => (i === null ? [] : [i, ...around(tree.parents[i])]);
    const kept = state.wanted === "" ? null : new Set(tree.rows.filter(isFound).flatMap(around));
    const isOpen = (i) => (kept ? true : state.open.has(i));
    const seen = (i) => (kept && !kept.has(i) ? [] : [i, ...(isOpen(i) ? tree.inside(i).flatMap(seen) : [])]);
    return tree.roots.flatMap(seen);
  }

  const tint = () => `var(${choice.time[0].startsWith("gpu") ? "--compute" : "--kind-2"})`;
  const levelOf = (i) => (tree.parents[i] === null ? 1 : levelOf(tree.parents[i]) + 1);

  function row(i) {
    const of = grid.row(i);
    const [forward, backward] = tree.parts(i);
    const hasMore = tree.inside(i).length > 0;
    const isOpen = state.wanted !== "" || state.open.has(i);
    const level = levelOf(i);
    const share = (v) => `width: ${(100 * v) / tree.most}%`;
    const calls = plural(of("count"), "call") + (of("ranks") > 1 ? ` on ${plural(of("ranks"), "rank")}` : "");
    const back = backward === undefined ? "" : `${exact("ns", backward)} backward, `;
    const fold = make("i", { class: "fold", "aria-hidden": "true" }, hasMore ? (isOpen ? "▾" : "▸") : "");
    const bars = [make("i", { style: share(forward) }), make("i", { class: "backward", style: share(backward ?? 0) })];
    const ofAll = tree.whole ? percent(tree.total(i) / tree.whole) : "";
    const element = make("div", {
      role: "treeitem", class: isFound(i) ? "found" : null, "aria-level": level,
      "aria-expanded": hasMore ? String(isOpen) : null, tabindex: i === state.at ? "0" : "-1", "data-row": i,
      title: `${of("path")}: ${exact("ns", forward)} forward, ${back}${calls}`,
      style: `--level: ${Math.min(level - 1, isNarrow() ? 8 : 24)}`,
    },
    make("span", { class: "tree-name" }, fold, of("name")),
    make("span", { class: "tree-bar", "aria-hidden": "true" }, ...bars),
    make("span", { class: "tree-time" }, ns(tree.total(i)), make("span", {}, ofAll)));
    element.addEventListener("click", () => toggle(i));
    return element;
  }

  function draw() {
    const rows = visible();
    if (!rows.includes(state.at)) state.at = rows[0] ?? null;
    list.style.setProperty("--bar", tint());
    list.replaceChildren(...(rows.length ? rows.map(row) : [note("no module matches")]));
    legend.replaceChildren(legendKey(tint(), "forward"));
    if (choice.time[2].length > 1) legend.append(legendKey(tint(), "backward", "backward"));
    const all = plural(tree.rows.length, "module");
    const found = tree.rows.filter(isFound);
    const time = tree.isSelf ? found.reduce((s, i) => s + tree.total(i), 0) : timeFound(tree, isFound, tree.total);
    const share = tree.whole ? `, ${percent(time / tree.whole)}` : "";
    matched.textContent = state.wanted === "" ? all : `${count(found.length)} of ${all}: ${ns(time)}${share}`;
  }

  function go(i) {
    if (i === null || i === undefined) return;
    state.at = i;
    draw();
    list.querySelector(`[data-row="${i}"]`)?.focus();
  }

  function toggle(i) {
    if (state.wanted === "" && tree.inside(i).length && !state.open.delete(i)) state.open.add(i);
    go(i);
  }

  followKeys(list, () => {
    const rows = visible();
    if (rows.length === 0) return {};
    const at = rows.indexOf(state.at);
    const isOpen = state.open.has(state.at);
    const children = tree.inside(state.at);
    const turn = () => toggle(state.at);
    return {
      ArrowDown: () => go(rows[at + 1]), ArrowUp: () => go(rows[at - 1]),
      Home: () => go(rows[0]), End: () => go(rows.at(-1)),
      ArrowRight: () => (children.length && !isOpen ? turn() : go(children[0])),
      ArrowLeft: () => (children.length && isOpen ? turn() : go(tree.parents[state.at])), Enter: turn, " ": turn,
    };
  });
  unfold();
}
