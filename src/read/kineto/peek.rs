//! Reads the head of a file: whether it is a trace, and its rank if that precedes the events.

use super::document::{Document, Refusal};
use super::load::refused;
use crate::error::ReadError;
use crate::read::input::Input;
use crate::read::options::LoadOptions;
use crate::read::source::{ByteCount, SourceError, open, packing};

/// Number of bytes that are read.
const HEAD: usize = 64 << 10;

/// `distributedInfo.rank`, if it is in the head of the file.
///
/// # Errors
/// When the file cannot be opened, is empty, or clearly has another format. Other problems are reported when it is
/// loaded.
pub(super) fn peek(input: &Input) -> Result<Option<u32>, ReadError> {
    let head = head(input)?;
    let mut document = Document::new(LoadOptions::default());
    // A small file is seen completely, so other JSON among the traces is recognized at once.
    let whole = head.len() < HEAD;
    let seen = if whole {
        document.feed_last(&head, true).and_then(|()| document.finish())
    } else {
        document.feed(&head, false).map(|_| ())
    };
    match seen {
        Ok(()) => Ok(document.meta.rank),
        Err(Refusal::NoEvents) => Ok(None),
        Err(other) => Err(refused(input, other)),
    }
}

/// The first bytes of the unpacked file.
///
/// # Errors
/// When the file cannot be opened, or nothing of it can be unpacked.
pub(super) fn head(input: &Input) -> Result<Vec<u8>, ReadError> {
    let io_error = |source| ReadError::Io { file: input.shown.clone(), source };
    let packed = packing(&input.path).map_err(io_error)?;
    let mut source = open(&input.path, packed, &ByteCount::default(), false).map_err(io_error)?;
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match source.read(&mut head[filled..]) {
            Ok(1..) if filled == HEAD => break,
            Ok(0) => break,
            Err(SourceError::Io(e)) => return Err(io_error(e)),
            Err(SourceError::Cut { reason, .. }) if filled == 0 => {
                return Err(ReadError::Damaged { file: input.shown.clone(), reason });
            }
            Err(SourceError::Cut { .. }) => break,
            Ok(n) => filled += n,
        }
    }
    head.truncate(filled);
    Ok(head)
}
