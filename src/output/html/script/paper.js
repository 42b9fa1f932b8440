// Printing: the page in its light colours and as wide as paper, whatever it is on the screen.

import { renderAll } from "page/chart.js";

/** Draws the page for paper before it is printed, and for the screen again afterwards. */
export function drawForPaper() {
  const root = document.documentElement;
  let themeOnScreen = null;
  window.addEventListener("beforeprint", () => {
    if (themeOnScreen !== null) return;
    themeOnScreen = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("on-paper");
    renderAll();
  });
  window.addEventListener("afterprint", () => {
    if (themeOnScreen === null) return;
    root.dataset.theme = themeOnScreen;
    themeOnScreen = null;
    root.classList.remove("on-paper");
    renderAll();
  });
}
