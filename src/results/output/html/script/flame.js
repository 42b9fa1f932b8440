// The flame graph: call trees of the host with the GPU work launched in them, as an icicle on a canvas.

import { Brush, makeCanvas, makeLabel, moveLabel, setFont, sizeCanvas, strokeFrame } from "page/canvas.js";
import { charts } from "page/chart.js";
import { followKeys, legendKey, make, makeButton, makeSearch } from "page/dom.js";
import { between, exact, ns, nsExactly, percent, short, words } from "page/format.js";
import { linked } from "page/source.js";
import { colour, kinds } from "page/theme.js";
import { chooseTime, timeFound, treeOf } from "page/tree.js";

/** Kinds of calls: number of the colour, and name. */
const KINDS = { function: [4, "Python"], line: [6, "line"], operator: [2, "operator"], runtime_call: [1, "API call"] };
const TIMES = [
  ["host", "time on the host", ["host_ns"]], ["gpu", "GPU time, forward and backward", ["gpu_ns", "bwd_gpu_ns"]],
  ["forward", "GPU time, forward", ["gpu_ns"]], ["backward", "GPU time of the backward pass", ["bwd_gpu_ns"]],
];
const BAR = 18;
/** Largest number of levels that are drawn at once; a click on a bar draws those below it. */
const MOST_LEVELS = 48;
/** The line above the bars, which leads one level out. */
const ABOVE = -1;

/** The trees with the place of each call: where it begins, at which level, and the deepest level inside it. */
function flameTree(grid, { rank, time: [, , columns] }) {
  const [parents, name] = [grid.of("parent"), grid.of("name")];
  const own = parents.map((_, i) => columns.reduce((s, c) => s + (grid.of(c)[i] || 0), 0));
  const total = own.slice();
  for (let i = parents.length - 1; i >= 0; i--) if (parents[i] !== null) total[parents[i]] += total[i];
  const isKept = (i) => total[i] > 0 && name[i] !== "[threads without operators]";
  const tree = treeOf(grid, rank, (i) => total[i], isKept);
  /** @type {number[][]} */
  const [from, depth, order] = [[], [], []];
  const put = (calls, at, level) => {
    for (const i of calls) {
      [from[i], depth[i]] = [at, level];
      order.push(i);
      at += total[i];
    }
  };
  put(tree.roots, 0, 1);
  for (const i of order) put(tree.inside(i), from[i], depth[i] + 1);
  const deepest = depth.slice();
  for (const i of order.reverse()) {
    if (parents[i] !== null) deepest[parents[i]] = Math.max(deepest[parents[i]], deepest[i]);
  }
  const levels = tree.roots.reduce((m, i) => Math.max(m, deepest[i]), 0);
  const whole = tree.roots.reduce((s, i) => s + total[i], 0);
  return { ...tree, name, kind: grid.of("kind"), own, total, from, depth, deepest, levels, whole };
}

