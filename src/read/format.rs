//! The seam for recorders: a file format is told by a file's first bytes, and turns the file into a rank's columns.
//!
//! To add one, write a folder beside `kineto/` with a type that implements [`TraceFormat`], and add it to [`FORMATS`].

use super::kineto::Kineto;
use super::load::{Loaded, Reading};
use super::source::{ByteCount, Input, SourceError, open, packing};
use crate::error::ReadError;

/// Bytes of the unpacked file that [`TraceFormat::sniff`] is shown at most.
const SNIFFED: usize = 4 << 10;

/// A recorder's file format.
pub trait TraceFormat: Sync {
    /// The recorder, as messages name it.
    fn name(&self) -> &'static str;

    /// Whether a file that begins with these (unpacked) bytes is of this format.
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
    fn load(&self, input: &Input, how: &Reading) -> Result<Loaded, ReadError>;
}

/// All formats. The first one that knows a file reads it.
pub const FORMATS: &[&dyn TraceFormat] = &[&Kineto];

/// The format of a file. What no format knows is left to Kineto's reader, which tells what the file is instead.
///
/// # Errors
/// When the file cannot be opened.
pub fn of(input: &Input) -> Result<&'static dyn TraceFormat, ReadError> {
    // with one format there is nothing to choose
    let [only] = FORMATS else {
        let head = head(input)?;
        return Ok(FORMATS.iter().copied().find(|f| f.sniff(&head)).unwrap_or(&Kineto));
    };
    Ok(*only)
}

/// The rank that a file tells in its head.
///
/// # Errors
/// As [`TraceFormat::peek`].
pub fn peek(input: &Input) -> Result<Option<u32>, ReadError> {
    of(input)?.peek(input)
}

/// First bytes of the unpacked file; less where unpacking stops.
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
