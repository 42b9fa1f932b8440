// Where things stand on the time axis: the rows of lanes, hosts and tracks, the stretch of time that is shown, and the
// pixels of both.

import { isNarrow } from "page/theme.js";

/** Height of the axis above the rows, in pixels. */
export const AXIS = 24;
/** With more lanes than this, those of a host share a row until it is unfolded. */
const MANY = 32;

/** The geometry of a step of a model. `top` tells how far the rows are scrolled; `changed` is called when it looks elsewhere. */
export function makeGeometry(model, top, changed) {
  const g = { model, step: model.steps[0], from: 0, until: 1, open: new Set(), rows: [], total: 0, width: 0, height: 0 };

  g.gutter = () => (isNarrow() ? 74 : 132);
  g.folds = () => g.step.lanes.length > MANY;
  g.hostOf = (lane) => lane.host || `ranks ${Math.floor(lane.rank / 8) * 8} to ${Math.floor(lane.rank / 8) * 8 + 7}`;

  g.layout = () => {
    const rows = [];
    const few = g.step.lanes.length <= 16;
    const laneRows = (lane, depth) => {
      rows.push({ kind: "lane", lane, depth, height: few ? 30 : 18, key: `lane ${lane.index}` });
      if (!g.open.has(`lane ${lane.index}`)) return;
      for (const track of lane.tracks) rows.push({ kind: "track", lane, track, depth: depth + 1, height: 6 + 13 * track.levels });
    };
    if (g.folds()) {
      const hosts = new Map();
      for (const lane of g.step.lanes) hosts.set(g.hostOf(lane), [...(hosts.get(g.hostOf(lane)) || []), lane]);
      for (const [host, lanes] of hosts) {
        rows.push({ kind: "host", host, lanes, depth: 0, height: 20, key: `host ${host}` });
        if (g.open.has(`host ${host}`)) for (const lane of lanes) laneRows(lane, 1);
      }
    } else for (const lane of g.step.lanes) laneRows(lane, 0);
    let y = AXIS;
    for (const row of rows) {
      row.y = y;
      y += row.height;
    }
    g.rows = rows;
    g.total = y + 4;
  };

  /** Shows the whole step. */
  g.fit = () => {
    const pad = Math.max(1, (g.step.until - g.step.begin) * 0.005);
    [g.from, g.until] = [g.step.begin - pad, g.step.until + pad];
  };

  g.look = (from, until) => {
    const whole = g.step.until - g.step.begin;
    const [low, high] = [g.step.begin - whole * 0.15, g.step.until + whole * 0.05];
    const length = Math.min(Math.max(until - from, 20), high - low);
    g.from = Math.min(Math.max(from, low), high - length);
    g.until = g.from + length;
    changed();
  };
  g.zoom = (factor, at = (g.from + g.until) / 2) => g.look(at - (at - g.from) / factor, at + (g.until - at) / factor);
  g.pan = (share) => g.look(g.from + (g.until - g.from) * share, g.until + (g.until - g.from) * share);

  /** Pixels of a nanosecond. */
  g.scale = () => (g.width - g.gutter()) / (g.until - g.from);
  g.x = (t) => g.gutter() + (t - g.from) * g.scale();
  g.timeAt = (px) => g.from + (px - g.gutter()) / g.scale();
  g.topOf = (row) => row.y - top();
  g.isSeen = (row) => g.topOf(row) <= g.height && g.topOf(row) + row.height >= AXIS;

  /** The row that shows a lane now: its own, or that of its host. */
  g.rowOf = (lane) => g.rows.find((r) => (r.kind === "lane" && r.lane === lane) || (r.kind === "host" && !g.open.has(r.key) && r.lanes.includes(lane)));
  g.rowAt = (py) => (py < AXIS ? null : g.rows.find((r) => g.topOf(r) <= py && py < g.topOf(r) + r.height));
  /** The row of what is chosen: the one it was chosen on, if that is still there. */
  g.rowOfChosen = (chosen) => (chosen.row && g.rows.includes(chosen.row) ? chosen.row : g.rowOf(chosen.lane));
  return g;
}
