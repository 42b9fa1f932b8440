//! The answer of a statement: rows of numbers, texts and booleans, and their output formats.
//!
//! CSV, JSON and Parquet hold the values as they are. In text, the suffix of a column's name decides how its
//! numbers are shown ([`CellType`]). Points in time (`ts_ns`) remain numbers.

use crate::output::columns::grid;
use crate::output::json::{CsvStyle, cell, csv_of, infinite};
use crate::output::parquet::write_rows;
use crate::output::visible;
use crate::sql::QueryError;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, UInt64Array,
};
use arrow_schema::{DataType as Kind, Field, Schema};
use hta_analysis::printed::PrintedColumn;
use hta_base::table::format::{CellType, heading, unit};
use hta_base::units::fmt_count;
use polars::prelude::{Column, DataFrame, DataType, PolarsError};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub struct QueryAnswer {
    rows: RecordBatch,
}

impl QueryAnswer {
    /// # Errors
    /// When a column has a type that no Parquet file of hta has.
    pub(crate) fn new(frame: &DataFrame) -> Result<Self, QueryError> {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for column in frame.columns() {
            let name = column.name().as_str();
            let refused = |_: PolarsError| kind(name, column.dtype());
            let array = copied(column).map_err(refused)?.ok_or_else(|| kind(name, column.dtype()))?;
            let unit = unit(name).map(|u| ("unit".to_string(), u.to_string()));
            let field = Field::new(name, array.data_type().clone(), true);
            fields.push(field.with_metadata(unit.into_iter().collect::<BTreeMap<_, _>>()));
            arrays.push(array);
        }
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        Ok(Self { rows: rows.map_err(|e| QueryError::Sql { reason: e.to_string() })? })
    }

    /// The first `rows` rows.
    pub fn head(&self, rows: usize) -> Self {
        Self { rows: self.rows.slice(0, rows.min(self.rows.num_rows())) }
    }

    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn names(&self) -> Vec<&str> {
        self.rows.schema_ref().fields().iter().map(|f| f.name().as_str()).collect()
    }

    /// The value of a cell: a number, a text, a boolean, or null.
    pub fn value(&self, column: &str, row: usize) -> Value {
        let array = self.rows.column_by_name(column).filter(|_| row < self.len());
        array.map_or(Value::Null, |a| cell(a, row))
    }

    fn infinite(&self, column: &str, row: usize) -> Option<&'static str> {
        infinite(self.rows.column_by_name(column)?, row)
    }

    pub fn is_number(&self, column: &str) -> bool {
        let array = self.rows.column_by_name(column);
        array.is_some_and(|a| matches!(a.data_type(), Kind::Int64 | Kind::UInt64 | Kind::Float64))
    }

    /// Formats the answer as CSV (RFC 4180).
    pub fn csv(&self, style: CsvStyle) -> String {
        csv_of(&self.names(), [&self.rows], style)
    }

    /// Formats the answer as a list of objects, with the columns in their order.
    ///
    /// # Errors
    /// Never for the values that an answer can hold.
    pub fn json(&self) -> serde_json::Result<String> {
        let rows: Vec<AnswerRow> = (0..self.len()).map(|row| AnswerRow { rows: &self.rows, row }).collect();
        Ok(serde_json::to_string_pretty(&rows)? + "\n")
    }

    /// # Errors
    /// When the file cannot be written.
    pub fn parquet(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        write_rows(&mut bytes, self.rows.schema(), [&self.rows])?;
        Ok(bytes)
    }

    /// Formats the answer for people. `top` limits the rows.
    pub fn text(&self, top: usize, notes: &[String], width: usize) -> String {
        let shown = self.len().min(top);
        let names = self.names();
        let heads: Vec<String> = names.iter().map(|n| heading(n)).collect();
        let columns: Vec<PrintedColumn> = heads
            .iter()
            .zip(&names)
            .map(|(heading, n)| PrintedColumn { heading, is_number: self.is_number(n) })
            .collect();
        let set = |row: usize| {
            names
                .iter()
                .map(|n| match self.infinite(n, row) {
                    Some(word) => word.to_string(),
                    None => visible::line(&person(n, &self.value(n, row))).into_owned(),
                })
                .collect::<Vec<String>>()
        };
        let rows: Vec<Vec<String>> = (0..shown).map(set).collect();
        let mut below = Vec::new();
        match self.len() - shown {
            _ if self.is_empty() => below.push("no rows".to_string()),
            0 => {}
            more => {
                let s = if more == 1 { "" } else { "s" };
                below.push(format!("{} more row{s}: --top {}", fmt_count(more as u64), self.len()));
            }
        }
        below.extend(notes.iter().cloned());
        grid(&columns, &rows, &below, width)
    }
}

