// The modules of the model as a tree: rows that unfold, with bars of their time forward and backward.

import { addSelect } from "page/chart.js";
import { count, exact, make, ns, percent, plural } from "page/format.js";
import { isNarrow } from "page/theme.js";

/** What a bar is of: forward and backward part. */
const TREE_TIMES = [
  ["gpu", "GPU time, everything inside", ["gpu_ns", "bwd_gpu_ns"]],
  ["host", "host time, everything inside", ["host_ns", "bwd_host_ns"]],
  ["gpu_self", "own GPU time", ["gpu_self_ns", "bwd_gpu_self_ns"]],
  ["host_self", "own host time, forward", ["host_self_ns", null]],
];
/** Rows that are unfolded at first, about. */
const TREE_ROWS = 16;

/** The tree of one rank, or of all: rows, who is inside whom, and their times. */
function moduleRows(grid, rank, columns) {
  const rows = grid.of("rank").map((_, i) => i).filter((i) => grid.of("rank")[i] === rank);
  const parts = new Map(rows.map((i) => [i, columns.map((c) => (c === null ? 0 : grid.of(c)[i] || 0))]));
  const inside = new Map();
  const level = new Map();
  const roots = [];
  for (const i of rows) {
    const parent = grid.of("parent")[i];
    level.set(i, parent === null ? 1 : level.get(parent) + 1);
    if (parent === null) roots.push(i);
    else inside.set(parent, [...(inside.get(parent) || []), i]);
  }
  const total = (i) => parts.get(i)[0] + parts.get(i)[1];
  // of what is within one another only the outermost counts
  const isSelf = columns[0].includes("self");
  const whole = (isSelf ? rows : roots).reduce((s, i) => s + total(i), 0);
  const most = Math.max(1, ...rows.map(total));
  const byTime = (a, b) => total(b) - total(a) || a - b;
  roots.sort(byTime);
  inside.forEach((list) => list.sort(byTime));
  return { rows, parts, inside, level, roots, total, whole, most };
}

