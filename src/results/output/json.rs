//! `summary.json`: verdict, causes, totals and health for programs; also single tables as JSON or CSV.

use crate::output::visible;
use crate::run::Outcome;
use arrow_array::{ArrayRef, RecordBatch};
use hta_analysis::api;
use hta_analysis::inventory::Ranks;
use hta_base::health::Counter;
use hta_base::table::column::{Column, ColumnCells};
use hta_base::table::schema::{Batch, TableSpec};
use hta_base::wording::ranks::rank_list;
use hta_job::recording::capability::{Capability, Grade};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of refused files that the summary lists.
const MOST_REFUSED: usize = 100;

/// Version of the names of tables and columns.
const SCHEMA_VERSION: u32 = 2;

/// The summary of a run. Its size does not depend on the number of ranks; details are in the tables.
pub(crate) fn summary(outcome: &Outcome, empty_tables: &[&str]) -> Value {
    #[derive(Default)]
    struct CounterSummary<'a> {
        count: u64,
        ranks: BTreeSet<u32>,
        first_file: &'a str,
        example: &'a str,
    }
    // Counters of the set and (true) of its ranks.
    let mut kinds: BTreeMap<(bool, Counter), CounterSummary> = BTreeMap::new();
    for (counter, tally) in outcome.set_health.iter() {
        kinds.insert(
            (false, counter),
            CounterSummary { count: tally.count, example: &tally.example, ..CounterSummary::default() },
        );
    }
    for (rank, file, health) in &outcome.rank_health {
        for (counter, tally) in health.iter() {
            let first =
                || CounterSummary { first_file: file, example: &tally.example, ..CounterSummary::default() };
            let kind = kinds.entry((true, counter)).or_insert_with(first);
            kind.count += tally.count;
            kind.ranks.insert(*rank);
        }
    }
    let health = kinds.iter().map(|((_, counter), kind)| {
        let spec = counter.spec();
        json!({
            "counter": spec.name, "severity": spec.severity.name(), "count": kind.count,
            "rank_count": kind.ranks.len(), "first_file": kind.first_file, "example": kind.example,
        })
    });
    let refused = outcome.refused.iter().take(MOST_REFUSED).map(|r| {
        let reason = r.error.to_string();
        json!({ "file": r.input.shown, "reason": reason, "named": r.input.named, "is_loss": r.is_loss() })
    });
    let ranks = outcome.ranks();
    let rows = || api::rows::<Ranks>(&outcome.inventory);
    json!({
        // They have no file.
        "empty_tables": empty_tables,
        "event_count": rows().map(|r| r.event_count).sum::<u64>(),
        "health": health.collect::<Vec<_>>(),
        "hta_version": env!("CARGO_PKG_VERSION"),
        "rank_count": ranks.len(),
        "ranks": rank_list(&ranks),
        "refused": refused.collect::<Vec<_>>(),
        "refused_count": outcome.refused.len(),
        // docs/renamed-columns.md has the names of earlier versions.
        "schema_version": SCHEMA_VERSION,
        "trust": trust(outcome),
        "unpacked_bytes": outcome.unpacked_bytes,
        "verdict": outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref()),
        "world_size": rows().filter_map(|r| r.world_size).max(),
    })
}

/// The grade of each capability with the reason, of each analysis that needs one, and the ranks that are left
/// out.
fn trust(outcome: &Outcome) -> Value {
    let graded = Capability::ALL.iter().map(|capability| {
        let value = match outcome.recording.reason(*capability) {
            None => json!({ "grade": Grade::Ok.name() }),
            Some(l) => {
                json!({ "grade": l.grade.name(), "rule": l.rule, "reason": l.sentence, "next": l.next })
            }
        };
        (capability.name().to_string(), value)
    });
    let needing = outcome.outputs.iter().filter(|(analysis, _)| !analysis.about().needs.is_empty());
    let analyses = needing.map(|(analysis, o)| (analysis.stem().to_string(), json!(o.trust.grade.name())));
    let left_out: Vec<u32> = outcome.recording.left_out().into_iter().collect();
    json!({
        "analyses": analyses.collect::<serde_json::Map<_, _>>(),
        "capabilities": graded.collect::<serde_json::Map<_, _>>(),
        "left_out_ranks": rank_list(&left_out),
    })
}

/// A cell; without a column where tables have no columns of its type.
struct JsonCell<'a> {
    column: Option<Column<'a>>,
    row: usize,
}

