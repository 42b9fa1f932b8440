//! What supports a cause.

/// A row of another table that supports a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub table: &'static str,
    /// Condition that selects the rows, in SQL.
    pub filter: String,
    /// A number with its words.
    pub words: String,
}
