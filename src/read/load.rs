//! Loads one file of any format: runs the format's reader, then converts its times.

use super::format::{FileHead, TraceFormat};
use super::input::Input;
use super::kineto::Kineto;
use super::options::LoadOptions;
use super::reading::{Chunks, Loaded, Reading, Spread, Unsettled};
use super::reports;
use super::room::{FixedLimit, MemoryGate, Unbounded};
use super::source::{ByteCount, Compression, SourceError, open, packing};
use super::sqlite::Sqlite;
use super::times::settle_times;
use crate::error::ReadError;
use crate::error::recorders::{OtherRecorder, PACKED_DATABASE};
use crate::health::Counter;

/// All formats. The first one that recognizes a file reads it.
pub const FORMATS: &[&dyn TraceFormat] = &[&Sqlite, &Kineto];

/// Number of decompressed bytes that [`TraceFormat::sniff`] sees at most.
const SNIFFED: usize = 4 << 10;

/// Loads one file.
///
/// # Errors
/// When the file is not a trace, has no events or cannot be read. A truncated or damaged file is read as far as
/// possible, with health counters.
pub fn load(input: &Input, options: LoadOptions, spread: Spread, count: &ByteCount) -> Result<Loaded, ReadError> {
    load_in_chunks(input, options, spread, Chunks::default(), count)
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
    let Unsettled { mut columns, mut meta, unpacked_bytes } = format_of(input)?.load(input, how)?;
    if input.path.extension().is_some_and(|e| e == "tmp") {
        columns.health.note(Counter::Temporary, &input.shown);
    }
    settle_times(&mut columns, &mut meta);
    if columns.is_empty() && columns.unloaded.is_none() {
        let health = std::mem::take(&mut columns.recorded.health);
        return Err(ReadError::NoEvents { file: input.shown.clone(), health: Box::new(health) });
    }
    Ok(Loaded { columns: columns.finish(), meta, unpacked_bytes })
}

/// The format of a file. Unrecognized files go to Kineto's reader, which reports what they are instead.
///
/// # Errors
/// When the file cannot be opened, or is a report that its recorder's tools must export first.
fn format_of(input: &Input) -> Result<&'static dyn TraceFormat, ReadError> {
    let head = head(input)?;
    if input.path.is_remote() && Sqlite.sniff(&head) {
        return Err(ReadError::NotATrace {
            file: input.shown.clone(),
            what: "an SQLite database in a store",
            hint: "databases are read at many places at once: copy it to this machine, for example with `aws s3 cp`",
            is_known: true,
        });
    }
    let is_packed = packing(&input.path).is_ok_and(|packed| packed != Compression::Plain);
    if is_packed && Sqlite.sniff(&head) {
        let OtherRecorder { what, hint } = PACKED_DATABASE;
        return Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true });
    }
    let kineto: &dyn TraceFormat = &Kineto;
    let format = FORMATS.iter().copied().find(|f| f.sniff(&head)).unwrap_or(kineto);
    if format.name() == kineto.name()
        && let Some(error) = reports::refuse(input, &head)
    {
        return Err(error);
    }
    Ok(format)
}

/// Reads the head of a file.
///
/// # Errors
/// As [`TraceFormat::peek`].
pub fn peek(input: &Input) -> Result<FileHead, ReadError> {
    format_of(input)?.peek(input)
}

/// The inputs that a file stands for. What is wrong with the file is reported when it is read.
pub fn parts(input: Input) -> Vec<Input> {
    match format_of(&input) {
        Ok(format) => format.parts(input),
        Err(_) => vec![input],
    }
}

/// The first bytes of the decompressed file; fewer if decompression fails.
fn head(input: &Input) -> Result<Vec<u8>, ReadError> {
    let io_error = |source| ReadError::Io { file: input.shown.clone(), source };
    let packed = packing(&input.path).map_err(io_error)?;
    let mut source = open(&input.path, packed, &ByteCount::default(), false).map_err(io_error)?;
    let mut head = vec![0; SNIFFED];
    let mut filled = 0;
    while filled < head.len() {
        match source.read(&mut head[filled..]) {
            Ok(0) | Err(SourceError::Cut { .. }) => break,
            Ok(n) => filled += n,
            Err(SourceError::Io(source)) => return Err(io_error(source)),
        }
    }
    head.truncate(filled);
    Ok(head)
}
