//! One file from path to columns: unpack, parse, read a second time when its fractions are unpadded,
//! add the base time.

use crate::error::ReadError;
use crate::read::kineto::document::{Document, Refusal};
use crate::read::kineto::event::LoadOptions;
use crate::read::kineto::number::{Fraction, FractionVerdict};
use crate::read::kineto::pieces::read_pieces;
use crate::read::room::{Alone, Held, NoRoom, Room, Unbounded, estimate};
use crate::read::source::{ByteCount, Input, Packing, Source, SourceError, open, packing};
use crate::trace::category::Class;
use crate::trace::events::Columns;
use crate::trace::health::{Counter, Health};
use crate::trace::meta::{Meta, TimeEra};
use std::io;

/// How a file is spread over cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// All of it on the calling thread: as many files as cores, or one thread.
    Inline,
    /// Unpacking on a second thread; plain files in pieces on all.
    AllCores,
}

/// One file, read.
pub struct Loaded {
    pub columns: Columns,
    pub meta: Meta,
    /// Size of the unpacked text, bytes.
    pub unpacked_bytes: u64,
}

/// How much of a file is looked at at once. It never changes what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// Bytes of text per step; few enough to stay in the cache between unpacking and parsing.
    pub block: usize,
    /// Bytes of a plain file per piece.
    pub piece: usize,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { block: 256 << 10, piece: 1 << 20 }
    }
}

/// Reads one file.
///
/// # Errors
/// [`ReadError`] when the file is no trace, holds no event or cannot be read. A file that is cut or
/// damaged is read as far as it goes, with health counters.
pub fn load(input: &Input, options: LoadOptions, spread: Spread, count: &ByteCount) -> Result<Loaded, ReadError> {
    load_in_chunks(input, options, spread, Chunks::default(), count)
}

/// Reads one file, as far as it gets the memory.
///
/// # Errors
/// As [`load`]; [`ReadError::TooLarge`] when `room` stops it.
pub fn load_within(
    input: &Input,
    options: LoadOptions,
    spread: Spread,
    count: &ByteCount,
    room: &dyn Room,
) -> Result<Loaded, ReadError> {
    read(input, &Reading { options, spread, chunks: Chunks::default(), count, room })
}

/// Reads one file, with the sizes of its chunks given.
///
/// # Errors
/// As [`load`].
pub fn load_in_chunks(
    input: &Input,
    options: LoadOptions,
    spread: Spread,
    chunks: Chunks,
    count: &ByteCount,
) -> Result<Loaded, ReadError> {
    let alone = options.memory.map(Alone);
    let room: &dyn Room = match &alone {
        Some(alone) => alone,
        None => &Unbounded,
    };
    read(input, &Reading { options, spread, chunks, count, room })
}

/// How a file is read.
struct Reading<'a> {
    options: LoadOptions,
    spread: Spread,
    chunks: Chunks,
    count: &'a ByteCount,
    room: &'a dyn Room,
}

fn read(input: &Input, how: &Reading) -> Result<Loaded, ReadError> {
    let io_error = |source| ReadError::Io { file: input.shown.clone(), source };
    let packed = packing(&input.path).map_err(io_error)?;
    let mut document = read_document(input, packed, how.options, how)?;
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
            let options = LoadOptions { fraction: Fraction::Unpadded, ..how.options };
            // not two of them at once
            drop(document);
            document = read_document(input, packed, options, how)?;
            document.reader.columns.health.add(Counter::UnpaddedFraction, 1, None, &short);
        }
    }
    let unpacked_bytes = document.offset();
    let Document { reader, mut meta, .. } = document;
    let mut columns = reader.columns;
    columns.pair_marks();
    if input.path.extension().is_some_and(|e| e == "tmp") {
        columns.health.note(Counter::Temporary, &input.shown);
    }
    settle_times(&mut columns, &mut meta);
    if columns.is_empty() && columns.unloaded.is_none() {
        return Err(ReadError::NoEvents { file: input.shown.clone(), health: Box::new(columns.health) });
    }
    Ok(Loaded { columns, meta, unpacked_bytes })
}

