//! `summary.json`: findings, health and the summary tables for programs; and tables as JSON or CSV.
//!
//! The summary of a thousand ranks is hundreds of megabytes, so it is never in memory: rows are written as they are read
//! off their batches, and each analysis' answer waits in a file without a name until the rest of the summary is known.

use crate::output::pretty;
use crate::output::pretty::Cell;
use crate::output::text::findings;
use crate::output::visible;
use crate::run::Outcome;
use crate::table::column::Column;
use crate::table::schema::{Batch, TableSpec};
use arrow::array::{ArrayRef, RecordBatch};
use serde::ser::{Serialize, Serializer};
use serde_json::ser::PrettyFormatter;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

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
    // fields in alphabetical order, as everywhere in the file
    out.write_all(b"{\n  \"analyses\": ")?;
    answers(out)?;
    field(out, "findings", &serde_json::to_value(findings(outcome))?)?;
    field(out, "health", &Streamed::new(set.chain(health)))?;
    field(out, "hta_version", &env!("CARGO_PKG_VERSION"))?;
    out.write_all(b",\n  \"ranks\": ")?;
    pretty::rows(out, &ranks, 1)?;
    field(out, "refused", &refused)?;
    out.write_all(b"\n}\n")
}

fn field(out: &mut impl Write, name: &str, value: &impl Serialize) -> io::Result<()> {
    write!(out, ",\n  \"{name}\": ")?;
    let mut writer = serde_json::Serializer::with_formatter(Deeper { out }, PrettyFormatter::new());
    value.serialize(&mut writer).map_err(io::Error::from)
}

/// Indents every line but the first by a level. JSON has no line break inside a text, so each is one of the layout's.
struct Deeper<'a, W> {
    out: &'a mut W,
}

impl<W: Write> Write for Deeper<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            self.out.write_all(line)?;
            if line.ends_with(b"\n") {
                self.out.write_all(b"  ")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Answers of the analyses on their way into the summary, in a file that has no name.
pub struct Answers {
    file: BufWriter<File>,
    /// Where each begins and how long it is, bytes.
    places: BTreeMap<&'static str, (u64, u64)>,
    end: u64,
}

impl Answers {
    /// # Errors
    /// When the folder takes no files.
    pub fn create_in(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile_in(folder)?), places: BTreeMap::new(), end: 0 })
    }

    /// Adds the tables of an analysis.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add(&mut self, stem: &'static str, batches: &[Batch]) -> io::Result<()> {
        // long tables are in Parquet; here is what a dashboard shows
        let mut tables: BTreeMap<&str, Vec<&Batch>> = BTreeMap::new();
        for batch in batches.iter().filter(|b| is_short(b.spec)) {
            tables.entry(batch.spec.name).or_default().push(batch);
        }
        pretty::tables(&mut self.file, &tables, 2)?;
        let start = std::mem::replace(&mut self.end, self.file.stream_position()?);
        self.places.insert(stem, (start, self.end - start));
        Ok(())
    }

    /// Writes all of them as one object.
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

/// A list that is made while it is written.
struct Streamed<I>(std::cell::Cell<Option<I>>);

impl<I> Streamed<I> {
    fn new(items: I) -> Self {
        Self(std::cell::Cell::new(Some(items)))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for Streamed<I> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.take().into_iter().flatten())
    }
}

/// Tables with a bounded number of rows per rank and window.
fn is_short(spec: &TableSpec) -> bool {
    !matches!(spec.name, "kernels_by_name" | "idle_host" | "compat_hta_gpu_kernel_breakdown")
}

/// A cell of a column of a type that tables have.
pub fn cell(array: &ArrayRef, row: usize) -> Value {
    // what a cell can hold is always a value
    serde_json::to_value(Cell { column: Column::new(array), row }).unwrap_or(Value::Null)
}

/// Rows of a batch as JSON objects.
pub fn records(batch: &Batch) -> Vec<Value> {
    let record = |row| -> Value {
        // columns stand in the order of the declaration
        let columns = batch.spec.columns.iter().zip(batch.rows.columns());
        let pairs = columns.map(|(c, array)| (c.name.to_string(), cell(array, row)));
        Value::Object(pairs.collect())
    };
    (0..batch.len()).map(record).collect()
}

/// How texts are written in CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvStyle {
    /// As they are, but for characters that cannot be seen.
    Plain,
    /// With a `'` before what a spreadsheet would take for a formula.
    ForSpreadsheets,
}

/// A table as CSV (RFC 4180), with a header line also when there are no rows.
pub fn csv(spec: &TableSpec, batches: &[&Batch], style: CsvStyle) -> String {
    let names: Vec<&str> = spec.columns.iter().map(|c| c.name).collect();
    csv_of(&names, batches.iter().map(|b| &b.rows), style)
}

/// Rows of batches with these columns as CSV.
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

/// A text as a cell.
fn quoted(text: &str, style: CsvStyle) -> String {
    let is_formula = style == CsvStyle::ForSpreadsheets && text.starts_with(['=', '+', '-', '@']);
    let text = if is_formula { format!("'{}", visible::line(text)) } else { visible::line(text).into_owned() };
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
    }
}
