// Pointers on the time axis: one drags, two pinch, a wheel zooms, a click chooses or unfolds.

/** Makes a canvas follow pointers. `find` tells what is at a point; `acts`: what the time axis does then. */
export function followPointers(canvas, view, g, find, acts) {
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
      const found = find(...now);
      canvas.style.cursor = found.isLabel || found.mark ? "pointer" : "grab";
      acts.hover(found, ...now);
      return;
    }
    const before = held.get(e.pointerId);
    held.set(e.pointerId, now);
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    acts.hideLabel();
    if (held.size === 1) {
      if (before[0] < g.gutter()) return;
      const by = (before[0] - now[0]) / g.scale();
      g.look(g.from + by, g.until + by);
      if (e.pointerType === "mouse") view.scrollTop += before[1] - now[1];
    } else {
      const other = [...held.entries()].find(([id]) => id !== e.pointerId)[1];
      const [was, is] = [Math.abs(before[0] - other[0]), Math.abs(now[0] - other[0])];
      if (was > 8 && is > 8) g.zoom(is / was, g.timeAt((now[0] + other[0]) / 2));
    }
  });
  canvas.addEventListener("pointerup", (e) => {
    held.delete(e.pointerId);
    if (moved > 4) return;
    const found = find(...point(e));
    if (found.mark) acts.select({ ...found.mark.place, cause: found.mark.cause });
    else if (found.isLabel && found.row) acts.toggle(found.row);
    else if (found.block !== undefined || found.span !== undefined) acts.select(found);
    else if (found.row && found.row.kind === "host") acts.toggle(found.row);
  });
  canvas.addEventListener("pointercancel", (e) => held.delete(e.pointerId));
  canvas.addEventListener("pointerleave", () => acts.leave());
  canvas.addEventListener("dblclick", (e) => {
    const found = find(...point(e));
    if (found.from !== undefined) g.look(found.from - (found.until - found.from) * 0.3, found.until + (found.until - found.from) * 0.3);
  });
  canvas.addEventListener("wheel", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) {
      e.preventDefault();
      g.zoom(Math.exp(-e.deltaY / 300), g.timeAt(point(e)[0]));
    } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      g.pan(e.deltaX / (g.width - g.gutter()));
    }
  }, { passive: false });
}
