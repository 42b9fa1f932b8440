//! The queue of a file's pieces: free threads take pieces, and the results are appended in order.
//!
//! Only the thread that loads the file ever waits here. Helper threads take pieces while there are any close
//! enough to the current one, and then leave. They must not wait, because a waiting helper might block the
//! work of another rank on its stack, for which the first thread may be waiting (for memory, for example).

use crate::kineto::pieces::ReadPiece;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex};

/// The result of reading a piece; `None` if it did not begin at its guess.
pub(crate) type PieceResult = io::Result<Option<Box<ReadPiece>>>;

/// What the thread that loads the file does next.
pub(crate) enum Next {
    /// Append the next piece, which is ready.
    Join(PieceResult),
    /// The next piece is not ready: read this one meanwhile.
    Read(usize),
    /// All pieces are appended.
    End,
    Failed,
}

pub(crate) struct PieceQueue {
    state: Mutex<PieceQueueState>,
    /// Notified when a piece is finished.
    finished: Condvar,
    /// Number of pieces that may be taken and not yet appended.
    ahead: usize,
    pieces: usize,
}

#[derive(Default)]
struct PieceQueueState {
    taken: usize,
    joined: usize,
    /// Finished pieces that are not yet appended.
    ready: BTreeMap<usize, PieceResult>,
    helpers: usize,
    is_over: bool,
    has_failed: bool,
}

impl PieceQueueState {
    fn take(&mut self, queue: &PieceQueue) -> Option<usize> {
        let is_there = !self.is_over && self.taken < queue.pieces && self.taken < self.joined + queue.ahead;
        self.taken += usize::from(is_there);
        is_there.then(|| self.taken - 1)
    }
}

impl PieceQueue {
    pub(crate) fn new(pieces: usize, ahead: usize) -> Self {
        Self { state: Mutex::default(), finished: Condvar::new(), ahead, pieces }
    }

    /// The number of additional helpers for which there is work, if at most `most` may run. Counts them as
    /// running.
    pub(crate) fn hire(&self, most: usize) -> usize {
        let Ok(mut state) = self.state.lock() else { return 0 };
        let near = (state.joined + self.ahead).min(self.pieces) - state.taken;
        let more = most.saturating_sub(state.helpers).min(near);
        state.helpers += more;
        more
    }

    /// The next piece for a helper. `None`: the helper leaves.
    pub(crate) fn help(&self) -> Option<usize> {
        let mut state = self.state.lock().ok()?;
        let taken = state.take(self);
        state.helpers -= usize::from(taken.is_none());
        taken
    }

    /// What the loading thread does next. Waits while all pieces that are close enough are being read, each
    /// by a thread that does nothing else.
    pub(crate) fn next(&self) -> Next {
        let Ok(mut state) = self.state.lock() else { return Next::Failed };
        loop {
            let due = state.joined;
            if state.has_failed {
                return Next::Failed;
            }
            if let Some(piece) = state.ready.remove(&due) {
                state.joined += 1;
                return Next::Join(piece);
            }
            if due == self.pieces {
                return Next::End;
            }
            if let Some(i) = state.take(self) {
                return Next::Read(i);
            }
            let Ok(again) = self.finished.wait(state) else { return Next::Failed };
            state = again;
        }
    }

    pub(crate) fn finished(&self, i: usize, piece: PieceResult) {
        if let Ok(mut state) = self.state.lock() {
            state.ready.insert(i, piece);
            self.finished.notify_all();
        }
    }

    /// Stops the helpers: no more pieces are needed.
    pub(crate) fn stop(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.is_over = true;
        }
    }

    /// Reports that a piece that was taken will not be finished.
    pub(crate) fn fail(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.has_failed = true;
            state.is_over = true;
            self.finished.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_go_when_nothing_near_is_left_and_pieces_are_handed_out_in_order() {
        let queue = PieceQueue::new(5, 2);
        assert_eq!(queue.hire(8), 2);
        assert_eq!((queue.help(), queue.help()), (Some(0), Some(1)));
        // The third piece is too far ahead, and helpers do not wait.
        assert_eq!((queue.help(), queue.hire(8)), (None, 0));
        queue.finished(1, Ok(None));
        queue.finished(0, Err(io::Error::other("the first")));
        assert!(matches!(queue.next(), Next::Join(Err(_))));
        assert!(matches!(queue.next(), Next::Join(Ok(None))));
        assert!(matches!(queue.next(), Next::Read(2)));
        assert_eq!(queue.hire(8), 1);
        queue.stop();
        assert_eq!((queue.help(), queue.hire(1)), (None, 0));
        queue.fail();
        assert!(matches!(queue.next(), Next::Failed));
    }
}
