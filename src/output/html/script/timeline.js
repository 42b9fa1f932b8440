// The time axis on a canvas: zoom, pan, folding, keys, what is under the pointer, and what is chosen.

const AXIS = 24;
const MANY = 32;

/** Draws a step of a model into `where`; `chosen` is told what the reader chose. */
function makeTimeline(where, model, chosen) {
  const canvas = make("canvas", { class: "lanes", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": "", "aria-describedby": "timeline-keys" });
  const spacer = make("div", {}, canvas);
  const view = make("div", { class: "lanes-view" }, spacer);
  const label = make("div", { class: "lanes-label", hidden: "", "aria-hidden": "true" });
  where.append(make("div", { class: "lanes-frame" }, view, label));
  const ctx = canvas.getContext("2d");
  const state = { step: model.steps[0], from: 0, until: 1, open: new Set(), rows: [], selected: null, hover: null, width: 0, height: 0, frames: 0 };
  const gutter = () => (isNarrow() ? 74 : 132);
  const folds = () => state.step.lanes.length > MANY;

  function hostOf(lane) {
    return lane.host || `ranks ${Math.floor(lane.rank / 8) * 8} to ${Math.floor(lane.rank / 8) * 8 + 7}`;
  }

  function layout() {
    const rows = [];
    const few = state.step.lanes.length <= 16;
    const laneRows = (lane, depth) => {
      rows.push({ kind: "lane", lane, depth, height: few ? 30 : 18, key: `lane ${lane.index}` });
      if (!state.open.has(`lane ${lane.index}`)) return;
      for (const track of lane.tracks) rows.push({ kind: "track", lane, track, depth: depth + 1, height: 6 + 13 * track.levels });
    };
    if (folds()) {
      const hosts = new Map();
      for (const lane of state.step.lanes) hosts.set(hostOf(lane), [...(hosts.get(hostOf(lane)) || []), lane]);
      for (const [host, lanes] of hosts) {
        rows.push({ kind: "host", host, lanes, depth: 0, height: 20, key: `host ${host}` });
        if (state.open.has(`host ${host}`)) for (const lane of lanes) laneRows(lane, 1);
      }
    } else for (const lane of state.step.lanes) laneRows(lane, 0);
    let y = AXIS;
    for (const row of rows) {
      row.y = y;
      y += row.height;
    }
    state.rows = rows;
    state.total = y + 4;
  }

  function fit() {
    [state.from, state.until] = [state.step.begin, state.step.until];
    const pad = Math.max(1, (state.until - state.from) * 0.005);
    state.from -= pad;
    state.until += pad;
  }

  const limits = () => {
    const whole = state.step.until - state.step.begin;
    return [state.step.begin - whole * 0.15, state.step.until + whole * 0.05];
  };

  function look(from, until) {
    const [low, high] = limits();
    const length = Math.min(Math.max(until - from, 20), high - low);
    state.from = Math.min(Math.max(from, low), high - length);
    state.until = state.from + length;
    draw();
  }

  function zoom(factor, at = (state.from + state.until) / 2) {
    look(at - (at - state.from) / factor, at + (state.until - at) / factor);
  }

  const pan = (share) => look(state.from + (state.until - state.from) * share, state.until + (state.until - state.from) * share);
  const scale = () => (state.width - gutter()) / (state.until - state.from);
  const x = (t) => gutter() + (t - state.from) * scale();

  let waiting = false;
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      paint();
    });
  }

  function resize() {
    layout();
    const room = Math.min(state.total, Math.max(240, Math.round(window.innerHeight * 0.62)));
    [state.width, state.height] = [view.clientWidth || where.clientWidth, room];
    view.style.height = `${room}px`;
    spacer.style.height = `${state.total}px`;
    const sharp = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(state.width * sharp);
    canvas.height = Math.round(room * sharp);
    canvas.style.width = `${state.width}px`;
    canvas.style.height = `${room}px`;
    ctx.setTransform(sharp, 0, 0, sharp, 0, 0);
  }

  // rectangles by colour: a canvas is slow to change colours, and fast to fill
  let fills = new Map();
  function fill(tint, left, top, width, height) {
    let list = fills.get(tint);
    if (!list) fills.set(tint, (list = []));
    list.push(left, top, width, height);
  }
  function flush() {
    for (const [tint, list] of fills) {
      ctx.fillStyle = tint;
      for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    }
    fills = new Map();
  }

  const tints = {};
  function readTints() {
    for (const key of [...PART_KEYS, "ink", "soft", "line", "panel", "late", "low", "focus", "paper"]) tints[key] = colour(key);
    tints.parts = PART_KEYS.map((k) => tints[k]);
    tints.kinds = kinds();
  }
  const causeTint = (cause) => (CAUSE_TINTS.has(cause) ? tints.kinds[CAUSE_TINTS.get(cause)] : null);

  /** Parts of a time, one on the other, by their share. */
  function stack(times, left, top, width, height) {
    const whole = times[0] + times[1] + times[2] + times[3];
    if (whole <= 0) return;
    let y = top;
    for (let p = 0; p < 4; p++) {
      if (times[p] <= 0) continue;
      const part = (height * times[p]) / whole;
      fill(tints.parts[p], left, y, width, part);
      y += part;
    }
  }

  function paintLane(lane, top, height, texts) {
    const [a, s, left, right] = [state.from, scale(), gutter(), state.width];
    const pixel = [0, 0, 0, 0];
    const foot = height < 20 ? 3 : 5;
    let at = -1;
    const flushPixel = () => {
      if (at >= 0) stack(pixel, at, top, 1, height);
      pixel.fill(0);
    };
    const last = lane.end;
    for (let b = blockAt(model, lane, state.from); b < last; b++) {
      const x0 = left + (model.starts[b] - a) * s;
      if (x0 >= right) break;
      const w = model.durs[b] * s;
      if (w < 1) {
        const px = Math.floor(x0);
        if (px !== at) {
          flushPixel();
          at = px;
        }
        for (let p = 0; p < 4; p++) pixel[p] += model.time(b, p);
        continue;
      }
      flushPixel();
      at = -1;
      const x1 = Math.max(x0, left);
      const width = Math.min(x0 + w, right) - x1;
      if (width <= 0) continue;
      const many = model.pieces(b) > 1;
      if (many) stack(model.times(b), x1, top, width, height);
      else fill(tints.parts[model.parts[b]], x1, top, width, height);
      const tint = model.causes[b] ? causeTint(model.causes[b]) : null;
      if (tint && width > 2) fill(tint, x1, top + height - foot, width, foot);
      if (width > 46 && height >= 14) texts.push([many ? `${count(model.pieces(b))} pieces` : model.names[b] || words(model.causes[b] || LANE_PARTS[model.parts[b]]), x1, top, width, height, tints.parts[model.parts[b]]]);
      // an edge between neighbours of one colour
      if (width > 4) fill(tints.panel, x1 + width - 0.5, top, 0.5, height);
    }
    flushPixel();
  }

  function paintHost(lanes, top, height) {
    const [a, s, left] = [state.from, scale(), gutter()];
    const cells = Math.max(1, Math.ceil((state.width - left) / 3));
    const sums = new Float64Array(cells * 4);
    const size = (state.until - state.from) / cells;
    for (const lane of lanes) {
      for (let b = blockAt(model, lane, a); b < lane.end; b++) {
        const start = Math.max(model.starts[b], a);
        if (start >= state.until) break;
        const end = Math.min(model.starts[b] + model.durs[b], state.until);
        for (let c = Math.floor((start - a) / size); c < cells && a + c * size < end; c++) {
          if (c < 0) continue;
          const share = (Math.min(end, a + (c + 1) * size) - Math.max(start, a + c * size)) / model.durs[b];
          if (share > 0) for (let p = 0; p < 4; p++) sums[c * 4 + p] += share * model.time(b, p);
        }
      }
    }
    for (let c = 0; c < cells; c++) {
      const of = sums.subarray(c * 4, c * 4 + 4);
      // what is missing of the lanes' time is before or after their steps
      stack(of, left + c * size * s, top, size * s + 0.5, (height * (of[0] + of[1] + of[2] + of[3])) / (size * lanes.length));
    }
  }

  const SPAN_TINTS = { kernel: "compute", memcpy: "memory", memset: "memory", operator: 2, runtime_call: 1, python: 4, annotation: 9, collective: "communication" };
  const spanTint = (kind) => (typeof SPAN_TINTS[kind] === "number" ? tints.kinds[SPAN_TINTS[kind]] : tints[SPAN_TINTS[kind]]);
  const isTransfer = (name) => /nccl|rccl|oneccl|allreduce|all_reduce|allgather|reduce_scatter/i.test(name);

  function paintTrack(row, top, texts) {
    const { start, dur, depth, name, class: kind } = model.spans;
    const { track } = row;
    for (let i = track.first; i < track.end; i++) {
      const x0 = x(start[i]);
      if (x0 >= state.width) break;
      const x1 = Math.max(x0, gutter());
      const width = Math.max(0.7, Math.min(x(start[i] + dur[i]), state.width) - x1);
      const level = depth[i] - track.least;
      if (x(start[i] + dur[i]) <= gutter() || level >= track.levels) continue;
      const tint = kind[i] === "kernel" && isTransfer(name[i]) ? tints.communication : spanTint(kind[i]);
      fill(tint, x1, top + 3 + 13 * level, width, 12);
      if (width > 40) texts.push([name[i], x1, top + 3 + 13 * level, width, 12, tint]);
      if (width > 4) fill(tints.panel, x1 + width - 0.5, top + 3 + 13 * level, 0.5, 12);
    }
  }

  function paintTexts(texts) {
    ctx.font = "10.5px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const [text, left, top, width, height, tint] of texts) {
      const letters = Math.floor((width - 8) / 5.6);
      if (letters < 4) continue;
      ctx.fillStyle = inkOn(tint);
      ctx.fillText(short(text, letters), left + 4, top + height / 2 + 0.5, width - 6);
    }
  }

  function paintAxis() {
    const [left, width] = [gutter(), state.width];
    ctx.fillStyle = tints.panel;
    ctx.fillRect(0, 0, width, AXIS);
    const span = state.until - state.from;
    const rough = span / Math.max(2, (width - left) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const every = [1, 2, 5, 10].map((f) => f * power).find((f) => f >= rough);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const [unit, size] = axisUnit([state.from, state.until]);
    const digits = Math.max(0, Math.ceil(-Math.log10(every / size) - 1e-9));
    for (let k = Math.ceil(state.from / every); k * every < state.until; k++) {
      const at = x(k * every);
      ctx.fillStyle = tints.line;
      ctx.fillRect(at, AXIS - 6, 1, 6);
      ctx.fillStyle = tints.soft;
      ctx.fillText(`${((k * every) / size).toFixed(digits)} ${unit}`, at + 3, 9);
    }
    ctx.fillStyle = tints.line;
    ctx.fillRect(0, AXIS - 1, width, 1);
  }

  /** The row that shows a lane now: its own, or that of its host. */
  const rowOf = (lane) => state.rows.find((r) => (r.kind === "lane" && r.lane === lane) || (r.kind === "host" && !state.open.has(r.key) && r.lanes.includes(lane)));

  function arrow(from, to, at, isStrong) {
    const [y0, y1] = [from.y + from.height / 2 - view.scrollTop, to.y + to.height / 2 - view.scrollTop];
    const px = x(at);
    if (from === to || px < gutter() || px > state.width) return;
    const down = y1 > y0 ? 1 : -1;
    const end = y1 - (down * Math.min(to.height, 20)) / 4;
    ctx.strokeStyle = ctx.fillStyle = tints.late;
    ctx.globalAlpha = isStrong ? 1 : 0.55;
    ctx.lineWidth = isStrong ? 2 : 1;
    ctx.beginPath();
    ctx.moveTo(px, y0);
    ctx.lineTo(px, end);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(px, end + down * 3);
    ctx.lineTo(px - 3.5, end - down * 4);
    ctx.lineTo(px + 3.5, end - down * 4);
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  function paintWaits() {
    const focus = state.selected || state.hover;
    for (const row of state.rows) {
      if (row.kind !== "lane") continue;
      const top = row.y - view.scrollTop;
      for (const w of row.lane.waits) {
        const [x0, x1] = [x(w.start), x(w.start + w.dur)];
        if (x1 < gutter() || x0 > state.width || x1 - x0 < 0.5) continue;
        if (top < state.height && top + row.height > AXIS) {
          ctx.fillStyle = tints.late;
          ctx.fillRect(Math.max(x0, gutter()), top + 2, Math.min(x1, state.width) - Math.max(x0, gutter()), 2.5);
        }
        const late = state.step.ofRank.get(w.late);
        const from = late && rowOf(late);
        const isStrong = focus && (focus.lane === row.lane || focus.lane === late);
        if (from && (isStrong || (state.rows.length <= 24 && x1 - x0 > 6))) arrow(from, row, w.start + w.dur, isStrong);
      }
    }
  }

  function paintMarks() {
    ctx.font = "bold 10.5px system-ui, sans-serif";
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    state.marks = [];
    for (const row of state.rows) {
      const marks = row.kind === "lane" ? row.lane.marks : row.kind === "host" && !state.open.has(row.key) ? row.lanes.flatMap((l) => l.marks) : [];
      const used = new Map();
      for (const m of marks) {
        const px = x(Math.min(Math.max(m.place.from, state.from), state.until));
        if (x(m.place.until) < gutter() || x(m.place.from) > state.width) continue;
        const slot = Math.round(px / 18);
        const shift = used.get(slot) || 0;
        used.set(slot, shift + 1);
        const [cx, cy] = [Math.min(Math.max(px + 8, gutter() + 9), state.width - 9) + shift * 17, row.y - view.scrollTop + Math.min(row.height / 2, 10)];
        if (cy < AXIS + 4 || cy > state.height) continue;
        ctx.beginPath();
        ctx.arc(cx, cy, 8, 0, 2 * Math.PI);
        ctx.fillStyle = tints.panel;
        ctx.fill();
        ctx.lineWidth = 1.5;
        ctx.strokeStyle = tints.ink;
        ctx.stroke();
        ctx.fillStyle = tints.ink;
        ctx.fillText(String(m.cause + 1), cx, cy + 0.5);
        state.marks.push({ x: cx, y: cy, mark: m });
      }
    }
  }

  function rowLabel(row) {
    if (row.kind === "host") return `${state.open.has(row.key) ? "▾" : "▸"} ${row.host} (${row.lanes.length})`;
    if (row.kind === "track") return row.track.name;
    const device = state.step.lanes.some((l) => l !== row.lane && l.rank === row.lane.rank) && row.lane.device !== null ? `:${row.lane.device}` : "";
    return `${row.lane.tracks.length ? (state.open.has(row.key) ? "▾ " : "▸ ") : ""}rank ${row.lane.rank}${device}`;
  }

  function paint() {
    if (state.width === 0) resize();
    readTints();
    state.frames += 1;
    canvas.dataset.frames = state.frames;
    ctx.clearRect(0, 0, state.width, state.height);
    const texts = [];
    for (const row of state.rows) {
      const top = row.y - view.scrollTop;
      if (top > state.height || top + row.height < AXIS) continue;
      if (row.kind === "lane") {
        fill(tints.low, gutter(), top + 1, state.width - gutter(), row.height - 3);
        paintLane(row.lane, top + 1, row.height - 3, texts);
      } else if (row.kind === "host") {
        fill(tints.low, gutter(), top + 1, state.width - gutter(), row.height - 3);
        paintHost(row.lanes, top + 1, row.height - 3);
      } else paintTrack(row, top, texts);
    }
    flush();
    paintTexts(texts);
    ctx.fillStyle = tints.panel;
    ctx.fillRect(0, 0, gutter(), state.height);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const row of state.rows) {
      const top = row.y - view.scrollTop;
      if (top > state.height || top + row.height < AXIS) continue;
      ctx.fillStyle = row.kind === "track" ? tints.soft : tints.ink;
      ctx.fillText(short(rowLabel(row), isNarrow() ? 11 : 21), 4 + 10 * row.depth, top + (row.kind === "track" ? 10 : row.height / 2), gutter() - 8 - 10 * row.depth);
    }
    paintWaits();
    paintMarks();
    const chosenNow = state.selected;
    if (chosenNow) {
      const row = chosenNow.row && state.rows.includes(chosenNow.row) ? chosenNow.row : rowOf(chosenNow.lane);
      if (row) {
        const top = row.y - view.scrollTop;
        const [x0, x1] = [Math.max(x(chosenNow.from), gutter()), Math.min(x(chosenNow.until), state.width)];
        const [y, h] = chosenNow.span === undefined ? [top, row.height - 1] : [top + 2 + 13 * (model.spans.depth[chosenNow.span] - row.track.least), 14];
        if (x1 > x0) {
          ctx.strokeStyle = tints.ink;
          ctx.lineWidth = 2;
          ctx.strokeRect(x0, y, Math.max(3, x1 - x0), h);
        }
      }
    }
    paintAxis();
  }

  /** What is at a point of the canvas. */
  function hit(px, py) {
    const y = py + view.scrollTop;
    const row = py < AXIS ? null : state.rows.find((r) => r.y <= y && y < r.y + r.height);
    const mark = (state.marks || []).find((m) => Math.hypot(m.x - px, m.y - py) <= 9);
    if (mark) return { mark: mark.mark, row };
    if (!row || px < gutter()) return { row, isLabel: true };
    const t = state.from + (px - gutter()) / scale();
    if (row.kind === "track") {
      const { start, dur, depth } = model.spans;
      const level = Math.floor((y - row.y - 3) / 13) + row.track.least;
      for (let i = row.track.first; i < row.track.end; i++) if (depth[i] === level && start[i] <= t && t <= Math.max(start[i] + dur[i], start[i] + 1 / scale())) return { row, lane: row.lane, span: i, from: start[i], until: start[i] + dur[i] };
      return { row };
    }
    if (row.kind === "host") return { row, t };
    const b = blockAt(model, row.lane, t);
    if (t < row.lane.start || t >= row.lane.until) return { row };
    return blockPlace(row.lane, b, row, t);
  }

  function blockPlace(lane, b, row, t = model.starts[b]) {
    const wait = lane.waits.find((w) => w.start <= t && t < w.start + w.dur);
    return { row, lane, block: b, from: model.starts[b], until: model.starts[b] + model.durs[b], wait };
  }

  /** What something is, in words, with exact values. */
  function told(found) {
    if (found.mark) return [`cause ${found.mark.cause + 1}`];
    if (found.span !== undefined) {
      const s = model.spans;
      return [s.name[found.span], `${words(s.class[found.span])}, ${ns(s.dur[found.span])} = ${exact("ns", s.dur[found.span])}`, `from ${exact("ns", s.start[found.span])}`];
    }
    if (found.block === undefined) return found.row && found.row.kind === "host" ? [`${found.row.host}: ${plural(found.row.lanes.length, "lane")}, shares of their time`] : [];
    const b = found.block;
    const out = [];
    const pieces = model.pieces(b);
    const part = LANE_PARTS[model.parts[b]];
    out.push(`rank ${found.lane.rank}: ${pieces > 1 ? `${count(pieces)} pieces` : part}, ${ns(model.durs[b])} = ${exact("ns", model.durs[b])}`);
    if (pieces > 1) {
      out.push(model.times(b).map((v, p) => (v ? `${LANE_PARTS[p]} ${exact("ns", v)}` : "")).filter((v) => v).join(", "));
      out.push(`longest: ${part}, ${exact("ns", model.longest(b))}`);
    }
    if (model.names[b]) out.push(model.names[b]);
    if (model.causes[b]) out.push(`cause: ${words(model.causes[b])}`);
    if (found.wait && !found.waiting) out.push(`waits ${exact("ns", found.wait.dur)} for rank ${found.wait.late} (${words(found.wait.kind)})`);
    out.push(`from ${exact("ns", model.starts[b])} of the step`);
    return out;
  }

  function showLabel(found, px, py) {
    const lines = told(found);
    label.hidden = lines.length === 0;
    if (label.hidden) return;
    label.replaceChildren(...lines.map((l) => make("div", {}, short(l, 160))));
    const wide = label.offsetWidth;
    label.style.left = `${Math.max(0, Math.min(px + 14, state.width - wide - 4))}px`;
    label.style.top = `${Math.min(py + 16, state.height - 10)}px`;
  }

  function select(found) {
    state.selected = found;
    draw();
    chosen(found ? { ...found, lines: told(found), name: found.span !== undefined ? model.spans.name[found.span] : found.block !== undefined ? model.names[found.block] : null, step: state.step } : null);
  }

  function toggle(row) {
    if (row.kind === "track" || (row.kind === "lane" && row.lane.tracks.length === 0)) return;
    if (!state.open.delete(row.key)) state.open.add(row.key);
    resize();
    draw();
  }

  // pointers: one drags, two pinch
  const held = new Map();
  let moved = 0;
  const point = (e) => {
    const box = canvas.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (e) => {
    held.set(e.pointerId, point(e));
    moved = 0;
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    const now = point(e);
    if (!held.has(e.pointerId)) {
      state.hover = hit(...now);
      canvas.style.cursor = state.hover.isLabel || state.hover.mark ? "pointer" : "grab";
      showLabel(state.hover, ...now);
      draw();
      return;
    }
    const before = held.get(e.pointerId);
    held.set(e.pointerId, now);
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    label.hidden = true;
    if (held.size === 1) {
      if (before[0] < gutter()) return;
      const by = (before[0] - now[0]) / scale();
      look(state.from + by, state.until + by);
      if (e.pointerType === "mouse") view.scrollTop += before[1] - now[1];
    } else {
      const other = [...held.entries()].find(([id]) => id !== e.pointerId)[1];
      const [was, is] = [Math.abs(before[0] - other[0]), Math.abs(now[0] - other[0])];
      if (was > 8 && is > 8) zoom(is / was, state.from + ((now[0] + other[0]) / 2 - gutter()) / scale());
    }
  });
  canvas.addEventListener("pointerup", (e) => {
    held.delete(e.pointerId);
    if (moved > 4) return;
    const found = hit(...point(e));
    if (found.mark) select({ ...found.mark.place, cause: found.mark.cause });
    else if (found.isLabel && found.row) toggle(found.row);
    else if (found.block !== undefined || found.span !== undefined) select(found);
    else if (found.row && found.row.kind === "host") toggle(found.row);
  });
  canvas.addEventListener("pointercancel", (e) => held.delete(e.pointerId));
  canvas.addEventListener("pointerleave", () => {
    label.hidden = true;
    state.hover = null;
    draw();
  });
  canvas.addEventListener("dblclick", (e) => {
    const found = hit(...point(e));
    if (found.from !== undefined) look(found.from - (found.until - found.from) * 0.3, found.until + (found.until - found.from) * 0.3);
  });
  canvas.addEventListener("wheel", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) {
      e.preventDefault();
      zoom(Math.exp(-e.deltaY / 300), state.from + (point(e)[0] - gutter()) / scale());
    } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      pan(e.deltaX / (state.width - gutter()));
    }
  }, { passive: false });
  view.addEventListener("scroll", () => { draw(); });

  function moveTo(row, t) {
    if (row.y - view.scrollTop < AXIS) view.scrollTop = row.y - AXIS;
    if (row.y + row.height - view.scrollTop > state.height) view.scrollTop = row.y + row.height - state.height;
    if (row.kind === "host") select({ row, lane: row.lanes[0], from: state.step.begin, until: state.step.until });
    else if (row.kind === "lane") select(blockPlace(row.lane, blockAt(model, row.lane, t), row));
    else {
      const near = model.spans.start.subarray(row.track.first, row.track.end).findIndex((s, i) => s + model.spans.dur[row.track.first + i] > t);
      const i = row.track.first + Math.max(0, near);
      select({ row, lane: row.lane, span: i, from: model.spans.start[i], until: model.spans.start[i] + model.spans.dur[i] });
    }
    const now = state.selected;
    if (now.from >= state.until || now.until <= state.from) look(now.from - (state.until - state.from) / 3, now.from + (2 * (state.until - state.from)) / 3);
  }

  canvas.addEventListener("keydown", (e) => {
    const now = state.selected;
    const at = now ? Math.max(0, state.rows.indexOf(now.row && state.rows.includes(now.row) ? now.row : rowOf(now.lane))) : 0;
    const t = now ? now.from : state.step.begin;
    const beside = (by) => {
      const row = state.rows[at];
      if (!now || row.kind === "host") return moveTo(row, t);
      if (row.kind === "lane") {
        const b = Math.min(Math.max(now.block + by, row.lane.first), row.lane.end - 1);
        return moveTo(row, model.starts[b]);
      }
      const i = Math.min(Math.max(now.span + by, row.track.first), row.track.end - 1);
      select({ row, lane: row.lane, span: i, from: model.spans.start[i], until: model.spans.start[i] + model.spans.dur[i] });
      return null;
    };
    const keys = {
      ArrowRight: () => beside(1), ArrowLeft: () => beside(-1),
      ArrowDown: () => moveTo(state.rows[Math.min(at + (now ? 1 : 0), state.rows.length - 1)], t),
      ArrowUp: () => moveTo(state.rows[Math.max(at - 1, 0)], t),
      "+": () => zoom(1.6, now ? (now.from + now.until) / 2 : undefined), "=": () => zoom(1.6, now ? (now.from + now.until) / 2 : undefined),
      "-": () => zoom(1 / 1.6), "0": () => { fit(); draw(); },
      PageDown: () => pan(0.5), PageUp: () => pan(-0.5),
      Enter: () => toggle(state.rows[at]), Escape: () => select(null),
    };
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    keys[e.key]();
  });

  function showStep(index) {
    state.step = model.steps[index];
    state.selected = state.hover = null;
    view.scrollTop = 0;
    fit();
    resize();
    const kindsSeen = [...new Set(state.step.lanes.flatMap((l) => l.waits.map((w) => w.late)))].sort((a, b) => a - b);
    canvas.setAttribute("aria-label", `Timeline of step ${state.step.label}, ${ns(state.step.length)}: ${plural(state.step.lanes.length, "lane")}${kindsSeen.length ? `; others wait for ranks ${kindsSeen.slice(0, 8).join(", ")}` : ""}`);
    draw();
  }

  /** Shows a place of a step: its lane unfolded, the stretch in the middle, and chosen. */
  function showPlace(index, place, cause) {
    if (state.step !== model.steps[index]) showStep(index);
    if (folds()) state.open.add(`host ${hostOf(place.lane)}`);
    if (place.lane.tracks.length) state.open.add(`lane ${place.lane.index}`);
    resize();
    const row = rowOf(place.lane);
    view.scrollTop = Math.max(0, row.y - AXIS - 40);
    const length = place.until - place.from;
    look(place.from - length, place.until + length);
    select({ ...place, row, cause });
    canvas.focus({ preventScroll: true });
  }

  return { state, showStep, showPlace, zoom, pan, fit: () => { fit(); draw(); }, render: () => { resize(); draw(); } };
}