fn read_document(input: &Input, packed: Packing, options: LoadOptions, how: &Reading) -> Result<Document, ReadError> {
    let Reading { spread, chunks, count, room, .. } = *how;
    let io_error = |source| ReadError::Io { file: input.shown.clone(), source };
    let mut document = Document::new(options);
    let ahead = spread == Spread::AllCores && packed != Packing::Plain;
    let mut source = open(&input.path, packed, count, ahead).map_err(io_error)?;
    let pieces = spread == Spread::AllCores && packed == Packing::Plain;
    let outcome = stream(&mut document, source.as_mut(), chunks.block, pieces, room)
        .and_then(|how| match how {
            Ok(Streamed::Finished) => Ok(Ok(())),
            Ok(Streamed::InEvents) => {
                // a plain file: its events on all cores, then the rest in order
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
        Refusal::NoEvents => {
            ReadError::NoEvents { file: input.shown.clone(), health: Box::new(document.reader.columns.health.clone()) }
        }
        other => refused_by(input, other, &document.reader.columns.health),
    })?;
    room.hold(Held { is_whole: true, ..document.held(0) }).map_err(|e| refused(input, Refusal::NoRoom(e)))?;
    Ok(document)
}

/// The same, where the source may have said why nothing came of it.
pub(crate) fn refused_by(input: &Input, refusal: Refusal, health: &Health) -> ReadError {
    let said = health.iter().find(|(counter, _)| *counter == Counter::Truncated).map(|(_, tally)| &tally.example);
    match said {
        Some(reason) if refusal == Refusal::Empty && !reason.is_empty() => {
            ReadError::Damaged { file: input.shown.clone(), reason: reason.clone() }
        }
        _ => refused(input, refusal),
    }
}

pub(crate) fn refused(input: &Input, refusal: Refusal) -> ReadError {
    let file = input.shown.clone();
    match refusal {
        Refusal::Empty => ReadError::Empty { file },
        Refusal::NotATrace { what, hint } => ReadError::NotATrace { file, what, hint, is_known: false },
        Refusal::OtherFormat { what, hint } => ReadError::NotATrace { file, what, hint, is_known: true },
        Refusal::Interleaved { byte } => ReadError::Interleaved { file, byte },
        Refusal::CutBeforeEvents => ReadError::Cut { file },
        Refusal::NoEvents => ReadError::NoEvents { file, health: Box::default() },
        Refusal::NoRoom(NoRoom { limit }) => {
            let needs = Some(estimate(&input.path)).filter(|n| *n > limit.bytes);
            ReadError::TooLarge { file, needs, limit }
        }
    }
}

enum Streamed {
    Finished,
    /// Stopped at the event array, as asked.
    InEvents,
}

/// Feeds a whole source to the document; `drain` takes out after each block what the document has made of it.
pub(crate) fn drained(
    document: &mut Document,
    source: &mut dyn Source,
    block: usize,
    room: &dyn Room,
    drain: &mut dyn FnMut(&mut Document) -> io::Result<()>,
) -> io::Result<Result<(), Refusal>> {
    Ok(blocks(document, source, block, false, room, drain)?.map(|_| ()))
}

/// Feeds a source to the document, block by block; with `stop_at_events`, up to the event array.
fn stream(
    document: &mut Document,
    source: &mut dyn Source,
    block: usize,
    stop_at_events: bool,
    room: &dyn Room,
) -> io::Result<Result<Streamed, Refusal>> {
    blocks(document, source, block, stop_at_events, room, &mut |_| Ok(()))
}

fn blocks(
    document: &mut Document,
    source: &mut dyn Source,
    block: usize,
    stop_at_events: bool,
    room: &dyn Room,
    drain: &mut dyn FnMut(&mut Document) -> io::Result<()>,
) -> io::Result<Result<Streamed, Refusal>> {
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
            return Ok(Err(Refusal::NoRoom(e)));
        }
        if is_full {
            // one value is larger than the buffer
            buf.resize(buf.len() * 2, 0);
        }
    }
}

