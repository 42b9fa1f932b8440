//! Reads one Kineto file: decompresses and parses it, and parses it again if its fractions are unpadded.

use super::document::Document;
use super::number::{Fraction, FractionVerdict};
use super::part::settle;
use super::pieces::read_pieces;
use super::refusal::KinetoRefusal;
use crate::error::ReadError;
use crate::input::Input;
use crate::opening::open;
use crate::reading::{Reading, Spread, Unsettled};
use crate::room::{MemoryGate, MemoryUse, OutOfMemory, need_of_whole};
use crate::source::{Compression, Source, SourceError};
use hta_base::health::{Counter, Health};
use std::io;

/// Reads a file, and reads it again if the fractions of its times turn out to lack leading zeros.
///
/// # Errors
/// When it is no trace, or cannot be read.
pub(super) fn load(input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
    let packed = input.packing().map_err(|error| ReadError::io(&input.shown, error))?;
    let mut document = read_document(input, packed, Fraction::default(), how)?;
    let shapes = document.reader.shapes;
    let short = format!("{} short fractions", shapes.short);
    match shapes.verdict() {
        FractionVerdict::Padded => {}
        FractionVerdict::Reserialised => {
            document.reader.columns.health.add(Counter::Reserialised, 1, None, &short);
        }
        FractionVerdict::Ambiguous => {
            document.reader.columns.health.add(Counter::AmbiguousFraction, 1, None, &short);
        }
        FractionVerdict::Unpadded => {
            // Free the first document before the second one is built.
            drop(document);
            document = read_document(input, packed, Fraction::Unpadded, how)?;
            document.reader.columns.health.add(Counter::UnpaddedFraction, 1, None, &short);
        }
    }
    let unpacked_bytes = document.offset();
    let Document { reader, mut meta, .. } = document;
    settle(&mut meta, input);
    let unpacked_bytes = input.process.as_ref().map_or(unpacked_bytes, |part| part.share(unpacked_bytes));
    let mut columns = reader.columns;
    columns.pair_marks();
    Ok(Unsettled { columns, meta, unpacked_bytes })
}

fn read_document(
    input: &Input,
    packed: Compression,
    fraction: Fraction,
    how: &Reading,
) -> Result<Document, ReadError> {
    let Reading { options, spread, chunks, count, room } = *how;
    let io_error = |error| ReadError::io(&input.shown, error);
    let mut document = Document::with_fraction(options, fraction);
    document.reader.take_part(input);
    let ahead = spread == Spread::AllCores && packed != Compression::Plain;
    let mut source = open(&input.path, packed, count, ahead).map_err(io_error)?;
    // An object is one stream; its pieces would be a request each.
    let pieces = spread == Spread::AllCores && packed == Compression::Plain && !input.path.is_remote();
    let outcome = stream(&mut document, source.as_mut(), chunks.block, pieces, room)
        .and_then(|how| match how {
            Ok(Streamed::Finished) => Ok(Ok(())),
            Ok(Streamed::InEvents) => {
                // A plain file: read its events on all cores, then the rest in order.
                let size = std::fs::metadata(&input.path)?.len();
                match read_pieces(&mut document, &input.path, size, chunks.piece, options, count, room)? {
                    Err(refusal) => Ok(Err(refusal)),
                    Ok(at) => {
                        let mut rest = FromOffset::open(&input.path, at)?;
                        stream(&mut document, &mut rest, chunks.block, false, room).map(|how| how.map(|_| ()))
                    }
                }
            }
            Err(refusal) => Ok(Err(refusal)),
        })
        .map_err(io_error)?;
    outcome.map_err(|r| refused_by(input, r, &document.reader.columns.health))?;
    if source.trailing().garbage {
        document.reader.columns.health.note(Counter::TrailingGarbage, &input.shown);
    }
    document.finish().map_err(|r| match r {
        KinetoRefusal::NoEvents => ReadError::NoEvents {
            file: input.shown.clone(),
            health: Box::new(document.reader.columns.health.clone()),
        },
        other => refused_by(input, other, &document.reader.columns.health),
    })?;
    room.hold(MemoryUse { is_whole: true, ..document.held(0) })
        .map_err(|e| refused(input, KinetoRefusal::OutOfMemory(e)))?;
    Ok(document)
}

/// The error for a refusal, unless the source has already reported a reason.
pub fn refused_by(input: &Input, refusal: KinetoRefusal, health: &Health) -> ReadError {
    let said =
        health.iter().find(|(counter, _)| *counter == Counter::Truncated).map(|(_, tally)| &tally.example);
    match said {
        Some(reason) if refusal == KinetoRefusal::Empty && !reason.is_empty() => {
            ReadError::Damaged { file: input.shown.clone(), reason: reason.clone() }
        }
        _ => refused(input, refusal),
    }
}

