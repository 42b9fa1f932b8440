//! Tables of the page that are still in memory when it is made, so that it need not read them from their files.
//!
//! Of a rank or a few, all that the page shows is a megabyte or two; unpacking it again would take longer than keeping it.
//! Of many ranks, and of rows for every event, the files are read.

use crate::output::html::TABLES;
use crate::table::schema::{Batch, TableSpec};
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows that are kept of a table.
const ROWS: usize = 1 << 15;

/// Memory of all that is kept, bytes, and of one table (texts can be long: names of a sequence of kernels).
const BYTES: usize = 2 << 20;
const TABLE_BYTES: usize = 320 << 10;

/// The tables of a folder that are small so far.
#[derive(Debug, Default)]
pub struct Small {
    kept: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// `None`: it has grown too large.
    by_name: BTreeMap<&'static str, Option<Table>>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Table {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Small {
    /// Keeps rows that are appended to a table, if they are few.
    pub fn append(&self, batch: &Batch) {
        if !TABLES.contains(&batch.spec.name) {
            return;
        }
        let mut all = self.lock();
        let left = BYTES.saturating_sub(all.bytes);
        let slot = all.by_name.entry(batch.spec.name).or_insert_with(|| Some(Table::default()));
        let Some(table) = slot.as_mut().filter(|_| !batch.is_empty()) else { return };
        // without looking at rows of which there are too many
        let rows = table.rows + batch.rows.num_rows();
        let bytes = if rows <= ROWS { batch.rows.get_array_memory_size() } else { usize::MAX };
        if bytes > left || table.bytes.saturating_add(bytes) > TABLE_BYTES {
            let freed = table.bytes;
            *slot = None;
            all.bytes -= freed;
            return;
        }
        table.batches.push(batch.rows.clone());
        table.rows = rows;
        table.bytes += bytes;
        all.bytes += bytes;
    }

    /// Notes that a table exists, also without rows.
    pub fn declare(&self, spec: &TableSpec) {
        self.lock().by_name.entry(spec.name).or_insert_with(|| Some(Table::default()));
    }

    /// All rows of a table; `None`: they are not here.
    pub fn rows(&self, table: &str) -> Option<Vec<RecordBatch>> {
        self.lock().by_name.get(table)?.as_ref().map(|t| t.batches.clone())
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.lock() = Tables::default();
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // a thread that failed has left whole tables
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    table! {
        /// A cell in each row.
        struct Ones, OneRow = "what_if" by "n" {
            n: i64, "", "A cell.";
        }
    }

    fn batch(rows: usize) -> Batch {
        let mut table = Ones::default();
        (0..rows).for_each(|n| table.push(OneRow { n: n as i64 }));
        table.finish()
    }

    #[test]
    fn few_rows_are_kept_in_order_and_a_table_that_grows_is_not_kept_at_all() {
        let small = Small::default();
        assert!(small.rows("what_if").is_none());
        small.declare(Ones::SPEC);
        assert_eq!(small.rows("what_if").map(|b| b.len()), Some(0));
        small.append(&batch(ROWS - 1));
        small.append(&batch(1));
        let kept: Vec<usize> = small.rows("what_if").unwrap().iter().map(RecordBatch::num_rows).collect();
        assert_eq!(kept, [ROWS - 1, 1]);
        small.append(&batch(1));
        assert!(small.rows("what_if").is_none());
        assert_eq!(small.lock().bytes, 0);
        // also not what comes behind
        small.append(&batch(1));
        assert!(small.rows("what_if").is_none());
        small.clear();
        small.append(&batch(1));
        assert!(small.rows("what_if").is_some());
    }
}