/// Memory in which a decoder looks back on what it has unpacked, where that is more than is usual.
fn looked_back_on(source: &dyn Source, document: &Document) -> u64 {
    const USUAL: u64 = 8 << 20;
    let window = source.window();
    if window > USUAL { window.min(document.offset()) } else { 0 }
}

/// The rest of a plain file.
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

/// Times below this many ns cannot be since 1970 (trace-format, section 3, rule 5).
const EPOCH_MIN_NS: i64 = 100_000_000_000_000_000;

/// Starts within these many ns of 1970 (146 years) have differences that fit 64 bits.
const FARTHEST: i64 = 1 << 62;

/// No profile is longer, ns (30 days): where no record window says how long, longer events are damaged.
const LONGEST: i64 = 30 * 86_400 * 1_000_000_000;

/// Drops starts that cannot be, adds the base time, tells the era, clips durations beyond the record window.
fn settle_times(columns: &mut Columns, meta: &mut Meta) {
    let base = meta.base_ns.unwrap_or(0);
    let fits = |t: &i64| t.checked_add(base).is_some_and(|t| t.unsigned_abs() <= FARTHEST.unsigned_abs());
    let kept: Vec<bool> = columns.ts.iter().map(|t| t.unsigned_abs() <= FARTHEST.unsigned_abs() && fits(t)).collect();
    let lost = kept.iter().filter(|k| !**k).count() as u64;
    columns.health.add(Counter::TimeOverflow, lost, None, "");
    columns.retain(&kept);
    let start = columns.window_start.or_else(|| columns.ts.iter().copied().min());
    let span = start.zip(columns.window_end).filter(|(s, e)| e > s);
    let mut overflow = 0;
    let is_noise: Vec<bool> = columns.categories.iter().map(|c| c.class == Class::Noise).collect();
    for (row, (ts, cat)) in columns.ts.iter().zip(&columns.cat).enumerate() {
        let dur = columns.dur.at(row);
        // the profiler's own span is the window, and a little more
        let window = span.filter(|_| is_noise.get(usize::from(*cat)) != Some(&true));
        if dur > window.map_or(LONGEST, |(s, e)| e.saturating_sub(s).min(LONGEST)) {
            // only what passes the end of the window is cut
            let end = span.map_or(*ts, |(_, e)| e);
            let clipped = (end.saturating_sub(*ts)).clamp(0, dur);
            overflow += u64::from(clipped != dur);
            columns.dur.set(row, clipped);
        }
    }
    columns.health.add(Counter::DurOverflow, overflow, None, "");
    // impossible times are no part of the capture
    let possible = |t: i64| t.unsigned_abs() <= FARTHEST.unsigned_abs() && fits(&t);
    columns.unloaded = columns.unloaded.filter(|(s, e)| possible(*s) && possible(*e));
    meta.era = match meta.base_ns {
        Some(_) => TimeEra::Based,
        None if columns.ts.iter().all(|t| t.unsigned_abs() < EPOCH_MIN_NS.unsigned_abs()) => {
            columns.health.add(Counter::BaseMissing, 1, None, "");
            TimeEra::Unknown
        }
        None if columns.has_fraction => TimeEra::EpochDecimal,
        None => TimeEra::EpochInteger,
    };
    if let Some(base) = meta.base_ns {
        for ts in &mut columns.ts {
            *ts = ts.saturating_add(base);
        }
        for flow in &mut columns.flows {
            flow.ts = flow.ts.saturating_add(base);
        }
        columns.unloaded = columns.unloaded.map(|(s, e)| (s.saturating_add(base), e.saturating_add(base)));
        columns.window_start = columns.window_start.map(|t| t.saturating_add(base));
        columns.window_end = columns.window_end.map(|t| t.saturating_add(base));
    }
}
