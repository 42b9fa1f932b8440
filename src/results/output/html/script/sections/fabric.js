// Places of the network by host and rail: how many times slower the groups that pass them are.

import { addChart, heatMap, outline, rowLabel } from "page/chart.js";
import { names, plain } from "page/format.js";
import { colour } from "page/theme.js";

/** Rows and columns of the map beside hosts and rails: what is of all hosts, and of a whole host. */
const [SWITCH, HOST, INSIDE] = ["switch of the rail", "all of the host", "inside the host"];
/** A factor that is shown in full colour: chance alone must not look like a slow place. */
const CLEAR = 1.5;
const TOLD = ["kind", "visible", "set_size", "groups", "factor", "p_value", "verdict"];

/** Where a place stands in the map; a link stands between two. */
const cellOf = (row) => ({
  nic: [row("host"), row("rail")], host: [row("host"), HOST], nvl: [row("host"), INSIDE], rail: [SWITCH, row("rail")],
})[row("kind")];

/** Whether a place has a value: what others show alike has none of its own, unless it is slow. */
const isKnown = (row) => row("visible") === "alone" || row("verdict") !== null;

export function fabricSection(f) {
  const { places } = f.grids;
  const placed = places.list().filter((row) => cellOf(row) && !cellOf(row).includes(null));
  const of = (name) => [...new Set(placed.map((row) => row(name)))].filter((v) => v !== null).sort(names.compare);
  const [rows, columns] = [[SWITCH, ...of("host")], [HOST, INSIDE, ...of("rail")]];
  if (placed.some(isKnown)) {
    addChart(f.body, () => map(places, placed, rows, columns));
    f.note("Outlined: slow places. Several of one set cannot be told apart: one of them, or what they share, is slow.");
  }
  f.table(places);
}

function map(grid, placed, rows, columns) {
  const nameOf = ([row, column]) => {
    if (row === SWITCH) return `rail ${column}`;
    return [HOST, INSIDE].includes(column) ? `${row}, ${column}` : `${row}, NIC of rail ${column}`;
  };
  const cells = placed.map((row) => {
    const label = rowLabel(grid, row, nameOf(cellOf(row)), TOLD);
    return [...cellOf(row), isKnown(row) ? row("factor") : null, label];
  });
  const { data: [known], layout, ...drawn } = heatMap({
    rows, columns, cells, key: "late", title: "times slower", unit: "", low: 1, high: CLEAR,
    xTitle: "rail", yTitle: "host",
    says: `Map of ${rows.length - 1} hosts by ${columns.length - 2} rails: how many times slower`,
  });
  const isPlace = (row, column) => row !== SWITCH || ![HOST, INSIDE].includes(column);
  const grey = known.z.map((line, y) => line.map((v, x) => (v === null && isPlace(rows[y], columns[x]) ? 0 : null)));
  const text = known.text.map((line, y) => line.map((label, x) =>
    label || `<b>${plain(nameOf([rows[y], columns[x]]))}</b><br>no group of the job shows it`));
  const tint = colour("idle");
  const unknown = { ...known, z: grey, text, colorscale: [[0, tint], [1, tint]], showscale: false };
  const slow = placed.filter((row) => row("verdict") !== null).map(cellOf);
  const shapes = slow.map(([row, column]) => outline(columns.indexOf(column), rows.indexOf(row)));
  return { data: [unknown, known], layout: { ...layout, shapes }, ...drawn };
}
