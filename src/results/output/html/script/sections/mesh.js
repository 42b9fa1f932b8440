// The mesh: where each rank is, and the group of a rank along a dimension.

import { addChart, heatMap, outline, rowLabel } from "page/chart.js";
import { addSelect } from "page/dom.js";
import { inLines, names, plural } from "page/format.js";
import { kinds } from "page/theme.js";

/** What a family is known from if it is a dimension; other families are irregular, partial or contradicted. */
const SOURCES = ["description", "use", "shape"];
/** Ranks in a row where hosts are not known. */
const ROW = 8;

/** Dimensions whose neighbours are equally far apart, each once: others with the same members are left out. */
function dimensionsOf(grid) {
  const all = new Map();
  for (const row of grid.list().sort((a, b) => b("stride") - a("stride"))) {
    const [size, stride] = [row("size"), row("stride")];
    if (stride === null || !SOURCES.includes(row("source")) || all.has(`${size}@${stride}`)) continue;
    const name = row("dimension") || row("description") || `${size} ranks at distance ${stride}`;
    const at = (rank) => Math.floor(rank / stride) % size;
    all.set(`${size}@${stride}`, { name, size, at, first: (rank) => rank - at(rank) * stride });
  }
  return [...all.values()];
}

export function meshSection(f) {
  const { dimensions, places } = f.grids;
  const all = dimensionsOf(dimensions);
  if (all.length > 0 && places.rows > 1) map(f, all, places);
  f.table(dimensions);
  f.table(places);
}

function map(f, dimensions, places) {
  /** @type {[any, number | null]} */
  let [dimension, chosen] = [dimensions[0], null];
  const ranks = places.list();
  const isHosted = ranks.every((row) => row("host") !== null && row("local_rank") !== null);
  const place = isHosted ? (row) => [row("host"), row("local_rank")]
    : (row) => [`${row("rank") - row("rank") % ROW}`, row("rank") % ROW];
  const [rows, columns] = [0, 1].map((i) => [...new Set(ranks.map((row) => place(row)[i]))].sort(names.compare));
  const members = (rank) => ranks.filter((row) => dimension.first(row("rank")) === dimension.first(rank));
  const choose = (wanted) => { [dimension, chosen] = [dimensions[wanted], null]; chart.render(); };
  addSelect(f.controls(), "Dimension", dimensions.map((d, i) => [i, `${d.name}, ${plural(d.size, "rank")}`]), choose);
  const told = ["place", "host", "local_rank", "device"];
  const chart = addChart(f.body, () => {
    const { name, size, at } = dimension;
    const cells = ranks.map((row) => {
      const group = members(row("rank")).map((of) => of("rank")).join(", ");
      return [...place(row), at(row("rank")), `${rowLabel(places, row, `rank ${row("rank")}`, told)}<br>`
        + `${inLines(`${name} ${at(row("rank"))} of ranks ${group}`)}`];
    });
    const { layout, ...drawn } = heatMap({
      rows, columns, cells, key: "compute", tints: size <= 10 ? kinds().slice(0, size) : null, title: name, unit: "",
      xTitle: isHosted ? "rank of its host" : "hosts are not known: from that rank on",
      yTitle: isHosted ? "host" : "rank",
      says: `Map of ${plural(rows.length, isHosted ? "host" : "row")} by ${plural(columns.length, "rank")}: ${name}`,
    });
    const shapes = chosen === null ? [] : members(chosen).map((row) => {
      const [y, x] = place(row);
      return outline(columns.indexOf(x), rows.indexOf(y));
    });
    return { ...drawn, layout: { ...layout, shapes } };
  }, ({ x, y }) => {
    const row = ranks.find((of) => place(of)[0] === rows[y] && place(of)[1] === columns[x]);
    if (row) chosen = row("rank");
    chart.render();
  });
  f.note("A click on a rank outlines its group along the dimension.");
}