impl Serialize for JsonCell<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let row = self.row;
        let Some(c) = &self.column else { return to.serialize_unit() };
        match c.cells {
            ColumnCells::F64(_) => c.float(row).serialize(to),
            ColumnCells::U64(_) => c.uint(row).serialize(to),
            ColumnCells::Bool(_) => c.int(row).map(|v| v != 0).serialize(to),
            ColumnCells::Text(..) => c.text(row).serialize(to),
            _ => c.int(row).serialize(to),
        }
    }
}

/// The value of a cell.
pub fn cell(array: &ArrayRef, row: usize) -> Value {
    // Serializing a cell cannot fail.
    serde_json::to_value(JsonCell { column: Column::new(array), row }).unwrap_or(Value::Null)
}

/// A number that is none of JSON, as DuckDB writes it.
pub(crate) fn infinite(array: &ArrayRef, row: usize) -> Option<&'static str> {
    let number = Column::new(array)?.float(row)?;
    Some(match number {
        f64::INFINITY => "inf",
        f64::NEG_INFINITY => "-inf",
        v if v.is_nan() => "nan",
        _ => return None,
    })
}

/// Rows of a batch as JSON objects.
pub fn records(batch: &Batch) -> Vec<Value> {
    let rows = batch.rows();
    let record = |row| -> Value {
        // Columns are in the order of the declaration.
        let columns = batch.spec.columns.iter().zip(rows.columns());
        let pairs = columns.map(|(c, array)| (c.name.to_string(), cell(array, row)));
        Value::Object(pairs.collect())
    };
    (0..batch.len()).map(record).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvStyle {
    /// Unchanged, except for invisible characters.
    Plain,
    /// With a `'` before texts that a spreadsheet would interpret as a formula.
    ForSpreadsheets,
}

/// A table as CSV (RFC 4180), with a header line even if there are no rows.
pub fn csv(spec: &TableSpec, batches: &[&Batch], style: CsvStyle) -> String {
    let names: Vec<&str> = spec.columns.iter().map(|c| c.name).collect();
    let rows: Vec<RecordBatch> = batches.iter().map(|b| b.rows()).collect();
    csv_of(&names, &rows, style)
}

/// Rows of batches with these columns, as CSV.
pub(crate) fn csv_of<'a>(
    names: &[&str],
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    style: CsvStyle,
) -> String {
    let mut out = String::new();
    let mut line = |cells: Vec<String>| {
        out.push_str(&cells.join(","));
        out.push('\n');
    };
    line(names.iter().map(|n| quoted(n, style)).collect());
    for rows in batches {
        for row in 0..rows.num_rows() {
            let text = |array| match cell(array, row) {
                Value::Null => infinite(array, row).unwrap_or_default().to_string(),
                Value::String(s) => quoted(&s, style),
                other => other.to_string(),
            };
            line(rows.columns().iter().map(text).collect());
        }
    }
    out
}

/// Rows of texts as CSV, with a header line. A text that is a number is no formula.
pub fn csv_lines(names: &[&str], rows: &[Vec<String>], style: CsvStyle) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut out = line(names.iter().map(|n| quoted(n, style)).collect());
    out.extend(
        rows.iter().map(|row| line(row.iter().map(|cell| quoted(cell, style_of(cell, style))).collect())),
    );
    out
}

fn style_of(cell: &str, style: CsvStyle) -> CsvStyle {
    if cell.parse::<f64>().is_ok() { CsvStyle::Plain } else { style }
}

/// A text as a CSV cell, quoted where necessary.
fn quoted(text: &str, style: CsvStyle) -> String {
    let is_formula = style == CsvStyle::ForSpreadsheets && text.starts_with(['=', '+', '-', '@']);
    let text =
        if is_formula { format!("'{}", visible::line(text)) } else { visible::line(text).into_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("a", CsvStyle::Plain), "a");
        assert_eq!(quoted("f<a, b>(\"x\")", CsvStyle::Plain), "\"f<a, b>(\"\"x\"\")\"");
        assert_eq!(quoted("a\n\u{9b}b", CsvStyle::Plain), r"a\n\u{9b}b");
    }

    #[test]
    fn formulas_are_marked_as_texts_where_that_is_asked_for() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)"] {
            assert_eq!(quoted(text, CsvStyle::Plain), text);
            assert_eq!(quoted(text, CsvStyle::ForSpreadsheets), format!("'{text}"));
        }
        assert_eq!(quoted("=f(\"a\",b)", CsvStyle::ForSpreadsheets), "\"'=f(\"\"a\"\",b)\"");
        assert_eq!(quoted("a=b", CsvStyle::ForSpreadsheets), "a=b");
        let row = ["-1.5", "-1.5 + f"].map(str::to_string).to_vec();
        assert_eq!(csv_lines(&["a", "b"], &[row], CsvStyle::ForSpreadsheets), "a,b\n-1.5,'-1.5 + f\n");
    }
}
