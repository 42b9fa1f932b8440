//! Columns of a table read back into plain values, for tables that come from a file: what is missing or cannot be is
//! an error with its place, never a panic. Tables that the same process made are read by their declared types.

use crate::table::schema::Batch;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use std::fmt::Display;

/// An invalid cell of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table `{table}`, row {row}, column `{column}`: expected {expected}, found {found}")]
pub struct Flaw {
    pub table: &'static str,
    pub row: usize,
    pub column: &'static str,
    pub expected: String,
    pub found: String,
}

/// A table's columns. Every returned vector has one value per row.
#[derive(Clone, Copy)]
pub struct Cells<'a>(pub &'a Batch);

impl<'a> Cells<'a> {
    pub fn flaw(self, row: usize, column: &'static str, expected: impl Display, found: impl Display) -> Flaw {
        let (expected, found) = (expected.to_string(), found.to_string());
        Flaw { table: self.0.spec.name, row, column, expected, found }
    }

    fn column(self, column: &'static str) -> Result<&'a dyn Array, Flaw> {
        let array = self.0.rows.column_by_name(column);
        array.map(|a| a.as_ref()).ok_or_else(|| self.flaw(0, column, "the column", "none"))
    }

    fn mismatch(self, column: &'static str, expected: &str) -> Flaw {
        let found = self.0.rows.column_by_name(column).map(|a| a.data_type().to_string());
        self.flaw(0, column, expected, found.unwrap_or_default())
    }

    /// The values of a column that must not contain nulls.
    fn all<T>(self, column: &'static str, values: Vec<Option<T>>) -> Result<Vec<T>, Flaw> {
        let cell = |(row, value): (usize, Option<T>)| value.ok_or_else(|| self.flaw(row, column, "a value", "null"));
        values.into_iter().enumerate().map(cell).collect()
    }

    pub fn opt_i64s(self, column: &'static str) -> Result<Vec<Option<i64>>, Flaw> {
        let array = self.column(column)?.as_primitive_opt::<Int64Type>();
        Ok(array.ok_or_else(|| self.mismatch(column, "64-bit integers"))?.iter().collect())
    }

    pub fn opt_u32s(self, column: &'static str) -> Result<Vec<Option<u32>>, Flaw> {
        let array = self.column(column)?.as_primitive_opt::<UInt32Type>();
        Ok(array.ok_or_else(|| self.mismatch(column, "unsigned 32-bit integers"))?.iter().collect())
    }

    pub fn u32s(self, column: &'static str) -> Result<Vec<u32>, Flaw> {
        self.all(column, self.opt_u32s(column)?)
    }

    pub fn opt_u64s(self, column: &'static str) -> Result<Vec<Option<u64>>, Flaw> {
        let array = self.column(column)?.as_primitive_opt::<UInt64Type>();
        Ok(array.ok_or_else(|| self.mismatch(column, "unsigned 64-bit integers"))?.iter().collect())
    }

    pub fn u64s(self, column: &'static str) -> Result<Vec<u64>, Flaw> {
        self.all(column, self.opt_u64s(column)?)
    }

    pub fn opt_flags(self, column: &'static str) -> Result<Vec<Option<bool>>, Flaw> {
        let array = self.column(column)?.as_boolean_opt();
        Ok(array.ok_or_else(|| self.mismatch(column, "true or false"))?.iter().collect())
    }

    pub fn flags(self, column: &'static str) -> Result<Vec<bool>, Flaw> {
        self.all(column, self.opt_flags(column)?)
    }

    pub fn opt_texts(self, column: &'static str) -> Result<Vec<Option<&'a str>>, Flaw> {
        let texts = self.column(column)?.as_dictionary_opt::<Int32Type>();
        let texts = texts.and_then(|d| Some((d.keys(), d.values().as_string_opt::<i32>()?)));
        let (keys, values) = texts.ok_or_else(|| self.mismatch(column, "text"))?;
        let cell = |(row, key): (usize, Option<i32>)| match key {
            None => Ok(None),
            Some(key) => match usize::try_from(key).ok().filter(|k| *k < values.len() && values.is_valid(*k)) {
                Some(k) => Ok(Some(values.value(k))),
                None => Err(self.flaw(row, column, format!("one of {} texts", values.len()), format!("number {key}"))),
            },
        };
        keys.iter().enumerate().map(cell).collect()
    }

    pub fn texts(self, column: &'static str) -> Result<Vec<&'a str>, Flaw> {
        self.all(column, self.opt_texts(column)?)
    }

    /// Texts that are converted to values.
    pub fn named<T>(self, column: &'static str, of: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Flaw> {
        let texts = self.texts(column)?;
        let cell = |(row, text): (usize, &&str)| {
            of(text).ok_or_else(|| self.flaw(row, column, "a name that this version knows", format!("`{text}`")))
        };
        texts.iter().enumerate().map(cell).collect()
    }
}