export function flameSection(f) {
  const grid = f.grids.tree;
  const controls = f.controls();
  const choice = chooseTime(controls, grid, TIMES, () => {
    tree = flameTree(grid, choice);
    state.focus = null;
    select(null);
  });
  if (!choice.time) return;
  let tree = flameTree(grid, choice);
  /** @type {{ focus: any, selected: any, wanted: string }} */
  const state = { focus: null, selected: null, wanted: "" };
  const matched = make("span", { class: "note" });
  const search = makeSearch("the flame graph", (wanted) => {
    state.wanted = wanted;
    const time = timeFound(tree, isFound, (i) => tree.total[i]);
    matched.textContent = wanted === "" ? "" : `${ns(time)}, ${percent(tree.whole ? time / tree.whole : 0)} of all`;
    paint();
  });
  const back = makeButton("whole graph", () => { state.focus = null; paint(); });
  controls.append(search, back, matched);
  const canvas = makeCanvas("flame", "flame graph");
  const label = makeLabel();
  const frame = make("div", { class: "lanes-frame" }, canvas, label);
  const detail = make("div", { class: "chosen flame-chosen", role: "status", "aria-live": "polite" });
  const keys = Object.values(KINDS).map(([kind, text]) => legendKey(`var(--kind-${kind})`, text));
  keys.push(legendKey("var(--compute)", "kernel"), legendKey("var(--idle)", "rest"));
  f.body.append(frame, detail, make("div", { class: "legend" }, ...keys));
  const ctx = canvas.getContext("2d");
  const brush = new Brush(ctx);
  let boxes = [];

  const isFound = (i) => state.wanted !== "" && tree.name[i].toLowerCase().includes(state.wanted);
  const told = (i) => [
    tree.name[i], `${nsExactly(tree.total[i])}, ${tree.whole ? percent(tree.total[i] / tree.whole) : ""} of all`,
    `${words(tree.kind[i])}; itself ${exact("ns", tree.own[i])}`,
  ];
  /** A call and what is around it, from the outside. */
  const around = (i) => (i === null ? [] : [...around(tree.parents[i]), i]);

  /** What is around the call that fills the width, in one line above it. */
  function paintAbove(width) {
    const ranks = choice.rank === null ? "all" : `rank ${choice.rank}`;
    const outer = around(state.focus).slice(0, -1).map((i) => short(tree.name[i], 40));
    const text = state.focus === null
      ? `${ranks}: ${ns(tree.whole)}, ${choice.time[1]}` : `◂ ${[ranks, ...outer].join(" › ")}`;
    ctx.fillStyle = colour("low");
    ctx.fillRect(0, 0, width, BAR - 1);
    setFont(ctx, "11px");
    ctx.fillStyle = colour("ink");
    ctx.fillText(short(text, Math.floor((width - 8) / 5.9)), 5, BAR / 2, width - 8);
    boxes = [[0, 0, width, ABOVE]];
  }

  /** Draws the calls inside the one that fills the width. */
  function paintCalls(width, first, levels) {
    const { focus } = state;
    const [begin, length] = focus === null ? [0, tree.whole] : [tree.from[focus], tree.total[focus]];
    const scale = length ? width / length : 0;
    const [palette, kernel, rest, panel, low] = [kinds(), ...["compute", "idle", "panel", "line"].map(colour)];
    const tints = Object.fromEntries(Object.entries(KINDS).map(([kind, [k]]) => [kind, palette[k]]));
    const stack = focus === null ? [...tree.roots] : [focus];
    while (stack.length) {
      const i = Number(stack.pop());
      const [x0, x1] = [(tree.from[i] - begin) * scale, (tree.from[i] + tree.total[i] - begin) * scale];
      const level = tree.depth[i] - first + 1;
      if (x1 <= 0 || x0 >= width || x1 - x0 < 0.4 || level >= levels) continue;
      const [left, right, top] = [Math.max(0, x0), Math.min(x1, width), level * BAR];
      const ofKind = tree.kind[i] === "kernel" ? kernel : tints[tree.kind[i]] ?? rest;
      const tint = state.wanted === "" || isFound(i) ? ofKind : low;
      brush.fill(tint, left, top, right - left, BAR - 1);
      if (right - left > 3) brush.fill(panel, right - 0.5, top, 0.5, BAR - 1);
      brush.text(tree.name[i], left, top, right - left, BAR - 1, tint);
      boxes.push([left, top, right - left, i]);
      stack.push(...tree.inside(i));
    }
    brush.flush();
  }

  function paint() {
    const { focus } = state;
    const [first, last] = focus === null ? [1, tree.levels] : [tree.depth[focus], tree.deepest[focus]];
    const levels = Math.min(last - first + 2, MOST_LEVELS);
    const width = frame.clientWidth;
    sizeCanvas(canvas, width, levels * BAR + 2);
    paintAbove(width);
    paintCalls(width, first, levels);
    const [left, top, wide] = boxes.find((box) => box[3] === state.selected) ?? [];
    if (wide !== undefined) strokeFrame(ctx, colour("ink"), left + 1, top + 1, Math.max(2, wide - 2), BAR - 3);
    back.disabled = focus === null;
    const share = (i) => `${short(tree.name[i], 40)} ${percent(tree.total[i] / (tree.whole || 1))}`;
    const largest = tree.roots.slice(0, 3).map(share).join(", ");
    canvas.setAttribute("aria-label", `Flame graph of ${choice.time[1]}: ${ns(tree.whole)}; the largest: ${largest}`);
  }

  function select(i) {
    state.selected = i;
    // what is chosen by keys must be seen
    const isSeen = () => i === null || around(i).includes(state.focus);
    while (state.focus !== null && !isSeen()) state.focus = tree.parents[state.focus];
    const [name, ...more] = i === null ? [] : told(i);
    detail.replaceChildren(...(name === undefined ? [] : [make("b", { class: "mono" }, ...linked(name, true))]),
      ...more.map((text) => make("div", {}, text)));
    paint();
  }

  const at = (e) => {
    const box = canvas.getBoundingClientRect();
    const [px, py] = [e.clientX - box.left, e.clientY - box.top];
    const isAt = ([left, y, width]) => px >= left && px < left + Math.max(width, 1) && py >= y && py < y + BAR;
    return { node: boxes.find(isAt)?.[3] ?? null, px, py };
  };
  canvas.addEventListener("pointermove", (e) => {
    const { node, px, py } = at(e);
    const isAbove = node === ABOVE;
    canvas.style.cursor = node === null || (isAbove && state.focus === null) ? "default" : "pointer";
    moveLabel(label, node === null || isAbove ? [] : told(node), px, py, canvas.clientWidth);
  });
  canvas.addEventListener("pointerleave", () => { label.hidden = true; });
  // a click fills the width; one on what fills it, or on the line above it, leads out again
  canvas.addEventListener("click", (e) => {
    const { node } = at(e);
    if (node === null) return;
    const isOut = node === ABOVE || node === state.focus;
    state.focus = !isOut ? node : state.focus === null ? null : tree.parents[state.focus];
    label.hidden = true;
    select(node === ABOVE ? state.focus : node);
  });
  followKeys(canvas, () => {
    if (tree.roots.length === 0) return {};
    const isFirst = state.selected === null;
    const now = isFirst ? tree.roots[0] : state.selected;
    const siblings = tree.inside(tree.parents[now]);
    const go = (to) => () => select(isFirst ? now : to);
    const beside = (by) => siblings[between(0, siblings.indexOf(now) + by, siblings.length - 1)];
    return {
      ArrowDown: go(tree.inside(now)[0] ?? now), ArrowUp: () => select(isFirst ? null : tree.parents[now] ?? now),
      ArrowRight: go(beside(1)), ArrowLeft: go(beside(-1)),
      Enter: () => { state.focus = state.selected; paint(); }, Escape: () => { state.focus = null; select(null); },
    };
  });
  charts.push({ render: paint });
  f.table(grid, "call trees");
}
