// Draws what lies over the rows of the time axis: waits with their arrows, marks of causes, what is chosen, the axis.

import { axisUnit } from "page/format.js";
import { AXIS } from "page/timeline/geometry.js";
import { LEVEL } from "page/timeline/rows.js";

function paintArrow(g, { ctx, tints }, from, to, at, isStrong) {
  const [y0, y1] = [from, to].map((row) => row.height / 2 + g.topOf(row));
  const px = g.x(at);
  if (from === to || px < g.gutter() || px > g.width) return;
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

/** Arrows from late ranks to those that wait for them; those of the lane that is `looked` at are strong. */
export function paintWaits(g, brush, looked) {
  for (const row of g.rows) {
    if (row.kind !== "lane") continue;
    for (const w of row.lane.waits) {
      const [x0, x1] = [g.x(w.start), g.x(w.start + w.dur)];
      if (x1 < g.gutter() || x0 > g.width || x1 - x0 < 0.5) continue;
      const late = g.step.ofRank.get(w.late);
      const from = late && g.rowOf(late);
      const isStrong = looked && (looked.lane === row.lane || looked.lane === late);
      if (from && (isStrong || (g.rows.length <= 24 && x1 - x0 > 6))) paintArrow(g, brush, from, row, w.start + w.dur, isStrong);
    }
  }
}

/** Numbers of the causes at their places; gives where each is drawn. */
export function paintMarks(g, { ctx, tints }) {
  ctx.font = "bold 10.5px system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const drawn = [];
  for (const row of g.rows) {
    const marks = row.kind === "lane" ? row.lane.marks : row.kind === "host" && !g.open.has(row.key) ? row.lanes.flatMap((l) => l.marks) : [];
    const used = new Map();
    for (const m of marks) {
      const px = g.x(Math.min(Math.max(m.place.from, g.from), g.until));
      if (g.x(m.place.until) < g.gutter() || g.x(m.place.from) > g.width) continue;
      const slot = Math.round(px / 18);
      const shift = used.get(slot) || 0;
      used.set(slot, shift + 1);
      const [cx, cy] = [Math.min(Math.max(px + 8, g.gutter() + 9), g.width - 9) + shift * 17, g.topOf(row) + Math.min(row.height / 2, 10)];
      if (cy < AXIS + 4 || cy > g.height) continue;
      ctx.beginPath();
      ctx.arc(cx, cy, 8, 0, 2 * Math.PI);
      ctx.fillStyle = tints.panel;
      ctx.fill();
      ctx.lineWidth = 1.5;
      ctx.strokeStyle = tints.ink;
      ctx.stroke();
      ctx.fillStyle = tints.ink;
      ctx.fillText(String(m.cause + 1), cx, cy + 0.5);
      drawn.push({ x: cx, y: cy, mark: m });
    }
  }
  return drawn;
}

/** A frame around what is chosen. */
export function paintChosen(g, { ctx, tints }, chosen) {
  const row = g.rowOfChosen(chosen);
  if (!row) return;
  const top = g.topOf(row);
  const [x0, x1] = [Math.max(g.x(chosen.from), g.gutter()), Math.min(g.x(chosen.until), g.width)];
  const [y, h] = chosen.span === undefined ? [top, row.height - 1] : [top + 2 + LEVEL * (g.model.spans.depth[chosen.span] - row.track.least), LEVEL + 1];
  if (x1 <= x0) return;
  ctx.strokeStyle = tints.ink;
  ctx.lineWidth = 2;
  ctx.strokeRect(x0, y, Math.max(3, x1 - x0), h);
}

export function paintAxis(g, { ctx, tints }) {
  const [left, width] = [g.gutter(), g.width];
  ctx.fillStyle = tints.panel;
  ctx.fillRect(0, 0, width, AXIS);
  const rough = (g.until - g.from) / Math.max(2, (width - left) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const every = [1, 2, 5, 10].map((f) => f * power).find((f) => f >= rough);
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const [unit, size] = axisUnit([g.from, g.until]);
  const digits = Math.max(0, Math.ceil(-Math.log10(every / size) - 1e-9));
  for (let k = Math.ceil(g.from / every); k * every < g.until; k++) {
    const at = g.x(k * every);
    ctx.fillStyle = tints.line;
    ctx.fillRect(at, AXIS - 6, 1, 6);
    ctx.fillStyle = tints.soft;
    ctx.fillText(`${((k * every) / size).toFixed(digits)} ${unit}`, at + 3, 9);
  }
  ctx.fillStyle = tints.line;
  ctx.fillRect(0, AXIS - 1, width, 1);
}
