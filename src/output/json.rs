//! `summary.json`: findings, health and the summary tables for programs; also single tables as JSON or CSV.
//!
//! The summary of a thousand ranks has hundreds of megabytes, so it is never completely in memory: rows are written
//! directly from their batches, and each analysis' answer waits in an unnamed temporary file until the rest of the
//! summary is known.

use crate::output::text::findings;
use crate::output::visible;
use crate::run::Outcome;
use crate::table::column::Column;
use crate::table::schema::{Batch, TableSpec};
use arrow_array::{ArrayRef, RecordBatch};
use serde::ser::{Serialize, Serializer};
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::rc::Rc;

/// Writes the summary of a run; `answers` writes the value of `analyses`.
///
/// # Errors
/// When it cannot be written.
pub fn summary<W: Write>(
    out: &mut W,
    outcome: &Outcome,
    answers: impl FnOnce(&mut W) -> io::Result<()>,
) -> io::Result<()> {
    let health = outcome.rank_health.iter().flat_map(|(rank, file, health)| {
        health.iter().map(move |(counter, tally)| {
            json!({
                "rank": rank, "file": file, "counter": counter.spec().name,
                "severity": counter.spec().severity.name(), "count": tally.count,
                "first_byte": tally.first_byte,
                "example": if tally.example.is_empty() { Value::Null } else { json!(tally.example) },
            })
        })
    });
    let set = outcome.set_health.iter().map(|(counter, tally)| {
        json!({
            "rank": null, "file": null, "counter": counter.spec().name,
            "severity": counter.spec().severity.name(), "count": tally.count, "example": tally.example,
        })
    });
    let refused: Vec<Value> = outcome
        .refused
        .iter()
        .map(|r| {
            let reason = r.error.to_string();
            json!({ "file": r.input.shown, "reason": reason, "named": r.input.named, "is_loss": r.is_loss() })
        })
        .collect();
    let ranks: Vec<&Batch> = outcome.inventory.iter().filter_map(|p| p.tables.first()).collect();
    // Fields are in alphabetical order, as everywhere in the file.
    out.write_all(b"{\n  \"analyses\": ")?;
    answers(out)?;
    field(out, "findings", &serde_json::to_value(findings(outcome))?)?;
    field(out, "health", &SerializeIter::new(set.chain(health)))?;
    field(out, "hta_version", &env!("CARGO_PKG_VERSION"))?;
    field(out, "ranks", &Rows(ranks))?;
    field(out, "refused", &refused)?;
    out.write_all(b"\n}\n")
}

fn field(out: &mut impl Write, name: &str, value: &impl Serialize) -> io::Result<()> {
    write!(out, ",\n  \"{name}\": ")?;
    pretty(out, value, 1)
}

/// Writes a value that stands `depth` levels deep, in the layout of serde_json.
fn pretty(out: &mut impl Write, value: &impl Serialize, depth: usize) -> io::Result<()> {
    let mut layout = PrettyFormatter::new();
    (0..depth).try_for_each(|_| layout.begin_object(&mut io::sink()))?;
    value.serialize(&mut serde_json::Serializer::with_formatter(out, layout)).map_err(io::Error::from)
}

/// Rows of batches of one table as a list of objects, whose fields are in alphabetical order.
#[derive(Default)]
struct Rows<'a>(Vec<&'a Batch>);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().flat_map(|batch| {
            let mut columns: Vec<(&str, Option<Column>)> =
                batch.spec.columns.iter().map(|c| c.name).zip(batch.rows.columns().iter().map(Column::new)).collect();
            columns.sort_unstable_by_key(|(name, _)| *name);
            let columns = Rc::new(columns);
            (0..batch.len()).map(move |row| Record { columns: Rc::clone(&columns), row })
        }))
    }
}

/// A row as an object.
struct Record<'a> {
    columns: Rc<Vec<(&'a str, Option<Column<'a>>)>>,
    row: usize,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.columns.iter().map(|(name, column)| (name, Cell { column: *column, row: self.row })))
    }
}

/// A cell; without a column where tables have no columns of its type.
struct Cell<'a> {
    column: Option<Column<'a>>,
    row: usize,
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let row = self.row;
        match &self.column {
            None => to.serialize_unit(),
            Some(c @ Column::F64(_)) => c.float(row).serialize(to),
            Some(c @ Column::U64(_)) => c.uint(row).serialize(to),
            Some(c @ Column::Bool(_)) => c.int(row).map(|v| v != 0).serialize(to),
            Some(c @ Column::Text(..)) => c.text(row).serialize(to),
            Some(c) => c.int(row).serialize(to),
        }
    }
}

