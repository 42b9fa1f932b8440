// The flame graph: call trees of the host with the GPU work launched in them, as an icicle on a canvas.

import { addSelect, charts } from "page/chart.js";
import { exact, make, ns, percent, short } from "page/format.js";
import { linked } from "page/source.js";
import { colour, inkOn, kinds } from "page/theme.js";
import { words } from "page/timeline/model.js";

const FLAME_TINTS = { function: 4, line: 6, operator: 2, runtime_call: 1 };
const FLAME_WEIGHTS = [["host", "time on the host", ["host_ns"]], ["gpu", "GPU time, forward and backward", ["gpu_ns", "bwd_gpu_ns"]], ["forward", "GPU time, forward", ["gpu_ns"]], ["backward", "GPU time of the backward pass", ["bwd_gpu_ns"]]];
const BAR = 18;
/** Largest number of levels that are drawn at once; a click on a bar draws those below it. */
const FLAME_LEVELS = 48;

/** The trees of a grid by weight: totals, children and places, made anew when rank or weight change. */
function flameTree(grid, rank, columns) {
  const parents = grid.of("parent");
  const kindOf = grid.of("kind");
  const name = grid.of("name");
  const own = parents.map((_, i) => columns.reduce((s, c) => s + (grid.of(c)[i] || 0), 0));
  const mine = grid.of("rank").map((r) => r === rank);
  const total = own.slice();
  for (let i = parents.length - 1; i >= 0; i--) if (mine[i] && parents[i] !== null) total[parents[i]] += total[i];
  const isIdle = (i) => name[i] === "[threads without operators]";
  const children = new Map();
  const roots = [];
  parents.forEach((p, i) => {
    if (!mine[i] || total[i] <= 0 || isIdle(i)) return;
    if (p === null) roots.push(i);
    else children.set(p, [...(children.get(p) || []), i]);
  });
  const byTotal = (a, b) => total[b] - total[a] || a - b;
  roots.sort(byTotal);
  children.forEach((list) => list.sort(byTotal));
  const [from, depth] = [new Map(), new Map()];
  let levels = 0;
  const stack = [];
  const order = [];
  const put = (list, at, level) => {
    for (const i of list) {
      from.set(i, at);
      depth.set(i, level);
      levels = Math.max(levels, level + 1);
      stack.push(i);
      at += total[i];
    }
  };
  put(roots, 0, 1);
  while (stack.length) {
    const i = stack.pop();
    order.push(i);
    if (children.has(i)) put(children.get(i), from.get(i), depth.get(i) + 1);
  }
  // the deepest level at or below each node
  const deepest = new Map(depth);
  for (const i of order.reverse()) if (parents[i] !== null) deepest.set(parents[i], Math.max(deepest.get(parents[i]), deepest.get(i)));
  return { deepest, total, own, children, roots, parents, name, kind: kindOf, from, depth, levels: levels + 1, whole: roots.reduce((s, i) => s + total[i], 0) };
}

/** The line above the bars, which leads one level out. */
const ABOVE = -1;

