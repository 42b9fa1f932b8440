// The menu of sections: what does not fit beside the others is in a list that unfolds. The section that is
// being read is marked.

import { byId, make } from "page/dom.js";

/** Makes the menu of sections, pairs of an id and a name, and keeps it as wide as the window. */
export function makeMenu(sections) {
  const nav = byId("contents");
  const links = sections.map(([id, name]) => make("a", { href: `#${id}` }, name));
  const list = make("div", { class: "list" });
  const summary = make("summary", {}, "More");
  const more = make("details", {}, summary, list);
  const fits = () => nav.scrollWidth <= nav.clientWidth;
  const fit = () => {
    more.hidden = true;
    nav.replaceChildren(...links, more);
    if (fits()) return;
    more.hidden = false;
    const shown = links.slice();
    // the widest text that it may have, so that it fits with any
    summary.textContent = `More (${links.length})`;
    while (shown.length > 1 && !fits()) list.prepend(/** @type {any} */ (shown.pop()));
    summary.textContent = `More (${links.length - shown.length})`;
  };
  list.addEventListener("click", () => { more.open = false; });
  more.addEventListener("keydown", (e) => {
    if (e.key !== "Escape") return;
    more.open = false;
    summary.focus();
  });
  document.addEventListener("click", (e) => { if (!more.contains(/** @type {Node} */ (e.target))) more.open = false; });
  window.addEventListener("resize", fit);
  fit();
  followReading(links);
}

/** Marks the link of the section that is being read. */
function followReading(links) {
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) {
      if (!e.isIntersecting) continue;
      for (const link of links) link.removeAttribute("aria-current");
      links.find((a) => a.getAttribute("href") === `#${e.target.id}`)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const link of links) seen.observe(byId(link.getAttribute("href").slice(1)));
}
