//! One file from path to columns, whatever its format: the format's own reader, then its times are settled.

use super::format;
use super::options::LoadOptions;
use super::room::{Alone, Room, Unbounded};
use super::source::{ByteCount, Input};
use super::times::settle_times;
use crate::error::ReadError;
use crate::health::Counter;
use crate::trace::events::Columns;
use crate::trace::meta::Meta;

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
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    pub options: LoadOptions,
    pub spread: Spread,
    pub chunks: Chunks,
    /// Counts the bytes taken from the disk, for progress.
    pub count: &'a ByteCount,
    /// Grants memory, or stops the reading.
    pub room: &'a dyn Room,
}

fn read(input: &Input, how: &Reading) -> Result<Loaded, ReadError> {
    let mut loaded = format::of(input)?.load(input, how)?;
    let Loaded { columns, meta, .. } = &mut loaded;
    if input.path.extension().is_some_and(|e| e == "tmp") {
        columns.health.note(Counter::Temporary, &input.shown);
    }
    settle_times(columns, meta);
    if columns.is_empty() && columns.unloaded.is_none() {
        let health = std::mem::take(&mut columns.health);
        return Err(ReadError::NoEvents { file: input.shown.clone(), health: Box::new(health) });
    }
    Ok(loaded)
}
