//! Pieces of a file in its order: taken by whoever is free, and handed out one behind the other to be joined.
//!
//! Only the thread that asked for the file ever waits here. The others help: they take pieces as long as there are any
//! near enough, and go. A helper that waited could stand on top of another rank's work, which the first one may be
//! waiting for in turn (its memory, say).

use crate::read::kineto::pieces::Piece;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex};

/// A piece as it was read; `None`: not where it was guessed.
pub type Read = io::Result<Option<Box<Piece>>>;

/// What the thread that asked for the file does next.
pub enum Next {
    /// The piece that is due.
    Join(Read),
    /// None is due: it may read one itself.
    Read(usize),
    /// All are joined.
    End,
    /// A helper has failed.
    Failed,
}

pub struct Queue {
    state: Mutex<State>,
    /// A piece was finished.
    finished: Condvar,
    /// Pieces that may be taken and not yet joined.
    ahead: usize,
    pieces: usize,
}

#[derive(Default)]
struct State {
    taken: usize,
    joined: usize,
    /// Finished and not yet joined.
    ready: BTreeMap<usize, Read>,
    helpers: usize,
    is_over: bool,
    has_failed: bool,
}

impl State {
    fn take(&mut self, queue: &Queue) -> Option<usize> {
        let is_there = !self.is_over && self.taken < queue.pieces && self.taken < self.joined + queue.ahead;
        self.taken += usize::from(is_there);
        is_there.then(|| self.taken - 1)
    }
}

impl Queue {
    pub fn new(pieces: usize, ahead: usize) -> Self {
        Self { state: Mutex::default(), finished: Condvar::new(), ahead, pieces }
    }

    /// How many more helpers there is work for, if there may be `most` at once. They are counted as there.
    pub fn hire(&self, most: usize) -> usize {
        let Ok(mut state) = self.state.lock() else { return 0 };
        let near = (state.joined + self.ahead).min(self.pieces) - state.taken;
        let more = most.saturating_sub(state.helpers).min(near);
        state.helpers += more;
        more
    }

    /// The next piece for a helper. `None`: it goes.
    pub fn help(&self) -> Option<usize> {
        let mut state = self.state.lock().ok()?;
        let taken = state.take(self);
        state.helpers -= usize::from(taken.is_none());
        taken
    }

    /// What there is to do for the thread that asked. Waits while all that is near enough is being read: each by a
    /// thread that does nothing else.
    pub fn next(&self) -> Next {
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

    pub fn finished(&self, i: usize, piece: Read) {
        if let Ok(mut state) = self.state.lock() {
            state.ready.insert(i, piece);
            self.finished.notify_all();
        }
    }

    /// No more pieces are needed.
    pub fn stop(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.is_over = true;
        }
    }

    /// A piece that was taken will never come.
    pub fn fail(&self) {
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
        let queue = Queue::new(5, 2);
        assert_eq!(queue.hire(8), 2);
        assert_eq!((queue.help(), queue.help()), (Some(0), Some(1)));
        // the third is too far ahead: nobody waits for it to come near
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
