//! How a column of a rollup is made of the columns of the table that it rolls up.

/// How a cell is made of the rows that share a key. Names are those of columns of the table that is rolled
/// up; those of `Ratio` and of `Percent` are columns of the rollup itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The column of the same name: part of the key of a rollup, or a plain column of another table.
    Key,
    /// The sum; nulls are left out, and the sum of nulls alone is null where the column can be.
    Sum(&'static str),
    Min(&'static str),
    Max(&'static str),
    /// The cell of the first row.
    First(&'static str),
    /// The text with the largest sum of another column; of equal ones the first in the alphabet.
    Most(&'static str, &'static str),
    /// The sum of the other column over the rows that have this text.
    SumOfMost(&'static str, &'static str),
    /// The mean, weighted by another column, or `""`: each row alike; rows without a value or a weight are
    /// left out.
    Mean(&'static str, &'static str),
    /// The lower median; nulls are left out.
    Median(&'static str),
    /// The distinct numbers of a column as a text, such as `0-3, 8`.
    List(&'static str),
    /// Number of ranks that have the key.
    Ranks,
    /// Rank with the largest sum; of equal ones the lowest.
    RankOfMax(&'static str),
    /// The sum of that rank.
    MaxOfRank(&'static str),
    /// Number of rows.
    Rows,
    /// Whether the rows are steps.
    AreSteps,
    /// One column over another; null where the other is 0 or null.
    Ratio(&'static str, &'static str),
    /// The same in percent.
    Percent(&'static str, &'static str),
}

/// The role that a declaration names: `sum(count)`, `ranks`, `ratio(sum_ns, count)`.
#[macro_export]
macro_rules! role {
    () => {
        $crate::table::role::Role::Key
    };
    (sum($of:ident)) => {
        $crate::table::role::Role::Sum(stringify!($of))
    };
    (min($of:ident)) => {
        $crate::table::role::Role::Min(stringify!($of))
    };
    (max($of:ident)) => {
        $crate::table::role::Role::Max(stringify!($of))
    };
    (first($of:ident)) => {
        $crate::table::role::Role::First(stringify!($of))
    };
    (most($of:ident, $by:ident)) => {
        $crate::table::role::Role::Most(stringify!($of), stringify!($by))
    };
    (sum_of_most($of:ident, $by:ident)) => {
        $crate::table::role::Role::SumOfMost(stringify!($of), stringify!($by))
    };
    (mean($of:ident)) => {
        $crate::table::role::Role::Mean(stringify!($of), "")
    };
    (mean($of:ident, $by:ident)) => {
        $crate::table::role::Role::Mean(stringify!($of), stringify!($by))
    };
    (median($of:ident)) => {
        $crate::table::role::Role::Median(stringify!($of))
    };
    (list($of:ident)) => {
        $crate::table::role::Role::List(stringify!($of))
    };
    (ranks) => {
        $crate::table::role::Role::Ranks
    };
    (rank_of_max($of:ident)) => {
        $crate::table::role::Role::RankOfMax(stringify!($of))
    };
    (max_of_rank($of:ident)) => {
        $crate::table::role::Role::MaxOfRank(stringify!($of))
    };
    (rows) => {
        $crate::table::role::Role::Rows
    };
    (are_steps) => {
        $crate::table::role::Role::AreSteps
    };
    (ratio($part:ident, $whole:ident)) => {
        $crate::table::role::Role::Ratio(stringify!($part), stringify!($whole))
    };
    (percent($part:ident, $whole:ident)) => {
        $crate::table::role::Role::Percent(stringify!($part), stringify!($whole))
    };
}
