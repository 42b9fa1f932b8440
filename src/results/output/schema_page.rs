//! The schema page: every table and column with type, unit and meaning, as Markdown, generated from the
//! declarations with which the tables are written. `docs/reference/tables.md` is a copy; a test keeps it
//! current.

use crate::diff::DIFF;
use crate::output::events::{BASE_COLUMNS, EVENTS_DOC, EVENTS_ORDER, REST_COLUMN};
use hta_analysis::inventory;
use hta_base::table::schema::TableSpec;
use hta_compat::{ANSWERS, Compat};
use hta_diagnosis::registry::ANALYSES;
use hta_trace::args::ARGS;
use std::fmt::Write;

const HEAD: &str = "\
# Tables and columns

`hta explain schema` prints this page; it is generated from the declarations of the tables. The metadata of \
every Parquet
file has the same units and meanings: `unit` and `description` of a column, `table`, `description` and \
`sorted_by` of a
table.

- Times are integer nanoseconds on the rank's own clock; subtract `ranks.clock_offset_ns` to compare ranks. \
Tables
  across ranks are aligned already.
- Spans are half open: `ts_ns` is in, `ts_ns + dur_ns` is not.
- Missing is null, never -1. A `?` after a type says that a column may be null.
- `i64`, `u64`, `u32` and `f64` are Parquet's INT64, unsigned INT64, unsigned INT32 and DOUBLE; `text` is \
UTF-8, dictionary
  encoded (a categorical in pandas and Polars); `json` is text that holds JSON.

`tables/NAME.parquet` of a results folder is the table NAME of this page, where that has rows; `summary.json` \
lists the tables without rows as `empty_tables`. `events/*.parquet` are the table `events`.
";

pub fn page() -> String {
    let mut out = HEAD.to_string();
    section(&mut out, "Every run", "hta analyze");
    for spec in inventory::TABLES {
        table(&mut out, spec);
    }
    events(&mut out);
    for analysis in ANALYSES {
        section(&mut out, analysis.about().title, &format!("hta {}", analysis.stem()));
        analysis.tables().iter().for_each(|spec| table(&mut out, spec));
    }
    section(&mut out, "Two runs compared", "hta diff");
    DIFF.tables().iter().for_each(|spec| table(&mut out, spec));
    let answers = |out: &mut String, by: Compat| {
        ANSWERS
            .iter()
            .filter(|(of, _)| *of == by)
            .flat_map(|(_, a)| a.tables())
            .for_each(|spec| table(out, spec));
    };
    section(&mut out, "By the method of the TensorBoard plugin", "hta communication --method shortest");
    answers(&mut out, Compat::TensorBoard);
    for tool in Compat::TOOLS {
        section(&mut out, "In the definitions of another tool", &format!("--compat {}", tool.name()));
        answers(&mut out, tool);
    }
    out
}

fn section(out: &mut String, title: &str, command: &str) {
    let _ = writeln!(out, "\n## {} (`{command}`)", upper_first(title));
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

fn head(out: &mut String, name: &str, doc: &str, order: &str) {
    let _ = writeln!(out, "\n### {name}\n\n{} Sorted by {order}.\n", sentence(doc.trim()));
    out.push_str("| column | type | unit | meaning |\n|---|---|---|---|\n");
}

/// The text with a full stop at its end.
fn sentence(text: &str) -> String {
    let text = upper_first(text);
    if text.ends_with(['.', ':', '!']) { text } else { format!("{text}.") }
}

fn table(out: &mut String, spec: &TableSpec) {
    head(out, spec.name, spec.doc, spec.order);
    for c in spec.columns {
        column(out, c.name, c.kind, c.nullable, c.unit, c.doc);
    }
}

fn events(out: &mut String) {
    head(out, "events", EVENTS_DOC, EVENTS_ORDER);
    for (name, kind, unit, doc) in BASE_COLUMNS {
        column(out, name, kind, *name != "rank", unit, doc);
    }
    for a in ARGS {
        column(out, a.column, a.ty.name(), true, a.unit, a.doc);
    }
    column(out, REST_COLUMN.0, "json", true, "", REST_COLUMN.1);
}

fn column(out: &mut String, name: &str, kind: &str, nullable: bool, unit: &str, doc: &str) {
    let mark = if nullable { "?" } else { "" };
    let doc = doc.trim().replace('|', "\\|");
    let _ = writeln!(out, "| `{name}` | {kind}{mark} | {unit} | {doc} |");
}
