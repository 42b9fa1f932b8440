// Commands that repeat what the page shows, for the shell of the reader.

import { make } from "page/format.js";

/** A word for a shell, whatever it has in it. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replace(/'/g, "'\\''")}'`);

/** The folder of the results, in which the page lies. */
export function resultsFolder() {
  const place = location.pathname.split("/").at(-2) || "";
  let folder = place;
  try { folder = decodeURIComponent(place); } catch { /* it is not UTF-8, and is shown as it is */ }
  return folder || "hta-out";
}

/** The command that lists rows of a table again. */
export const rowsCommand = (table, filter) => `hta query ${quoted(`SELECT * FROM ${table}${filter ? ` WHERE ${filter}` : ""}`)} ${quoted(resultsFolder())}`;

/** A command to copy. */
export const commandLine = (text) => make("code", { class: "command", tabindex: "0", title: "command that repeats it; select to copy" }, text);
