//! Passes rows on in order of rank, whatever the order in which ranks finish. No thread blocks while another
//! one writes.

use crate::run::RowSink;
use hta_base::table::schema::Batch;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Passes rows to the sink in order of rank. Rows of the current rank go through directly and are not
/// buffered.
pub(super) struct InOrder<'a> {
    sink: &'a dyn RowSink,
    state: Mutex<Turn>,
    /// Memory of the buffered rows, bytes.
    waiting_bytes: AtomicU64,
}

#[derive(Default)]
struct Turn {
    /// Index of the current rank, whose rows are passed through.
    next: usize,
    waiting: BTreeMap<usize, Vec<Batch>>,
    ended: BTreeSet<usize>,
    /// Index of the rank whose buffered rows are being flushed; it becomes the current rank afterwards.
    draining: Option<usize>,
    error: Option<io::Error>,
}

impl<'a> InOrder<'a> {
    pub(super) fn new(sink: &'a dyn RowSink) -> Self {
        Self { sink, state: Mutex::default(), waiting_bytes: AtomicU64::new(0) }
    }

    /// Takes rows of the rank at `index`.
    pub(super) fn take(&self, index: usize, rows: Batch) {
        // If another thread panicked while holding the lock, the run has ended anyway.
        let Ok(mut turn) = self.state.lock() else { return };
        if turn.next == index {
            // It remains the current rank until it ends, so the lock is not needed.
            drop(turn);
            self.give(rows);
        } else {
            self.waiting_bytes.fetch_add(rows.held_bytes(), Ordering::Relaxed);
            turn.waiting.entry(index).or_default().push(rows);
        }
    }

    /// Marks the rank at `index` as finished.
    pub(super) fn end(&self, index: usize) {
        let Ok(mut turn) = self.state.lock() else { return };
        turn.ended.insert(index);
        loop {
            let now = turn.next;
            if !turn.ended.remove(&now) {
                return;
            }
            // Flush the rows that the next rank has buffered. Until that is complete, its new rows are
            // buffered as well.
            turn.draining = Some(now + 1);
            while let Some(rows) = turn.waiting.remove(&(now + 1)) {
                drop(turn);
                let freed = bytes(&rows);
                rows.into_iter().for_each(|rows| self.give(rows));
                self.waiting_bytes.fetch_sub(freed, Ordering::Relaxed);
                let Ok(again) = self.state.lock() else { return };
                turn = again;
            }
            (turn.next, turn.draining) = (now + 1, None);
        }
    }

    fn give(&self, rows: Batch) {
        if self.state.lock().is_ok_and(|turn| turn.error.is_some()) {
            return;
        }
        if let (Err(e), Ok(mut turn)) = (self.sink.rows(rows), self.state.lock()) {
            turn.error.get_or_insert(e);
        }
    }

    /// Memory of the buffered rows, bytes.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Discards the buffered rows of the last finished rank, and returns its index.
    pub(super) fn forget_last(&self) -> Option<usize> {
        let mut turn = self.state.lock().ok()?;
        let last = turn
            .waiting
            .keys()
            .rev()
            .find(|i| turn.ended.contains(i) && turn.draining != Some(**i))
            .copied()?;
        let rows = turn.waiting.remove(&last).unwrap_or_default();
        turn.ended.remove(&last);
        self.waiting_bytes.fetch_sub(bytes(&rows), Ordering::Relaxed);
        Some(last)
    }

    pub(super) fn error(self) -> Option<io::Error> {
        self.state.into_inner().ok()?.error
    }
}

fn bytes(rows: &[Batch]) -> u64 {
    rows.iter().map(Batch::held_bytes).sum()
}
