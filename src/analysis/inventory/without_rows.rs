//! The table `without_rows`: why an analysis has no rows of a rank.

use hta_base::table;
use hta_base::table::schema::{Batch, Text};

table! {
    /// Why an analysis has no rows of a rank; a rank of which it has rows has none here.
    pub struct WithoutRows, WithoutRowsRow = "without_rows" by "rank, analysis" {
        rank;
        analysis: Text, "", "name of the analysis";
        reason: Text, "", "in words";
    }
}

/// The table, from rank, analysis and reason.
pub fn table(mut reasons: Vec<(u32, &str, &str)>) -> Batch {
    reasons.sort_unstable();
    let mut table = WithoutRows::default();
    for (rank, analysis, reason) in reasons {
        table.push(WithoutRowsRow { rank, analysis, reason });
    }
    table.finish()
}
