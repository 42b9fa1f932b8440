//! The interface between file formats and the rest: a format recognizes a file by its first bytes, and turns it into a
//! rank's columns.
//!
//! To add a format, write a folder beside `kineto/` with a type that implements [`TraceFormat`], and add it to the list
//! in `load.rs`.

use super::input::Input;
use super::reading::{Reading, Unsettled};
use crate::error::ReadError;
use crate::trace::meta::Recorder;

/// What the head of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHead {
    /// The rank, if the head contains it.
    pub rank: Option<u32>,
    pub recorder: Recorder,
}

/// A recorder's file format.
pub trait TraceFormat: Sync {
    /// Name of the recorder in messages.
    fn name(&self) -> &'static str;

    /// Whether a file that begins with these bytes (decompressed, some thousand, fewer of a short file) has this
    /// format.
    fn sniff(&self, head: &[u8]) -> bool;

    /// Reads the head of a file. Called for all files of a set before one is loaded.
    ///
    /// # Errors
    /// When the file cannot be opened, is empty, or turns out to have another format.
    fn peek(&self, input: &Input) -> Result<FileHead, ReadError>;

    /// The inputs that a file stands for: one per rank. Most formats have one rank in a file.
    fn parts(&self, input: Input) -> Vec<Input> {
        vec![input]
    }

    /// Reads the whole file. Times are still those of the file; [`super::load::load`] converts them.
    ///
    /// # Errors
    /// When it is no trace, holds no event, cannot be read, or takes more memory than there is. A file that is cut or
    /// damaged is read as far as it goes, with health counters.
    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError>;
}