export function flameSection(f) {
  const grid = f.grids.tree;
  const state = { rank: null, weight: FLAME_WEIGHTS[0], focus: null, selected: null, wanted: "", width: 0 };
  const controls = f.controls();
  const has = (columns) => columns.some((c) => grid.of(c).some((v) => v));
  const weights = FLAME_WEIGHTS.filter((w) => has(w[2]));
  if (weights.length === 0) return;
  state.weight = weights[0];
  addSelect(controls, "Time", weights.map(([key, text]) => [key, text]), (v) => { state.weight = weights.find((w) => w[0] === v); rebuild(); });
  const ranks = [...new Set(grid.of("rank"))].filter((r) => r !== null).sort((a, b) => a - b);
  if (ranks.length && grid.of("rank").includes(null)) addSelect(controls, "Rank", [["", "all"], ...ranks.map((r) => [String(r), String(r)])], (v) => { state.rank = v === "" ? null : Number(v); rebuild(); });
  else if (ranks.length) state.rank = ranks[0];
  const search = make("input", { type: "search", placeholder: "search", "aria-label": "search in the flame graph" });
  const matched = make("span", { class: "note" });
  const back = make("button", { type: "button" }, "whole graph");
  controls.append(search, back, matched);
  const canvas = make("canvas", { class: "flame", tabindex: "0", role: "application", "aria-roledescription": "flame graph", "aria-label": "" });
  const label = make("div", { class: "lanes-label", hidden: "", "aria-hidden": "true" });
  const frameOf = make("div", { class: "lanes-frame" }, canvas, label);
  const detail = make("div", { class: "chosen flame-chosen", role: "status", "aria-live": "polite" });
  f.body.append(frameOf, detail);
  const key = (tint, text) => make("span", { class: "key" }, make("i", { style: `background:${tint}` }), text);
  f.body.append(make("div", { class: "legend" }, key("var(--kind-4)", "Python"), key("var(--kind-6)", "line"), key("var(--kind-2)", "operator"), key("var(--kind-1)", "API call"), key("var(--compute)", "kernel"), key("var(--idle)", "rest")));
  const ctx = canvas.getContext("2d");
  let tree = flameTree(grid, state.rank, state.weight[2]);
  let boxes = [];

  function rebuild() {
    tree = flameTree(grid, state.rank, state.weight[2]);
    state.focus = state.selected = null;
    detail.replaceChildren();
    paint();
  }

  const isInside = (i, around) => { for (let p = i; p !== null; p = tree.parents[p]) if (p === around) return true; return false; };
  const isFound = (i) => state.wanted !== "" && tree.name[i].toLowerCase().includes(state.wanted);
  const unit = (v) => `${ns(v)} = ${exact("ns", v)}`;
  const told = (i) => [tree.name[i], `${unit(tree.total[i])}, ${tree.whole ? percent(tree.total[i] / tree.whole) : ""} of all`, `${words(tree.kind[i])}; itself ${exact("ns", tree.own[i])}`];

  function paint() {
    state.width = frameOf.clientWidth;
    // what is around the node that fills the width stands in one line above it
    const first = state.focus === null ? 1 : tree.depth.get(state.focus);
    const last = state.focus === null ? tree.levels - 2 : tree.deepest.get(state.focus);
    const shownLevels = Math.min(last - first + 2, FLAME_LEVELS);
    const height = shownLevels * BAR + 2;
    const sharp = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(state.width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.width = `${state.width}px`;
    canvas.style.height = `${height}px`;
    ctx.setTransform(sharp, 0, 0, sharp, 0, 0);
    const tints = Object.fromEntries(Object.entries(FLAME_TINTS).map(([k, at]) => [k, kinds()[at]]));
    const [compute, rest, panel, ink, soft, low] = ["compute", "idle", "panel", "ink", "soft", "low"].map(colour);
    const begin = state.focus === null ? 0 : tree.from.get(state.focus);
    const length = state.focus === null ? tree.whole : tree.total[state.focus];
    const s = length ? state.width / length : 0;
    boxes = [];
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillStyle = low;
    ctx.fillRect(0, 0, state.width, BAR - 1);
    ctx.fillStyle = ink;
    const above = [];
    for (let i = state.focus === null ? null : tree.parents[state.focus]; i !== null; i = tree.parents[i]) above.unshift(tree.name[i]);
    const whole = `${state.rank === null ? "all" : `rank ${state.rank}`}: ${ns(tree.whole)}, ${state.weight[1]}`;
    ctx.fillText(short(state.focus === null ? whole : `◂ ${[state.rank === null ? "all" : `rank ${state.rank}`, ...above.map((name) => short(name, 40))].join(" › ")}`, Math.floor((state.width - 8) / 5.9)), 5, BAR / 2, state.width - 8);
    boxes.push([0, 0, state.width, ABOVE]);
    const stack = state.focus === null ? [...tree.roots] : [state.focus];
    while (stack.length) {
      const i = stack.pop();
      const [x0, x1] = [(tree.from.get(i) - begin) * s, (tree.from.get(i) + tree.total[i] - begin) * s];
      if (x1 <= 0 || x0 >= state.width || x1 - x0 < 0.4) continue;
      const [left, width, y] = [Math.max(0, x0), Math.min(x1, state.width) - Math.max(0, x0), (tree.depth.get(i) - first + 1) * BAR];
      if (tree.depth.get(i) - first + 1 >= shownLevels) continue;
      const isOther = state.wanted !== "" && !isFound(i);
      const tint = tree.kind[i] === "kernel" ? compute : tints[tree.kind[i]] || rest;
      ctx.globalAlpha = isOther ? 0.35 : 1;
      ctx.fillStyle = tint;
      ctx.fillRect(left, y, width, BAR - 1);
      ctx.globalAlpha = 1;
      if (width > 3) {
        ctx.fillStyle = panel;
        ctx.fillRect(left + width - 0.5, y, 0.5, BAR - 1);
      }
      if (width > 34) {
        ctx.fillStyle = isOther ? soft : inkOn(tint);
        ctx.fillText(short(tree.name[i], Math.floor((width - 8) / 5.9)), left + 4, y + BAR / 2, width - 6);
      }
      if (i === state.selected) {
        ctx.strokeStyle = ink;
        ctx.lineWidth = 2;
        ctx.strokeRect(left + 1, y + 1, Math.max(2, width - 2), BAR - 3);
      }
      boxes.push([left, y, width, i]);
      if (tree.children.has(i)) stack.push(...tree.children.get(i));
    }
    back.disabled = state.focus === null;
    canvas.setAttribute("aria-label", `Flame graph of ${state.weight[1]}: ${ns(tree.whole)}; the largest: ${tree.roots.slice(0, 3).map((i) => `${short(tree.name[i], 40)} ${percent(tree.total[i] / (tree.whole || 1))}`).join(", ")}`);
  }

  function select(i) {
    state.selected = i;
    // what is chosen by keys must be seen
    while (state.focus !== null && i !== null && !isInside(i, state.focus)) state.focus = tree.parents[state.focus];
    detail.replaceChildren();
    if (i !== null) {
      const [name, ...more] = told(i);
      detail.append(make("b", { class: "mono" }, ...linked(name, true)), ...more.map((m) => make("div", {}, m)));
    }
    paint();
  }

  const at = (e) => {
    const box = canvas.getBoundingClientRect();
    const [px, py] = [e.clientX - box.left, e.clientY - box.top];
    const found = boxes.find(([left, y, width]) => px >= left && px < left + Math.max(width, 1) && py >= y && py < y + BAR);
    return [found ? found[3] : null, px, py];
  };
  canvas.addEventListener("pointermove", (e) => {
    const [i, px, py] = at(e);
    label.hidden = i === null || i === ABOVE;
    canvas.style.cursor = i === null || (i === ABOVE && state.focus === null) ? "default" : "pointer";
    if (label.hidden) return;
    label.replaceChildren(...told(i).map((l) => make("div", {}, short(l, 160))));
    label.style.left = `${Math.max(0, Math.min(px + 14, state.width - label.offsetWidth - 4))}px`;
    label.style.top = `${py + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => { label.hidden = true; });
  // a click fills the width; one on what fills it, or on the line above it, leads out again
  canvas.addEventListener("click", (e) => {
    const [i] = at(e);
    if (i === null) return;
    const isOut = i === ABOVE || i === state.focus;
    state.focus = isOut ? (state.focus === null ? null : tree.parents[state.focus]) : i;
    label.hidden = true;
    select(i === ABOVE ? state.focus : i);
  });
  canvas.addEventListener("keydown", (e) => {
    const now = state.selected;
    const beside = (list, by) => list[Math.min(Math.max(list.indexOf(now) + by, 0), list.length - 1)];
    const siblings = now === null ? tree.roots : tree.parents[now] === null ? tree.roots : tree.children.get(tree.parents[now]);
    const keys = {
      ArrowDown: () => select(now === null ? tree.roots[0] : (tree.children.get(now) || [now])[0]),
      ArrowUp: () => select(now === null || tree.parents[now] === null ? now : tree.parents[now]),
      ArrowRight: () => select(now === null ? tree.roots[0] : beside(siblings, 1)),
      ArrowLeft: () => select(now === null ? tree.roots[0] : beside(siblings, -1)),
      Enter: () => { state.focus = now; paint(); }, Escape: () => { state.focus = null; select(null); },
    };
    if (!keys[e.key] || tree.roots.length === 0) return;
    e.preventDefault();
    keys[e.key]();
  });
  search.addEventListener("input", () => {
    state.wanted = search.value.trim().toLowerCase();
    // a match inside a match counts once
    let sum = 0;
    const stack = state.wanted === "" ? [] : [...tree.roots];
    while (stack.length) {
      const i = stack.pop();
      if (isFound(i)) sum += tree.total[i];
      else stack.push(...(tree.children.get(i) || []));
    }
    matched.textContent = state.wanted === "" ? "" : `${ns(sum)}, ${percent(tree.whole ? sum / tree.whole : 0)} of all`;
    paint();
  });
  back.addEventListener("click", () => { state.focus = null; paint(); });
  charts.push({ render: paint });
  f.body.append(make("p", { class: "note" }, "A click fills the width and shows all levels below; a click on the same bar, or on the line above it, leads out. Keys: arrows, Enter fills, Escape shows all. GPU work of the backward pass stands below the forward operator that it belongs to."));
  f.table(grid, "call trees");
}
