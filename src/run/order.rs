//! Rows in order of rank, whatever the order in which ranks finish. No thread waits while another one writes.

use crate::run::RowSink;
use crate::table::schema::Batch;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hands rows on in order of rank: at once for the rank whose turn it is, so that they are not kept.
pub(super) struct InOrder<'a> {
    sink: &'a dyn RowSink,
    state: Mutex<Turn>,
    /// Memory of the rows that wait.
    waiting_bytes: AtomicU64,
}

#[derive(Default)]
struct Turn {
    /// Whose turn it is.
    next: usize,
    waiting: BTreeMap<usize, Vec<Batch>>,
    ended: BTreeSet<usize>,
    /// Whose rows are being written, so that its turn comes next.
    draining: Option<usize>,
    error: Option<io::Error>,
}

impl<'a> InOrder<'a> {
    pub(super) fn new(sink: &'a dyn RowSink) -> Self {
        Self { sink, state: Mutex::default(), waiting_bytes: AtomicU64::new(0) }
    }

    /// Rows of the rank at a position.
    pub(super) fn take(&self, index: usize, rows: Batch) {
        // a thread that panicked while holding the lock has ended the run anyway
        let Ok(mut turn) = self.state.lock() else { return };
        if turn.next == index {
            // it stays so until this rank ends
            drop(turn);
            self.give(rows);
        } else {
            self.waiting_bytes.fetch_add(rows.held_bytes(), Ordering::Relaxed);
            turn.waiting.entry(index).or_default().push(rows);
        }
    }

    /// The rank at a position has no more.
    pub(super) fn end(&self, index: usize) {
        let Ok(mut turn) = self.state.lock() else { return };
        turn.ended.insert(index);
        loop {
            let now = turn.next;
            if !turn.ended.remove(&now) {
                return;
            }
            // what the next one has given waits no more; until all of it is written, it gives to those that wait
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

    /// Memory of the rows that wait for their turn, bytes.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Drops what the last rank has given that has ended and whose rows wait.
    pub(super) fn forget_last(&self) -> Option<usize> {
        let mut turn = self.state.lock().ok()?;
        let last = turn.waiting.keys().rev().find(|i| turn.ended.contains(i) && turn.draining != Some(**i)).copied()?;
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
