//! A sink that keeps the rows of one table in memory, for commands that print every row.

use hta_base::table::schema::{Batch, TableSpec};
use hta_results::run::RowSink;
use hta_trace::rank_trace::RankTrace;
use std::io;
use std::sync::Mutex;

pub struct KeptRows {
    spec: &'static TableSpec,
    rows: Mutex<Vec<Batch>>,
}

impl KeptRows {
    /// Keeps the rows of this table.
    pub fn of(spec: &'static TableSpec) -> Self {
        Self { spec, rows: Mutex::default() }
    }

    /// The rows, in order of rank.
    pub fn take(self) -> Vec<Batch> {
        self.rows.into_inner().unwrap_or_default()
    }
}

impl RowSink for KeptRows {
    fn rows(&self, rows: Batch) -> io::Result<()> {
        if rows.spec.name == self.spec.name {
            self.rows.lock().map_err(|_| io::Error::other("another thread failed"))?.push(rows);
        }
        Ok(())
    }

    fn trace(&self, _: &RankTrace) -> io::Result<()> {
        Ok(())
    }

    fn void(&self) -> io::Result<()> {
        self.rows.lock().map_err(|_| io::Error::other("another thread failed"))?.clear();
        Ok(())
    }
}
