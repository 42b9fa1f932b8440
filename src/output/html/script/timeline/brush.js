// What fills the canvas of the time axis: its colours, rectangles gathered by colour, and texts on them.

/** Gathers rectangles and texts; `flush` draws them, rectangles first. */
function makeBrush(ctx) {
  // a canvas is slow to change colours, and fast to fill
  let fills = new Map();
  let texts = [];
  const brush = { ctx, tints: {} };

  /** Reads the colours of the page's theme. */
  brush.readTints = () => {
    const { tints } = brush;
    for (const key of [...PART_KEYS, "ink", "soft", "line", "panel", "late", "low", "focus", "paper"]) tints[key] = colour(key);
    tints.parts = PART_KEYS.map((k) => tints[k]);
    tints.kinds = kinds();
  };

  brush.fill = (tint, left, top, width, height) => {
    let list = fills.get(tint);
    if (!list) fills.set(tint, (list = []));
    list.push(left, top, width, height);
  };

  /** Parts of a time, one on the other, by their share. */
  brush.stack = (times, left, top, width, height) => {
    const whole = times[0] + times[1] + times[2] + times[3];
    if (whole <= 0) return;
    let y = top;
    for (let p = 0; p < 4; p++) {
      if (times[p] <= 0) continue;
      const part = (height * times[p]) / whole;
      brush.fill(brush.tints.parts[p], left, y, width, part);
      y += part;
    }
  };

  /** A text on a rectangle of a colour, shortened to what fits. */
  brush.text = (text, left, top, width, height, tint) => texts.push([text, left, top, width, height, tint]);

  brush.flush = () => {
    for (const [tint, list] of fills) {
      ctx.fillStyle = tint;
      for (let i = 0; i < list.length; i += 4) ctx.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    }
    fills = new Map();
    ctx.font = "10.5px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const [text, left, top, width, height, tint] of texts) {
      const letters = Math.floor((width - 8) / 5.6);
      if (letters < 4) continue;
      ctx.fillStyle = inkOn(tint);
      ctx.fillText(short(text, letters), left + 4, top + height / 2 + 0.5, width - 6);
    }
    texts = [];
  };
  return brush;
}
