//! The seam for recorders: a file format is told by a file's first bytes, and turns the file into a rank's columns.
//!
//! To add one, write a folder beside `kineto/` with a type that implements [`TraceFormat`], and add it to the list in `load.rs`.

use super::input::Input;
use super::reading::{Reading, Unsettled};
use crate::error::ReadError;

/// A recorder's file format.
pub trait TraceFormat: Sync {
    /// The recorder, as messages name it.
    fn name(&self) -> &'static str;

    /// Whether a file whose unpacked text begins with these bytes (some thousand, less of a short file) is of this format.
    fn sniff(&self, head: &[u8]) -> bool;

    /// The rank, if the head of the file tells it. It is asked of all files of a set before one is loaded.
    ///
    /// # Errors
    /// Files that cannot be opened, empty ones, and those which turn out to be something else.
    fn peek(&self, input: &Input) -> Result<Option<u32>, ReadError>;

    /// The whole file. Times are still those of the file; [`super::load::load`] settles them.
    ///
    /// # Errors
    /// When it is no trace, holds no event, cannot be read, or takes more memory than there is. A file that is cut or
    /// damaged is read as far as it goes, with health counters.
    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError>;
}