struct AnswerRow<'a> {
    rows: &'a RecordBatch,
    row: usize,
}

impl Serialize for AnswerRow<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_map(Some(self.rows.num_columns()))?;
        for (field, array) in self.rows.schema_ref().fields().iter().zip(self.rows.columns()) {
            object.serialize_entry(field.name(), &cell(array, self.row))?;
        }
        object.end()
    }
}

fn kind(name: &str, found: &DataType) -> QueryError {
    QueryError::Kind { name: name.to_string(), found: found.to_string() }
}

/// The column's values as an Arrow array; `None` if no Parquet file of hta has its type.
fn copied(column: &Column) -> Result<Option<ArrayRef>, PolarsError> {
    Ok(Some(match column.dtype() {
        DataType::Int64 => ints(column)?,
        DataType::UInt64 => {
            let numbers = column.u64()?;
            if numbers.iter().flatten().all(|v| i64::try_from(v).is_ok()) {
                ints(&column.cast(&DataType::Int64)?)?
            } else {
                Arc::new(numbers.iter().collect::<UInt64Array>())
            }
        }
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32 => ints(&column.cast(&DataType::Int64)?)?,
        DataType::Float32 => {
            Arc::new(column.cast(&DataType::Float64)?.f64()?.iter().collect::<Float64Array>())
        }
        DataType::Float64 => Arc::new(column.f64()?.iter().collect::<Float64Array>()),
        DataType::Boolean => Arc::new(column.bool()?.iter().collect::<BooleanArray>()),
        DataType::String => Arc::new(column.str()?.iter().collect::<DictionaryArray<Int32Type>>()),
        // A column that contains only nulls.
        DataType::Null => {
            let nothing = std::iter::repeat_n(None::<&str>, column.len());
            Arc::new(nothing.collect::<DictionaryArray<Int32Type>>())
        }
        _ => return Ok(None),
    }))
}

fn ints(column: &Column) -> Result<ArrayRef, PolarsError> {
    Ok(Arc::new(column.i64()?.iter().collect::<Int64Array>()))
}

/// Times from here on are since 1970, whatever the column's name, ns.
const EPOCH: f64 = 1e15;

/// Formats a cell for people.
fn person(name: &str, value: &Value) -> String {
    let cells = |kind: &str| CellType::of(name, unit(name).unwrap_or_default(), kind);
    match value {
        Value::Null => "-".to_string(),
        Value::String(text) => text.clone(),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (_, Some(v)) if cells("i64") == CellType::Ns && v.abs() >= EPOCH => n.to_string(),
            (Some(v), _) => cells("i64").int(v),
            (None, Some(v)) if n.is_f64() => cells("f64").float(v),
            _ => n.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::{NamedFrom, Series};

    fn answer() -> QueryAnswer {
        let columns = vec![
            Column::from(Series::new("name".into(), ["a \"b\"", "kernel<int, 3>"])),
            Column::from(Series::new("sum_ns".into(), [Some(1_500_000i64), None])),
            Column::from(Series::new("size_bytes".into(), [26_214_400i64, 0])),
            Column::from(Series::new("part_pct".into(), [12.5f64, 87.5])),
            Column::from(Series::new("count".into(), [4_000u32, 1])),
            Column::from(Series::new("is_slow".into(), [true, false])),
        ];
        QueryAnswer::new(&DataFrame::new_infer_height(columns).unwrap()).unwrap()
    }

    #[test]
    fn text_shows_units_and_the_other_formats_the_values() {
        let text = answer().text(9, &["Read: so.".to_string()], 80);
        assert!(text.starts_with("name                sum     size  part %  count  is slow\n"), "{text}");
        assert!(
            text.contains("1.50 ms  26.2 MB  12.5 %  4,000  true") && text.ends_with("  Read: so.\n"),
            "{text}"
        );
        let csv = answer().csv(CsvStyle::Plain);
        assert!(
            csv.starts_with("name,sum_ns,size_bytes,part_pct,count,is_slow\n\"a \"\"b\"\"\",1500000,"),
            "{csv}"
        );
        assert!(csv.ends_with("\"kernel<int, 3>\",,0,87.5,1,false\n"), "{csv}");
        let json: Value = serde_json::from_str(&answer().json().unwrap()).unwrap();
        assert_eq!(json[0]["sum_ns"], 1_500_000);
        assert_eq!(json[1]["sum_ns"], Value::Null);
    }

    #[test]
    fn what_is_too_wide_stands_row_by_row() {
        let text = answer().text(1, &[], 40);
        assert!(text.starts_with("name     a \"b\"\nsum      1.50 ms\n"), "{text}");
        assert!(text.contains("1 more row: --top 2") && text.lines().all(|l| l.len() <= 40), "{text}");
    }
}
