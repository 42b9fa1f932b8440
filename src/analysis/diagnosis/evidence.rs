//! What supports a cause.

/// A row of another table that supports a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) table: &'static str,
    /// Condition that selects the rows, in SQL.
    pub(crate) filter: String,
    /// A number with its words.
    pub(crate) words: String,
}
