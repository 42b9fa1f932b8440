//! The interface between file formats and the rest: a format recognizes a file by its first bytes, and turns
//! it into a rank's columns.
//!
//! To add a format, write a folder beside `kineto/` with a type that implements [`TraceFormat`], and add it
//! to the list in `load.rs`.

pub use super::input::FileHead;
use super::input::Input;
use super::opening::open_any;
use super::reading::{Reading, Unsettled};
use super::source::{Compression, Source, SourceError};
use crate::error::ReadError;
use hta_trace::meta::Meta;
use std::io;

/// The first bytes of a file, decompressed.
pub struct FileStart {
    pub packing: Compression,
    /// [`FileStart::LONGEST`] bytes, or all of a shorter file.
    pub bytes: Vec<u8>,
    /// Why nothing could be decompressed, if that is so.
    pub damage: Option<String>,
}

impl FileStart {
    /// Number of bytes that are read.
    pub const LONGEST: usize = 64 << 10;

    /// Reads the first bytes of a file, `most` at most.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn read(input: &Input, most: usize) -> Result<Self, ReadError> {
        let io_error = |error| ReadError::io(&input.shown, error);
        let (packing, mut source) = open_any(&input.path).map_err(io_error)?;
        let (bytes, damage) = head(source.as_mut(), most).map_err(io_error)?;
        Ok(Self { packing, bytes, damage })
    }
}

/// The first bytes of a stream, `most` at most, and why there are none if the first is damaged.
pub(crate) fn head(source: &mut dyn Source, most: usize) -> io::Result<(Vec<u8>, Option<String>)> {
    let (mut bytes, mut filled, mut damage) = (vec![0; most], 0, None);
    while filled < most {
        match source.read(bytes.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(SourceError::Io(error)) => return Err(error),
            Err(SourceError::Cut { reason, .. }) => {
                damage = (filled == 0).then_some(reason);
                break;
            }
        }
    }
    bytes.truncate(filled);
    Ok((bytes, damage))
}

/// A recorder's file format.
pub trait TraceFormat: Sync {
    /// Name of the recorder in messages.
    fn name(&self) -> &'static str;

    /// Whether a file that begins with these bytes (decompressed, some thousand, fewer of a short file) has
    /// this format.
    fn sniff(&self, head: &[u8]) -> bool;

    /// What the head of a file says. Called for all files of a set before one is loaded.
    ///
    /// # Errors
    /// When the file cannot be opened, is empty, or turns out to have another format.
    fn peek(&self, input: &Input, start: &FileStart) -> Result<FileHead, ReadError>;

    /// All that the head of a file says; empty where it cannot be read.
    fn head(&self, _input: &Input, _start: &FileStart) -> Meta {
        Meta::default()
    }

    /// The inputs that a file stands for: one per rank. Most formats have one rank in a file.
    fn parts(&self, input: Input, _start: &FileStart) -> Vec<Input> {
        vec![input]
    }

    /// Reads the whole file. Times are still those of the file; [`super::load::load`] converts them.
    ///
    /// # Errors
    /// When it is no trace, holds no event, cannot be read, or takes more memory than there is. A file that
    /// is cut or damaged is read as far as it goes, with health counters.
    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError>;
}
