//! Reads a plain file on all cores, speculatively cut into pieces.
//!
//! ```text
//!   bytes    |........piece 0........|........piece 1........|....
//!   guess                               ^ first event start in piece 1
//!   piece 0  ...........................|  reads on to the guess and must arrive exactly there
//! ```
//!
//! The start of an event cannot be recognized locally with certainty (a string may look like one). So each
//! piece begins at a guess, and the piece before it reads on to that guess. If it stops exactly there, the
//! guess was right, provided that the guess before was; the first piece starts at the file's first byte. A
//! wrong guess costs time, never correctness: the rest of the file is then read in order.

mod queue;

use crate::input::PartKey;
use crate::kineto::cursor::Cursor;
use crate::kineto::document::Document;
use crate::kineto::event::EventReader;
use crate::kineto::event_array::EventsEnd;
use crate::kineto::gaps::Gaps;
use crate::kineto::number::Fraction;
use crate::kineto::recovery::next_event;
use crate::kineto::refusal::KinetoRefusal;
use crate::opening::FileRange;
use crate::options::LoadOptions;
use crate::room::MemoryGate;
use crate::source::ByteCount;
use queue::{Next, PieceQueue, PieceResult};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The result of reading a piece: its columns, where it started and stopped, and how.
struct ReadPiece {
    reader: EventReader,
    start: u64,
    end: u64,
    how: EventsEnd,
}

/// Reads the event array of a plain file on several cores, from the position of `document` (inside the array)
/// up to `size`. Returns the position up to which the file was read; the caller continues from there.
///
/// The calling thread appends the pieces to the document in order, and reads one itself when the next is not
/// ready; other threads read ahead.
pub(crate) fn read_pieces(
    document: &mut Document,
    path: &Path,
    size: u64,
    piece_len: usize,
    options: LoadOptions,
    count: &ByteCount,
    room: &dyn MemoryGate,
) -> io::Result<Result<u64, KinetoRefusal>> {
    let from = document.offset();
    let threads = rayon::current_num_threads().max(1);
    let pieces =
        usize::try_from(size.saturating_sub(from).div_ceil(piece_len as u64)).map_err(io::Error::other)?;
    let ahead = AHEAD * threads;
    let text = (ahead * (piece_len + far(piece_len))) as u64;
    let queue = PieceQueue::new(pieces, ahead);
    let fraction = document.reader.fraction;
    let part = document.reader.part.clone();
    let worker = || PieceReader {
        queue: &queue,
        fraction,
        part: part.clone(),
        buf: Vec::new(),
        gaps: Gaps::default(),
    };
    let read = |worker: &mut PieceReader, i: usize| {
        let start = from + i as u64 * piece_len as u64;
        let piece = worker.read_piece(path, start, i == 0, piece_len, options, count);
        queue.finished(i, piece);
    };
    let help = || {
        let mut worker = worker();
        while let Some(i) = queue.help() {
            read(&mut worker, i);
        }
    };
    rayon::in_place_scope(|scope| {
        let mut own = worker();
        let mut at = from;
        let mut walk = || loop {
            (0..queue.hire(threads - 1)).for_each(|_| scope.spawn(|_| help()));
            match queue.next() {
                Next::Read(i) => read(&mut own, i),
                Next::Join(piece) => {
                    if !join(document, &mut at, piece?) {
                        return Ok(Ok(at));
                    }
                    if let Err(e) = room.hold(document.held(text)) {
                        return Ok(Err(KinetoRefusal::OutOfMemory(e)));
                    }
                }
                Next::End => return Ok(Ok(at)),
                Next::Failed => return Err(io::Error::other("another thread failed while reading")),
            }
        };
        let outcome = walk();
        queue.stop();
        outcome
    })
}

/// Appends a piece. `false`: the rest of the file must be read in order.
fn join(document: &mut Document, at: &mut u64, piece: Option<Box<ReadPiece>>) -> bool {
    // If the piece is missing, its guess was not where the previous one stopped.
    let Some(piece) = piece.filter(|p| p.start == *at) else { return false };
    document.reader.append(piece.reader);
    document.advance_in_events(piece.end - *at, piece.how == EventsEnd::Closed);
    *at = piece.end;
    piece.how == EventsEnd::Stopped
}

/// Number of pieces per thread that are read but not yet appended.
const AHEAD: usize = 4;

/// How far a piece usually reads beyond its end to finish its last event and find the next guess, bytes.
const OVERRUN: usize = 64 << 10;

/// How far it may read at most: as far as the next piece searches for its first event.
fn far(piece_len: usize) -> usize {
    piece_len.max(OVERRUN)
}

/// A thread that reads pieces. It reuses its buffer and learned gaps, because fresh memory and learning again
/// are slow.
struct PieceReader<'a> {
    queue: &'a PieceQueue,
    fraction: Fraction,
    part: Option<Arc<PartKey>>,
    buf: Vec<u8>,
    gaps: Gaps,
}

impl Drop for PieceReader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.queue.fail();
        }
    }
}

impl PieceReader<'_> {
    fn read_piece(
        &mut self,
        path: &Path,
        start: u64,
        exact: bool,
        len: usize,
        options: LoadOptions,
        count: &ByteCount,
    ) -> PieceResult {
        let mut range = FileRange::open(path, start, count)?;
        let mut filled = range.read_up_to(len + OVERRUN, 0, &mut self.buf)?;
        // Compute the next piece's guess in the same way as that piece does.
        let guess = |buf: &[u8]| buf.get(len..).and_then(|next| next_event(next, 1)).map(|i| len + i);
        let mut stop = guess(&self.buf[..filled]);
        if stop.is_none() && filled == len + OVERRUN {
            filled = range.read_up_to(len + far(len), filled, &mut self.buf)?;
            stop = guess(&self.buf[..filled]);
        }
        let buf = &self.buf[..filled];
        let begin = if exact {
            0
        } else {
            match next_event(buf, 1) {
                Some(i) if i < len => i,
                _ => return Ok(None),
            }
        };
        let mut reader = EventReader::with_gaps(options, std::mem::take(&mut self.gaps));
        reader.fraction = self.fraction;
        reader.part = self.part.clone();
        let mut c = Cursor::new(buf, begin);
        let how = reader.events(&mut c, start, false, stop.or(Some(len)));
        self.gaps = reader.take_gaps();
        let Ok(how) = how else { return Ok(None) };
        let (start, end) = (start + begin as u64, start + c.pos as u64);
        Ok(Some(Box::new(ReadPiece { reader, start, end, how })))
    }
}
