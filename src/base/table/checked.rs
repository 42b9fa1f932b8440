//! Errors in tables that come from a file. Reading the file checks the types and nulls of every column
//! against the table's declaration; whether indices and names in the rows are valid is checked where the rows
//! are read.

use crate::table::schema::Table;
use std::fmt::Display;

/// An invalid cell of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table `{table}`, row {row}, column `{column}`: expected {expected}, found {found}")]
pub struct InvalidCell {
    pub table: &'static str,
    pub row: usize,
    pub column: &'static str,
    pub expected: String,
    pub found: String,
}

impl InvalidCell {
    pub fn new<T: Table>(
        row: usize,
        column: &'static str,
        expected: impl Display,
        found: impl Display,
    ) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        Self { table: T::SPEC.name, row, column, expected, found }
    }

    /// A cell with a name that this version does not know.
    pub fn unknown<T: Table>(row: usize, column: &'static str, name: &str) -> Self {
        Self::new::<T>(row, column, "a name that this version knows", format!("`{name}`"))
    }
}

/// Checks an index into a list of `len` items.
///
/// # Errors
/// When the index is not below `len`.
pub fn below<T: Table>(row: usize, column: &'static str, index: u32, len: usize) -> Result<u32, InvalidCell> {
    let too_large = || InvalidCell::new::<T>(row, column, format!("a position below {len}"), index);
    ((index as usize) < len).then_some(index).ok_or_else(too_large)
}
