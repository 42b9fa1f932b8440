//! A plain file on all cores: cut into pieces that are read speculatively.
//!
//! ```text
//!   bytes    |........piece 0........|........piece 1........|....
//!   guess                               ^ first event start in piece 1
//!   piece 0  ...........................|  reads on to the guess and must arrive exactly there
//! ```
//!
//! Where an event starts cannot be told locally with certainty (a string may look like one), so each
//! piece begins at a guess, and the piece before it reads on until it meets the guess. If it stops exactly
//! there, the guess was right, given that the piece before was; the first piece starts at the file's first
//! byte. A guess that was wrong costs time, never correctness: the rest of the file is then read in order.

use super::cursor::Cursor;
use super::document::{Document, EventsEnd, Refusal, next_event};
use super::event::{EventReader, LoadOptions};
use crate::read::room::Room;
use crate::read::source::{ByteCount, read_range};
use rayon::prelude::*;
use std::io;
use std::path::Path;

/// A piece that read itself: its columns, where it started and stopped, and how.
struct Piece {
    reader: EventReader,
    start: u64,
    end: u64,
    how: EventsEnd,
}

/// Reads the event array of a plain file on several cores, from where `document` stands (inside the
/// array) up to `size`. Returns the position up to which the file was read; the caller reads on there.
pub fn read_pieces(
    document: &mut Document,
    path: &Path,
    size: u64,
    piece_len: usize,
    options: LoadOptions,
    count: &ByteCount,
    room: &dyn Room,
) -> io::Result<Result<u64, Refusal>> {
    let mut at = document.offset();
    // a few for each thread, so that none waits long for another; used again, since fresh memory is slow
    let mut buffers = vec![Vec::new(); PIECES_EACH * rayon::current_num_threads().max(1)];
    loop {
        let starts = (0u64..).map(|i| at + i * piece_len as u64).take_while(|s| *s < size);
        let starts: Vec<u64> = starts.take(buffers.len()).collect();
        if starts.is_empty() {
            return Ok(Ok(at));
        }
        let first = starts[0];
        let pieces: Vec<io::Result<Option<Piece>>> = starts
            .par_iter()
            .zip(&mut buffers)
            .with_max_len(1)
            .map(|(&start, buf)| read_piece(path, start, start == first, piece_len, options, count, buf))
            .collect();
        for piece in pieces {
            let Some(piece) = piece? else { return Ok(Ok(at)) };
            if piece.start != at {
                // the guess was not where the piece before stopped
                return Ok(Ok(at));
            }
            document.reader.append(piece.reader);
            let closed = piece.how == EventsEnd::Closed;
            document.advance_in_events(piece.end - at, closed);
            at = piece.end;
            if piece.how != EventsEnd::Stopped {
                return Ok(Ok(at));
            }
        }
        let text = (buffers.len() * (piece_len + OVERRUN)) as u64;
        if let Err(e) = room.hold(document.held(text)) {
            return Ok(Err(Refusal::NoRoom(e)));
        }
    }
}

/// How far beyond its end a piece may read to finish its last event and find the next guess.
const OVERRUN: usize = 256 << 10;

/// Pieces read at a time, for each thread.
const PIECES_EACH: usize = 4;

fn read_piece(
    path: &Path,
    start: u64,
    exact: bool,
    len: usize,
    options: LoadOptions,
    count: &ByteCount,
    buf: &mut Vec<u8>,
) -> io::Result<Option<Piece>> {
    let buf = read_range(path, start, len + OVERRUN, count, buf)?;
    let begin = if exact {
        0
    } else {
        match next_event(buf, 1) {
            Some(i) if i < len => i,
            _ => return Ok(None),
        }
    };
    // the next piece's guess, found exactly as that piece finds it
    let stop = if buf.len() > len { next_event(&buf[len..], 1).map(|i| len + i) } else { None };
    let mut reader = EventReader::new(options);
    let mut c = Cursor::new(buf, begin);
    let Ok(how) = reader.events(&mut c, start, false, stop.or(Some(len))) else { return Ok(None) };
    Ok(Some(Piece { reader, start: start + begin as u64, end: start + c.pos as u64, how }))
}
