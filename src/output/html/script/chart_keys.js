// Keys of charts: arrows walk over the values, Enter does what a click does, digits show and hide a series, + and - zoom.

import { pointsOf, textOf } from "page/chart_text.js";

/** Makes a chart follow keys. `tell` is given the words of the value that was walked to; `clicked` is as in `addChart`. */
export function walkByKeys(element, tell, clicked) {
  // the value that was walked to: series, and place in the series
  let [series, at] = [0, -1];

  const shown = () => element.data.map((s, curve) => (s.visible === "legendonly" ? [] : pointsOf(s, curve)));

  function walk(bySeries, by) {
    const all = shown();
    const used = all.map((_, k) => k).filter((k) => all[k].length);
    if (used.length === 0) return;
    const now = Math.max(0, used.indexOf(series));
    series = used[Math.min(Math.max(now + bySeries, 0), used.length - 1)];
    at = Math.min(Math.max(at + by, 0), all[series].length - 1);
    const p = all[series][at];
    Plotly.Fx.hover(element, [Array.isArray(p.at) ? { curveNumber: p.curve, xval: p.x, yval: p.y } : { curveNumber: p.curve, pointNumber: p.at }]);
    tell(textOf(p.label));
  }

  function choose() {
    const p = (shown()[series] || [])[at];
    if (p && clicked) clicked({ curveNumber: p.curve, pointNumber: p.at, x: p.x, y: p.y });
  }

  function hide(index) {
    const named = element.data.map((_, k) => k).filter((k) => element.data[k].showlegend !== false);
    const k = named[index];
    if (k === undefined || named.length < 2) return;
    const isHidden = element.data[k].visible === "legendonly";
    Plotly.restyle(element, { visible: isHidden ? true : "legendonly" }, [k]);
    tell(`${textOf(element.data[k].name)} ${isHidden ? "shown" : "hidden"}`);
  }

  function zoom(factor) {
    const axis = element.layout.xaxis;
    const [from, until] = element._fullLayout.xaxis.range;
    const p = (shown()[series] || [])[at];
    const middle = p && axis.type !== "log" ? Number(p.x) : (from + until) / 2;
    const half = (until - from) / factor / 2;
    Plotly.relayout(element, { "xaxis.range": [middle - half, middle + half] });
  }

  element.addEventListener("blur", () => { if (at >= 0) Plotly.Fx.unhover(element); });
  element.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const keys = {
      ArrowRight: () => walk(0, 1), ArrowLeft: () => walk(0, -1), ArrowDown: () => walk(1, 0), ArrowUp: () => walk(-1, 0),
      Enter: choose, "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6),
      0: () => Plotly.relayout(element, { "xaxis.autorange": true, "yaxis.autorange": element.data.some((s) => s.type === "heatmap") ? "reversed" : true }),
      s: () => Plotly.downloadImage(element, { format: "png", filename: "chart" }),
      Escape: () => Plotly.Fx.unhover(element),
    };
    const act = keys[e.key] || (/^[1-9]$/.test(e.key) ? () => hide(Number(e.key) - 1) : null);
    if (!act || e.target !== element) return;
    e.preventDefault();
    act();
  });
}
