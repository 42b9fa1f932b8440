//! A table with columns of every type, for tests.

use hta_base::table;
use hta_base::table::schema::{Batch, Text};

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
pub type AnyRow = (u32, Option<i64>, Option<u64>, Option<f64>, Option<bool>, Option<String>);

pub fn batch(rows: &[AnyRow]) -> Batch {
    let mut table = AllColumnTypes::default();
    for (rank, at_ns, size, share, was_it, host) in rows {
        let host = host.as_deref();
        let (rank, at_ns, size, share, was_it) = (*rank, *at_ns, *size, *share, *was_it);
        table.push(EveryRow { rank, at_ns, size, share, was_it, host });
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_base::table::schema::Table;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_pushed_is_read_also_from_a_part_of_a_batch(
            rows in prop::collection::vec(any::<AnyRow>(), 1..40), from in 0usize..40,
        ) {
            let (whole, from) = (batch(&rows), from % rows.len());
            let part = whole.slice(from..rows.len());
            let read: Vec<AnyRow> = AllColumnTypes::rows(&part)
                .map(|r| (r.rank, r.at_ns, r.size, r.share, r.was_it, r.host.map(str::to_string)))
                .collect();
            prop_assert_eq!(read.len(), rows.len() - from);
            for (a, b) in read.iter().zip(&rows[from..]) {
                prop_assert_eq!((a.0, a.1, a.2, a.3.map(f64::to_bits), a.4, &a.5), (b.0, b.1, b.2, b.3.map(f64::to_bits), b.4, &b.5));
            }
        }
    }
}
