//! Loads one file of any format: runs the format's reader, then converts its times.

use super::cuspy::settle_cuspy;
use super::format::{FileHead, FileStart, TraceFormat};
use super::input::{Input, SeenFile};
use super::kineto::Kineto;
use super::options::LoadOptions;
use super::perfetto::Perfetto;
use super::reading::{Chunks, Loaded, Reading, Spread, Unsettled};
use super::reports;
use super::room::{FixedLimit, MemoryGate, Unbounded};
use super::snapshot::MemoryDumps;
use super::source::{ByteCount, Compression};
use super::sqlite::Sqlite;
use super::times::settle_times;
use crate::error::ReadError;
use crate::files::Location;
use hta_base::health::Counter;
use hta_trace::meta::{Meta, RankSource};
use hta_trace::rank_trace::{ModelOptions, RankTrace};
use hta_trace::recorders::{OtherRecorder, PACKED_DATABASE};

/// All formats. The first one that recognizes a file reads it.
pub(crate) const FORMATS: &[&dyn TraceFormat] = &[&Sqlite, &MemoryDumps, &Perfetto, &Kineto];

/// Number of decompressed bytes that [`TraceFormat::sniff`] sees at most.
const SNIFFED: usize = 4 << 10;

/// Loads one file.
///
/// # Errors
/// When the file is not a trace, has no events or cannot be read. A truncated or damaged file is read as far
/// as possible, with health counters.
pub fn load(
    input: &Input,
    options: LoadOptions,
    spread: Spread,
    count: &ByteCount,
) -> Result<Loaded, ReadError> {
    load_in_chunks(input, options, spread, Chunks::default(), count)
}

/// Loads one file by itself, with default options, and builds the model of its rank: that of the file, or
/// rank 0.
///
/// # Errors
/// As [`load`].
pub fn load_trace(file: impl Into<Location>) -> Result<RankTrace, ReadError> {
    let input = Input::named(file);
    let loaded = load(&input, LoadOptions::default(), Spread::AllCores, &ByteCount::default())?;
    let (rank, source) = loaded.meta.rank.map_or((0, RankSource::Position), |rank| (rank, RankSource::File));
    Ok(loaded.into_trace(rank, source, input.shown, &ModelOptions::default()))
}

/// Loads one file within a memory limit.
///
/// # Errors
/// As [`load`]; [`ReadError::TooLarge`] if `room` refuses memory.
pub fn load_within(
    input: &Input,
    options: LoadOptions,
    spread: Spread,
    count: &ByteCount,
    room: &dyn MemoryGate,
) -> Result<Loaded, ReadError> {
    read(input, &Reading { options, spread, chunks: Chunks::default(), count, room })
}

/// Loads one file with given chunk sizes.
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
    let alone = options.memory.map(FixedLimit);
    let room: &dyn MemoryGate = match &alone {
        Some(alone) => alone,
        None => &Unbounded,
    };
    read(input, &Reading { options, spread, chunks, count, room })
}

fn read(input: &Input, how: &Reading) -> Result<Loaded, ReadError> {
    let Unsettled { mut columns, mut meta, unpacked_bytes } = known_format(input)?.load(input, how)?;
    if input.path.extension().is_some_and(|e| e == "tmp") {
        columns.health.note(Counter::Temporary, &input.shown);
    }
    settle_cuspy(&mut columns, &mut meta);
    settle_times(&mut columns, &mut meta);
    if columns.is_empty() && columns.unloaded.is_none() && columns.dump.is_none() {
        let health = std::mem::take(&mut columns.recorded.health);
        return Err(ReadError::NoEvents { file: input.shown.clone(), health: Box::new(health) });
    }
    Ok(Loaded { columns: columns.finish(), meta, unpacked_bytes })
}

fn known_format(input: &Input) -> Result<&'static dyn TraceFormat, ReadError> {
    match input.seen.and_then(|seen| FORMATS.iter().copied().find(|format| format.name() == seen.format)) {
        Some(format) => Ok(format),
        None => format_of(input, &FileStart::read(input, SNIFFED)?),
    }
}

/// The format of a file from its first bytes. Unrecognized files go to Kineto's reader, which reports what
/// they are instead.
///
/// # Errors
/// When the file is a report that its recorder's tools must export first, or a database that cannot be read
/// where it is.
fn format_of(input: &Input, start: &FileStart) -> Result<&'static dyn TraceFormat, ReadError> {
    let head = start.bytes.get(..SNIFFED).unwrap_or(&start.bytes);
    if input.path.is_remote() && Sqlite.sniff(head) {
        return Err(ReadError::NotATrace {
            file: input.shown.clone(),
            what: "an SQLite database in a store",
            hint: "databases are read at many places at once: copy it to this machine, for example with `aws \
                   s3 cp`",
            is_known: true,
        });
    }
    if start.packing != Compression::Plain && Sqlite.sniff(head) {
        let OtherRecorder { what, hint } = PACKED_DATABASE;
        return Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true });
    }
    let kineto: &dyn TraceFormat = &Kineto;
    let format = FORMATS.iter().copied().find(|f| f.sniff(head)).unwrap_or(kineto);
    if [kineto.name(), Perfetto.name()].contains(&format.name())
        && let Some(error) = reports::refuse(input, head)
    {
        return Err(error);
    }
    Ok(format)
}

/// What the head of a file says.
///
/// # Errors
/// As [`TraceFormat::peek`].
pub fn peek(input: &Input) -> Result<FileHead, ReadError> {
    if let Some(seen) = input.seen {
        return Ok(seen.head);
    }
    let start = FileStart::read(input, FileStart::LONGEST)?;
    format_of(input, &start)?.peek(input, &start)
}

/// All that the head of a file says, such as the groups of its rank; empty where it cannot be read.
pub fn head_of(input: &Input) -> Meta {
    let Ok(start) = FileStart::read(input, FileStart::LONGEST) else { return Meta::default() };
    format_of(input, &start).map(|format| format.head(input, &start)).unwrap_or_default()
}

/// Whether a file, of whatever name, begins as a dump of memory does.
pub(crate) fn is_dump_file(input: &Input) -> bool {
    let is_file = std::fs::metadata(&input.path).is_ok_and(|found| found.is_file());
    is_file && FileStart::read(input, SNIFFED).is_ok_and(|start| MemoryDumps.sniff(&start.bytes))
}

/// The inputs that a file stands for, with what its beginning says of each. What is wrong with the file is
/// reported when it is read.
pub(crate) fn parts(input: Input) -> Vec<Input> {
    let Ok(start) = FileStart::read(&input, FileStart::LONGEST) else { return vec![input] };
    let Ok(format) = format_of(&input, &start) else { return vec![input] };
    let seen = |part: Input| {
        let head = format.peek(&part, &start).ok();
        let seen = head.map(|head| SeenFile { packing: start.packing, format: format.name(), head });
        Input { seen, ..part }
    };
    format.parts(input, &start).into_iter().map(seen).collect()
}
