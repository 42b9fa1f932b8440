// What fills the canvas of the time axis: its colours, rectangles gathered by colour, and texts on them.

import { make, short } from "page/format.js";
import { colour, inkOn, kinds } from "page/theme.js";
import { PART_KEYS, WAITING } from "page/timeline/model.js";

/** The parts of a block from top to bottom: waiting for other ranks is beside the transfer. */
export const STACKED = [0, 1, WAITING, 2, 3];
const hatches = new Map();

/** A colour with stripes of another, as what a canvas fills with. */
function hatch(ground, stripes) {
  const key = `${ground} ${stripes}`;
  if (!hatches.has(key)) {
    const tile = make("canvas", { width: 8, height: 8 });
    const ctx = tile.getContext("2d");
    ctx.fillStyle = ground;
    ctx.fillRect(0, 0, 8, 8);
    ctx.strokeStyle = stripes;
    ctx.lineWidth = 2.4;
    ctx.beginPath();
    for (const x of [-8, 0, 8]) {
      ctx.moveTo(x - 2, 10);
      ctx.lineTo(x + 10, -2);
    }
    ctx.stroke();
    hatches.set(key, ctx.createPattern(tile, "repeat"));
  }
  return hatches.get(key);
}

/** Gathers rectangles and texts; `flush` draws them, rectangles first. */
export function makeBrush(ctx) {
  // a canvas is slow to change colours, and fast to fill
  let fills = new Map();
  let texts = [];
  const brush = { ctx, tints: {} };

  /** Reads the colours of the page's theme. */
  brush.readTints = () => {
    const { tints } = brush;
    for (const key of [...PART_KEYS, "ink", "soft", "line", "panel", "late", "low", "focus", "paper"]) tints[key] = colour(key);
    tints.parts = [...PART_KEYS.map((k) => tints[k]), hatch(tints.communication, tints.late)];
    tints.kinds = kinds();
  };

  brush.fill = (tint, left, top, width, height) => {
    let list = fills.get(tint);
    if (!list) fills.set(tint, (list = []));
    list.push(left, top, width, height);
  };

  /** Parts of a time, one on the other, by their share. */
  brush.stack = (times, left, top, width, height) => {
    const whole = times[0] + times[1] + times[2] + times[3] + times[WAITING];
    if (whole <= 0) return;
    let y = top;
    for (const p of STACKED) {
      if (times[p] <= 0) continue;
      const part = (height * times[p]) / whole;
      brush.fill(brush.tints.parts[p], left, y, width, part);
      y += part;
    }
  };

  /** A text on a rectangle of a colour, shortened to what fits; `isBacked`: on a ground of its own. */
  brush.text = (text, left, top, width, height, tint, isBacked) => texts.push([text, left, top, width, height, tint, isBacked]);

  brush.flush = () => {
    for (const [tint, list] of fills) {
      ctx.fillStyle = tint;
      for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    }
    fills = new Map();
    ctx.font = "10.5px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const [text, left, top, width, height, tint, isBacked] of texts) {
      const letters = Math.floor((width - 8) / 5.6);
      if (letters < 4) continue;
      const shown = short(text, letters);
      if (isBacked) {
        ctx.fillStyle = tint;
        ctx.fillRect(left + 2, top + height / 2 - 6, Math.min(width - 4, ctx.measureText(shown).width + 4), 12);
      }
      ctx.fillStyle = inkOn(tint);
      ctx.fillText(shown, left + 4, top + height / 2 + 0.5, width - 6);
    }
    texts = [];
  };
  return brush;
}