export function moduleTree(f, grid) {
  const ranks = [...new Set(grid.of("rank"))].filter((r) => r !== null);
  const times = TREE_TIMES.filter((t) => t[2].some((c) => c !== null && grid.of(c).some((v) => v)));
  if (times.length === 0) return;
  const state = { rank: null, time: times[0], open: new Set(), wanted: "", at: null };
  const controls = f.controls();
  addSelect(controls, "Time", times.map(([key, text]) => [key, text]), (v) => { state.time = times.find((t) => t[0] === v); rebuild(); });
  if (ranks.length) addSelect(controls, "Rank", [["", "all"], ...ranks.map((r) => [String(r), String(r)])], (v) => { state.rank = v === "" ? null : Number(v); unfold(); });
  const search = make("input", { type: "search", placeholder: "search", "aria-label": "search in the modules" });
  const all = make("button", { type: "button" }, "unfold all");
  const none = make("button", { type: "button" }, "fold all");
  const matched = make("span", { class: "note", "aria-live": "polite" });
  controls.append(search, all, none, matched);
  const list = make("div", { class: "tree", role: "tree", "aria-label": "modules" });
  const legend = make("div", { class: "legend" });
  f.body.append(list, legend, make("p", { class: "note" }, "Keys: up and down, right unfolds, left folds. A module stands with the time of all its calls; that of its backward pass is where autograd joins it (with sequence numbers or flows)."));
  let tree = null;

  function rebuild() {
    tree = moduleRows(grid, state.rank, state.time[2]);
    draw();
  }

  /** Unfolds the largest modules until there are enough rows. */
  function unfold() {
    tree = moduleRows(grid, state.rank, state.time[2]);
    state.open = new Set();
    const waiting = [...tree.roots];
    let rows = waiting.length;
    while (waiting.length && rows < TREE_ROWS) {
      const i = waiting.shift();
      const children = tree.inside.get(i) || [];
      if (children.length === 0 || (rows + children.length > 3 * TREE_ROWS && rows > 4)) continue;
      state.open.add(i);
      rows += children.length;
      waiting.push(...children);
      waiting.sort((a, b) => tree.total(b) - tree.total(a));
    }
    state.at = tree.roots[0];
    draw();
  }

  const isFound = (i) => state.wanted !== "" && grid.of("name")[i].toLowerCase().includes(state.wanted);

  /** The rows that are seen, in order. While something is searched, what is found and what is around it. */
  function visible() {
    const out = [];
    let keep = null;
    if (state.wanted !== "") {
      keep = new Set();
      for (const i of tree.rows.filter(isFound)) for (let at = i; at !== null && !keep.has(at); at = grid.of("parent")[at]) keep.add(at);
    }
    const put = (i) => {
      if (keep && !keep.has(i)) return;
      out.push(i);
      if (keep || state.open.has(i)) (tree.inside.get(i) || []).forEach(put);
    };
    tree.roots.forEach(put);
    return out;
  }

  /** Time of what is found; a match inside a match counts once. */
  function foundTime() {
    let sum = 0;
    const isSelf = state.time[0].endsWith("self");
    const add = (i) => {
      if (isFound(i)) sum += tree.total(i);
      if (isSelf || !isFound(i)) (tree.inside.get(i) || []).forEach(add);
    };
    tree.roots.forEach(add);
    return sum;
  }

  function row(i) {
    const [forward, backward] = tree.parts.get(i);
    const total = forward + backward;
    const children = tree.inside.get(i) || [];
    const isOpen = state.wanted !== "" || state.open.has(i);
    const share = (v) => `${(100 * v) / tree.most}%`;
    const words = [`${exact("ns", forward)} forward`, state.time[2][1] === null ? null : `${exact("ns", backward)} backward`, `${plural(grid.of("count")[i], "call")}${grid.of("ranks")[i] > 1 ? ` on ${plural(grid.of("ranks")[i], "rank")}` : ""}`].filter((w) => w).join(", ");
    const element = make("div", {
      role: "treeitem", class: isFound(i) ? "found" : null, "aria-level": tree.level.get(i), "aria-expanded": children.length ? String(isOpen) : null, tabindex: i === state.at ? "0" : "-1", "data-row": i, title: `${grid.of("path")[i]}: ${words}`,
      style: `--level: ${Math.min(tree.level.get(i) - 1, isNarrow() ? 8 : 24)}`,
    },
    make("span", { class: "tree-name" }, make("i", { class: "fold", "aria-hidden": "true" }, children.length ? (isOpen ? "▾" : "▸") : ""), grid.of("name")[i]),
    make("span", { class: "tree-bar", "aria-hidden": "true" }, make("i", { style: `width: ${share(forward)}` }), make("i", { class: "backward", style: `width: ${share(backward)}` })),
    make("span", { class: "tree-time" }, ns(total), make("span", {}, tree.whole ? percent(total / tree.whole) : "")));
    element.addEventListener("click", () => { state.at = i; toggle(i); });
    return element;
  }

  function draw() {
    const rows = visible();
    if (!rows.includes(state.at)) state.at = rows[0] ?? null;
    list.style.setProperty("--bar", `var(${state.time[0].startsWith("gpu") ? "--compute" : "--kind-2"})`);
    list.replaceChildren(...rows.map(row));
    if (rows.length === 0) list.append(make("p", { class: "note" }, "no module matches"));
    const key = (kind, text) => make("span", { class: "key" }, make("i", { class: kind, style: `background: var(${state.time[0].startsWith("gpu") ? "--compute" : "--kind-2"})` }), text);
    legend.replaceChildren(...[key("", "forward"), state.time[2][1] === null ? null : key("backward", "backward")].filter((k) => k));
    const found = tree.rows.filter(isFound).length;
    matched.textContent = state.wanted === "" ? plural(tree.rows.length, "module") : `${count(found)} of ${plural(tree.rows.length, "module")}: ${ns(foundTime())}${tree.whole ? `, ${percent(foundTime() / tree.whole)}` : ""}`;
  }

  const focus = () => { const element = list.querySelector(`[data-row="${state.at}"]`); if (element) element.focus(); };

  function toggle(i) {
    if (state.wanted === "" && tree.inside.has(i)) {
      if (state.open.has(i)) state.open.delete(i);
      else state.open.add(i);
    }
    draw();
    focus();
  }

  list.addEventListener("keydown", (e) => {
    const rows = visible();
    const at = rows.indexOf(state.at);
    const go = (i) => { if (i !== null && i !== undefined) { state.at = i; draw(); focus(); } };
    const isOpen = state.open.has(state.at);
    const children = tree.inside.get(state.at) || [];
    const keys = {
      ArrowDown: () => go(rows[at + 1]), ArrowUp: () => go(rows[at - 1]), Home: () => go(rows[0]), End: () => go(rows[rows.length - 1]),
      ArrowRight: () => (children.length && !isOpen ? toggle(state.at) : go(children[0])),
      ArrowLeft: () => (children.length && isOpen ? toggle(state.at) : go(grid.of("parent")[state.at])),
      Enter: () => toggle(state.at), " ": () => toggle(state.at),
    };
    if (!keys[e.key] || rows.length === 0) return;
    e.preventDefault();
    keys[e.key]();
  });
  search.addEventListener("input", () => { state.wanted = search.value.trim().toLowerCase(); draw(); });
  all.addEventListener("click", () => { state.open = new Set(tree.inside.keys()); draw(); });
  none.addEventListener("click", () => { state.open = new Set(); draw(); });
  unfold();
}
