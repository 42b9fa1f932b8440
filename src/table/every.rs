//! A table with columns of every type, for tests.

use crate::table;
use crate::table::schema::{Batch, Text};

table! {
    /// One row of every kind of column.
    pub struct AllColumnTypes, EveryRow = "every" by "rank" {
        rank: u32, "", "A cell.";
        at_ns: Option<i64>, "ns", "A cell.";
        size: Option<u64>, "bytes", "A cell.";
        share: Option<f64>, "", "A cell.";
        was_it: Option<bool>, "", "A cell.";
        host: Option<Text>, "", "A cell.";
    }
}

/// The cells of a row in order, as property tests generate them.
pub type Row = (u32, Option<i64>, Option<u64>, Option<f64>, Option<bool>, Option<String>);

pub fn batch(rows: &[Row]) -> Batch {
    let mut table = AllColumnTypes::default();
    for (rank, at_ns, size, share, was_it, host) in rows {
        let host = host.as_deref();
        let (rank, at_ns, size, share, was_it) = (*rank, *at_ns, *size, *share, *was_it);
        table.push(EveryRow { rank, at_ns, size, share, was_it, host });
    }
    table.finish()
}
