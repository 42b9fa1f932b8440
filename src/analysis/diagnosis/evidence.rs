//! What supports a cause.

/// The condition for rows of some ranks, in SQL.
pub(crate) fn of_ranks(ranks: &[u32]) -> String {
    format!("rank IN ({})", ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
}

/// A row of another table that supports a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) table: &'static str,
    /// Condition that selects the rows, in SQL.
    pub(crate) filter: String,
    /// A number with its words.
    pub(crate) words: String,
}
