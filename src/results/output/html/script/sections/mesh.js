// The mesh: where each rank is, and the group of a rank along a dimension.

import { addChart, heatMap, outline, rowLabel } from "page/chart.js";
import { addSelect } from "page/dom.js";
import { inLines, names, plural } from "page/format.js";
import { kinds } from "page/theme.js";

/** Sources of families that are no dimension. */
const NONE = ["one rank", "irregular", "partial", "contradicted"];
/** Ranks in a row where hosts are not known. */
const ROW = 8;

/** The program of a rank or dimension, in a job of several; empty in others. */
const programOf = (row) => [row("role"), row("replica")].filter((v) => v !== null).join(" ");

/** Dimensions whose neighbours are equally far apart, each once: others with the same members are left out. */
function dimensionsOf(grid) {
  const all = new Map();
  for (const row of grid.list().sort((a, b) => b("stride") - a("stride"))) {
    const [size, stride, program] = [row("size"), row("stride"), programOf(row)];
    const key = `${program} ${size}@${stride}`;
    if (stride === null || NONE.includes(row("source")) || all.has(key)) continue;
    const own = row("dimension") || row("description") || `${size} ranks at distance ${stride}`;
    all.set(key, { name: program ? `${program}: ${own}` : own, size, stride, program });
  }
  return [...all.values()];
}

/** Coordinate of a rank along a dimension, and the first rank of its group; nothing in another program. */
function coordinate({ size, stride, program }, row) {
  if (programOf(row) !== program) return { at: null, first: null };
  const rank = row("role_rank") ?? row("rank");
  const at = Math.floor(rank / stride) % size;
  return { at, first: rank - at * stride };
}

export function meshSection(f) {
  const { dimensions, places } = f.grids;
  const all = dimensionsOf(dimensions);
  if (all.length > 0 && places.rows > 1) map(f, all, places);
  f.table(dimensions);
  f.table(places);
}

function map(f, dimensions, places) {
  // the dimension, and the rank that was clicked
  let [dimension, chosen] = [dimensions[0], null];
  const ranks = places.list();
  const isHosted = ranks.every((row) => row("host") !== null && row("local_rank") !== null);
  const place = isHosted ? (row) => [row("host"), row("local_rank")]
    : (row) => [`${row("rank") - row("rank") % ROW}`, row("rank") % ROW];
  const [rows, columns] = [0, 1].map((i) => [...new Set(ranks.map((row) => place(row)[i]))].sort(names.compare));
  const options = dimensions.map((d, i) => [i, `${d.name}, ${plural(d.size, "rank")}`]);
  const choose = (i) => { [dimension, chosen] = [dimensions[i], null]; chart.render(); };
  addSelect(f.controls(), "Dimension", options, choose);
  const chart = addChart(f.body, () => {
    const { name, size } = dimension;
    const groups = new Map();
    for (const row of ranks) {
      const { first } = coordinate(dimension, row);
      groups.set(first, [...groups.get(first) ?? [], row]);
    }
    const cells = ranks.map((row) => {
      const { at, first } = coordinate(dimension, row);
      const label = rowLabel(places, row, `rank ${row("rank")}`, ["role", "role_rank", "place", "host", "device"]);
      const group = groups.get(first).map((of) => of("rank")).join(", ");
      return [...place(row), at, at === null ? label : `${label}<br>${inLines(`${name} ${at} of ranks ${group}`)}`];
    });
    const { layout, ...drawn } = heatMap({
      rows, columns, cells, key: "compute", tints: size <= 10 ? kinds().slice(0, size) : null,
      title: "coordinate", unit: "", xTitle: isHosted ? "rank of its host" : "hosts are not known: from that rank on",
      yTitle: isHosted ? "host" : "rank",
      says: `Map of ${plural(rows.length, isHosted ? "host" : "row")} by ${plural(columns.length, "rank")}: ${name}`,
    });
    const first = chosen && coordinate(dimension, chosen).first;
    const shapes = first === null ? [] : groups.get(first).map((row) => {
      const [y, x] = place(row);
      return outline(columns.indexOf(x), rows.indexOf(y));
    });
    return { ...drawn, layout: { ...layout, shapes } };
  }, ({ x, y }) => {
    chosen = ranks.find((row) => place(row)[0] === rows[y] && place(row)[1] === columns[x]) ?? chosen;
    chart.render();
  });
  f.note("A click on a rank outlines its group along the dimension.");
}
