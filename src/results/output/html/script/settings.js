// The settings at the top of the page: theme, editor, and folder of sources; and the page on paper, which is light.

import { renderAll } from "page/chart.js";
import { data } from "page/data.js";
import { byId } from "page/dom.js";
import { aimAll, source } from "page/source.js";

/** What a reader chose before, in this browser; nothing where it keeps nothing. */
const memory = {
  get(name) {
    try { return localStorage.getItem(`hta.${name}`); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(`hta.${name}`, value); } catch { /* it is only not remembered */ }
  },
};

const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function setTheme(choice) {
  root.dataset.theme = choice === "dark" || (choice !== "light" && prefersDark.matches) ? "dark" : "light";
}

function themes() {
  const chosen = byId("theme");
  chosen.value = memory.get("theme") || "system";
  if (chosen.selectedIndex < 0) chosen.value = "system";
  setTheme(chosen.value);
  const draw = () => {
    setTheme(chosen.value);
    renderAll();
  };
  chosen.addEventListener("change", () => {
    memory.set("theme", chosen.value);
    draw();
  });
  prefersDark.addEventListener("change", draw);
}

function editors() {
  const editor = byId("editor");
  editor.value = data.editor;
  source.editor = editor.value;
  editor.addEventListener("change", () => {
    source.editor = editor.value;
    aimAll();
  });
  const folder = byId("source-root");
  folder.value = data.source_root || memory.get("source-root") || "";
  source.root = folder.value;
  folder.addEventListener("input", () => {
    source.root = folder.value;
    memory.set("source-root", folder.value);
    aimAll();
  });
}

/** Draws the page for paper before it is printed, and for the screen again afterwards. */
function drawForPaper() {
  /** @type {string | undefined} */
  let themeOnScreen;
  window.addEventListener("beforeprint", () => {
    if (themeOnScreen !== undefined) return;
    themeOnScreen = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("on-paper");
    renderAll();
  });
  window.addEventListener("afterprint", () => {
    if (themeOnScreen === undefined) return;
    root.dataset.theme = themeOnScreen;
    themeOnScreen = undefined;
    root.classList.remove("on-paper");
    renderAll();
  });
}

export function settings() {
  themes();
  editors();
  drawForPaper();
  document.querySelector(".settings")?.addEventListener("submit", (e) => e.preventDefault());
}
