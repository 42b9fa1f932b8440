// What the canvases of the timeline and the flame graph share: sharp pixels, rectangles and texts, and a label that
// follows the pointer.

import { make } from "page/dom.js";
import { short } from "page/format.js";
import { inkOn } from "page/theme.js";

/** A canvas that keys reach. `role`: what it is for a screen reader. */
export const makeCanvas = (kind, role, attributes = {}) => make("canvas", {
  class: kind, tabindex: "0", role: "application", "aria-roledescription": role, "aria-label": "", ...attributes,
});

/** Gives a canvas a size in pixels of the page. */
export function sizeCanvas(canvas, width, height) {
  const sharp = Math.min(2, window.devicePixelRatio || 1);
  [canvas.width, canvas.height] = [Math.round(width * sharp), Math.round(height * sharp)];
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  canvas.getContext("2d").setTransform(sharp, 0, 0, sharp, 0, 0);
}

/** How the next texts are written; their places are the middles of their lines. */
export function setFont(ctx, font, align = "left") {
  Object.assign(ctx, { font: `${font} system-ui, sans-serif`, textAlign: align, textBaseline: "middle" });
}

/** Gathers rectangles and texts; `flush` draws them, rectangles first: a canvas is slow to change colours. */
export class Brush {
  fills = new Map();
  /** @type {any[]} */
  texts = [];

  constructor(ctx) {
    this.ctx = ctx;
  }

  fill(tint, left, top, width, height) {
    let list = this.fills.get(tint);
    if (!list) this.fills.set(tint, (list = []));
    list.push(left, top, width, height);
  }

  /** A text on a rectangle of a colour, shortened to what fits; `isBacked`: on a ground of its own. */
  text(text, left, top, width, height, tint, isBacked = false) {
    this.texts.push([text, left, top, width, height, tint, isBacked]);
  }

  flush() {
    const { ctx } = this;
    for (const [tint, list] of this.fills) {
      ctx.fillStyle = tint;
      for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    }
    setFont(ctx, "10.5px");
    for (const [text, left, top, width, height, tint, isBacked] of this.texts) {
      const letters = Math.floor((width - 8) / 5.6);
      if (letters < 4) continue;
      const cut = short(text, letters);
      if (isBacked) {
        ctx.fillStyle = tint;
        ctx.fillRect(left + 2, top + height / 2 - 6, Math.min(width - 4, ctx.measureText(cut).width + 4), 12);
      }
      ctx.fillStyle = inkOn(tint);
      ctx.fillText(cut, left + 4, top + height / 2 + 0.5, width - 6);
    }
    [this.fills, this.texts] = [new Map(), []];
  }
}

/** A frame around a rectangle. */
export function strokeFrame(ctx, tint, left, top, width, height) {
  Object.assign(ctx, { strokeStyle: tint, lineWidth: 2 });
  ctx.strokeRect(left, top, width, height);
}

/** A label over a canvas, which is hidden until it is moved. */
export const makeLabel = () => make("div", { class: "lanes-label", hidden: "", "aria-hidden": "true" });

/** Shows lines of text beside a point of a canvas of some width; without lines it hides the label. */
export function moveLabel(label, lines, x, y, width) {
  label.hidden = lines.length === 0;
  if (label.hidden) return;
  label.replaceChildren(...lines.map((l) => make("div", {}, short(l, 160))));
  label.style.left = `${Math.max(0, Math.min(x + 14, width - label.offsetWidth - 4))}px`;
  label.style.top = `${y + 16}px`;
}