/// Answers of the analyses that wait for the summary, in a file without a name.
pub struct Answers {
    file: BufWriter<File>,
    /// Offset and length of each answer, bytes.
    places: BTreeMap<&'static str, (u64, u64)>,
    end: u64,
}

impl Answers {
    /// # Errors
    /// When no file can be created in the folder.
    pub fn create_in(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile_in(folder)?), places: BTreeMap::new(), end: 0 })
    }

    /// Adds the tables of an analysis.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add(&mut self, stem: &'static str, batches: &[Batch]) -> io::Result<()> {
        // long tables are in Parquet; here is what a dashboard shows
        let mut tables: BTreeMap<&str, Rows> = BTreeMap::new();
        for batch in batches.iter().filter(|b| is_short(b.spec)) {
            tables.entry(batch.spec.name).or_default().0.push(batch);
        }
        pretty(&mut self.file, &tables, 2)?;
        let start = std::mem::replace(&mut self.end, self.file.stream_position()?);
        self.places.insert(stem, (start, self.end - start));
        Ok(())
    }

    /// Writes all answers as one object.
    ///
    /// # Errors
    /// When they cannot be read back or written.
    pub fn copy_to(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.file.flush()?;
        let mut file = BufReader::new(self.file.get_ref());
        let mut before = "{";
        for (stem, (start, length)) in &self.places {
            write!(out, "{before}\n    \"{stem}\": ")?;
            file.seek(SeekFrom::Start(*start))?;
            io::copy(&mut file.by_ref().take(*length), out)?;
            before = ",";
        }
        out.write_all(if self.places.is_empty() { b"{}" } else { b"\n  }" })
    }
}

/// Serializes an iterator as a list.
struct SerializeIter<I>(std::cell::Cell<Option<I>>);

impl<I> SerializeIter<I> {
    fn new(items: I) -> Self {
        Self(std::cell::Cell::new(Some(items)))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for SerializeIter<I> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.take().into_iter().flatten())
    }
}

/// Whether a table has a bounded number of rows per rank and window.
fn is_short(spec: &TableSpec) -> bool {
    !matches!(spec.name, "kernels_by_name" | "idle_host" | "compat_hta_gpu_kernel_breakdown")
}

/// The value of a cell.
pub fn cell(array: &ArrayRef, row: usize) -> Value {
    // Serializing a cell cannot fail.
    serde_json::to_value(Cell { column: Column::new(array), row }).unwrap_or(Value::Null)
}

/// Rows of a batch as JSON objects.
pub fn records(batch: &Batch) -> Vec<Value> {
    let record = |row| -> Value {
        // Columns are in the order of the declaration.
        let columns = batch.spec.columns.iter().zip(batch.rows.columns());
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
    csv_of(&names, batches.iter().map(|b| &b.rows), style)
}

/// Rows of batches with these columns, as CSV.
pub fn csv_of<'a>(names: &[&str], batches: impl IntoIterator<Item = &'a RecordBatch>, style: CsvStyle) -> String {
    let mut out = String::new();
    let mut line = |cells: Vec<String>| {
        out.push_str(&cells.join(","));
        out.push('\n');
    };
    line(names.iter().map(|n| quoted(n, style)).collect());
    for rows in batches {
        for row in 0..rows.num_rows() {
            let text = |array| match cell(array, row) {
                Value::Null => String::new(),
                Value::String(s) => quoted(&s, style),
                other => other.to_string(),
            };
            line(rows.columns().iter().map(text).collect());
        }
    }
    out
}

/// A text as a CSV cell, quoted where necessary.
fn quoted(text: &str, style: CsvStyle) -> String {
    let is_formula = style == CsvStyle::ForSpreadsheets && text.starts_with(['=', '+', '-', '@']);
    let text = if is_formula { format!("'{}", visible::line(text)) } else { visible::line(text).into_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::every::{Row, batch};

    #[test]
    fn values_in_an_object_are_laid_out_as_in_one_that_is_written_at_once() {
        let rows: [Row; 2] = [
            (1, Some(-1), Some(u64::MAX), Some(0.5), Some(true), Some("a\nb".to_string())),
            (2, None, None, None, None, None),
        ];
        let batches = rows.each_ref().map(|r| batch(std::slice::from_ref(r)));
        let expected = json!([
            { "at_ns": -1, "host": "a\nb", "rank": 1, "share": 0.5, "size": u64::MAX, "was_it": true },
            { "at_ns": null, "host": null, "rank": 2, "share": null, "size": null, "was_it": null },
        ]);
        let mut out = b"{\n  \"a\": 1".to_vec();
        field(&mut out, "b", &Rows(batches.iter().collect())).unwrap();
        out.extend(b"\n}");
        let whole = serde_json::to_string_pretty(&json!({ "a": 1, "b": expected })).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), whole);
    }

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
    }
}
