//! Pieces of a file in its order: taken by whoever is free, and joined one behind the other.

use super::Piece;
use crate::read::kineto::document::{Document, EventsEnd, Refusal};
use crate::read::room::Room;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex};

/// A piece as it was read; `None`: not where it was guessed.
pub type Read = io::Result<Option<Piece>>;

/// How far the file was read, or why it is refused.
type Outcome = io::Result<Result<u64, Refusal>>;

/// Pieces in the order of the file: taken, finished, joined.
pub struct Queue<'a> {
    state: Mutex<State>,
    /// Something was joined, or all is over.
    moved: Condvar,
    line: Mutex<Line<'a>>,
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
    is_joining: bool,
    /// How it ended, if not with the last piece.
    outcome: Option<Outcome>,
}

impl<'a> Queue<'a> {
    /// `text` is what the texts of all pieces that are being read may take, bytes.
    pub fn new(document: &'a mut Document, pieces: usize, ahead: usize, text: u64, room: &'a dyn Room) -> Self {
        let line = Mutex::new(Line { at: document.offset(), document, text, room });
        Self { state: Mutex::default(), moved: Condvar::new(), line, ahead, pieces }
    }

    /// The next piece to read. Waits while too many are not joined: each of them is being read by another thread, so
    /// that one of those moves on.
    pub fn take(&self) -> Option<usize> {
        let mut state = self.state.lock().ok()?;
        while state.outcome.is_none() && state.taken < self.pieces && state.taken >= state.joined + self.ahead {
            state = self.moved.wait(state).ok()?;
        }
        if state.outcome.is_some() || state.taken == self.pieces {
            return None;
        }
        state.taken += 1;
        Some(state.taken - 1)
    }

    /// Joins what is due, if nobody else does.
    pub fn finished(&self, i: usize, piece: Read) {
        let Ok(mut state) = self.state.lock() else { return };
        state.ready.insert(i, piece);
        if state.is_joining {
            return;
        }
        let Ok(mut line) = self.line.lock() else { return };
        while state.outcome.is_none() {
            let due = state.joined;
            let Some(piece) = state.ready.remove(&due) else { break };
            state.is_joining = true;
            drop(state);
            let outcome = line.join(piece);
            let Ok(again) = self.state.lock() else { return };
            state = again;
            state.is_joining = false;
            state.joined += 1;
            state.outcome = outcome;
            self.moved.notify_all();
        }
    }

    /// A thread has failed: nobody is to wait for a piece that will never come.
    pub fn fail(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.outcome = Some(Err(poisoned()));
            self.moved.notify_all();
        }
    }

    /// The position up to which the file was read.
    pub fn outcome(self) -> Outcome {
        let outcome = self.state.into_inner().map_err(|_| poisoned())?.outcome;
        let at = self.line.into_inner().map_err(|_| poisoned())?.at;
        outcome.unwrap_or(Ok(Ok(at)))
    }
}

fn poisoned() -> io::Error {
    io::Error::other("another thread failed while reading")
}

/// The document, and how far it has been read.
struct Line<'a> {
    document: &'a mut Document,
    at: u64,
    /// Memory that the texts of pieces may take, bytes.
    text: u64,
    room: &'a dyn Room,
}

impl Line<'_> {
    /// Appends a piece. `Some`: that was the last, and why.
    fn join(&mut self, piece: Read) -> Option<Outcome> {
        let piece = match piece {
            // a guess was not where the piece before stopped
            Ok(Some(piece)) if piece.start == self.at => piece,
            Ok(_) => return Some(Ok(Ok(self.at))),
            Err(e) => return Some(Err(e)),
        };
        self.document.reader.append(piece.reader);
        self.document.advance_in_events(piece.end - self.at, piece.how == EventsEnd::Closed);
        self.at = piece.end;
        if piece.how != EventsEnd::Stopped {
            return Some(Ok(Ok(self.at)));
        }
        self.room.hold(self.document.held(self.text)).err().map(|e| Ok(Err(Refusal::NoRoom(e))))
    }
}