pub fn refused(input: &Input, refusal: KinetoRefusal) -> ReadError {
    let file = input.shown.clone();
    match refusal {
        KinetoRefusal::Empty => ReadError::Empty { file },
        KinetoRefusal::NotATrace { what, hint } => ReadError::NotATrace { file, what, hint, is_known: false },
        KinetoRefusal::OtherFormat { what, hint } => {
            ReadError::NotATrace { file, what, hint, is_known: true }
        }
        KinetoRefusal::Interleaved { byte } => ReadError::Interleaved { file, byte },
        KinetoRefusal::CutBeforeEvents => ReadError::Cut { file },
        KinetoRefusal::NoEvents => ReadError::NoEvents { file, health: Box::default() },
        KinetoRefusal::OutOfMemory(refused) => out_of_memory(input, refused),
    }
}

/// The error for a file that takes more memory than there is.
pub(crate) fn out_of_memory(input: &Input, OutOfMemory { limit, held }: OutOfMemory) -> ReadError {
    let needs = Some(need_of_whole(input, held)).filter(|n| *n > limit.bytes);
    ReadError::TooLarge { file: input.shown.clone(), needs, limit }
}

enum Streamed {
    Finished,
    /// Stopped at the event array, as requested.
    InEvents,
}

/// Feeds a whole source to the document; `drain` takes the results after each block.
pub fn drained(
    document: &mut Document,
    source: &mut dyn Source,
    block: usize,
    room: &dyn MemoryGate,
    drain: &mut dyn FnMut(&mut Document) -> io::Result<()>,
) -> io::Result<Result<(), KinetoRefusal>> {
    Ok(blocks(document, source, block, false, room, drain)?.map(|_| ()))
}

/// Feeds a source to the document, block by block; with `stop_at_events`, up to the event array.
fn stream(
    document: &mut Document,
    source: &mut dyn Source,
    block: usize,
    stop_at_events: bool,
    room: &dyn MemoryGate,
) -> io::Result<Result<Streamed, KinetoRefusal>> {
    blocks(document, source, block, stop_at_events, room, &mut |_| Ok(()))
}

fn blocks(
    document: &mut Document,
    source: &mut dyn Source,
    block: usize,
    stop_at_events: bool,
    room: &dyn MemoryGate,
    drain: &mut dyn FnMut(&mut Document) -> io::Result<()>,
) -> io::Result<Result<Streamed, KinetoRefusal>> {
    let mut buf = vec![0; block.max(1)];
    let mut filled = 0;
    loop {
        let (n, cut) = match source.read(&mut buf[filled..]) {
            Ok(n) => (n, None),
            Err(SourceError::Cut { reason, .. }) => (0, Some(reason)),
            Err(SourceError::Io(e)) => return Err(e),
        };
        filled += n;
        if n == 0 {
            if let Some(reason) = &cut {
                let at = document.offset() + filled as u64;
                document.reader.columns.health.add(Counter::Truncated, 1, Some(at), reason);
            }
            let cut_before = document.reader.columns.health.count(Counter::Truncated);
            if let Err(refusal) = document.feed_last(&buf[..filled], cut_before > 0) {
                return Ok(Err(refusal));
            }
            drain(document)?;
            return Ok(Ok(Streamed::Finished));
        }
        let used = match document.feed(&buf[..filled], false) {
            Ok(used) => used,
            Err(refusal) => return Ok(Err(refusal)),
        };
        drain(document)?;
        if stop_at_events && document.in_events() {
            return Ok(Ok(Streamed::InEvents));
        }
        buf.copy_within(used..filled, 0);
        filled -= used;
        let is_full = filled == buf.len();
        let text = if is_full { 2 * buf.len() } else { buf.len() } as u64 + looked_back_on(source, document);
        if let Err(e) = room.hold(document.held(text)) {
            return Ok(Err(KinetoRefusal::OutOfMemory(e)));
        }
        if is_full {
            // A single value is larger than the buffer.
            buf.resize(buf.len() * 2, 0);
        }
    }
}

/// Size of the decoder's window, if it is larger than usual, bytes.
fn looked_back_on(source: &dyn Source, document: &Document) -> u64 {
    const USUAL: u64 = 8 << 20;
    let window = source.window();
    if window > USUAL { window.min(document.offset()) } else { 0 }
}

/// A plain file, read from its current offset to the end.
struct FromOffset(std::fs::File);

impl FromOffset {
    fn open(path: &std::path::Path, at: u64) -> io::Result<Self> {
        use std::io::Seek;
        let mut file = std::fs::File::open(path)?;
        file.seek(io::SeekFrom::Start(at))?;
        Ok(Self(file))
    }
}

impl Source for FromOffset {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        use std::io::Read;
        self.0.read(out).map_err(SourceError::Io)
    }
}
