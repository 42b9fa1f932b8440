//! A look at a file's head: whether it is a trace, and the rank where it stands before the events.

use super::document::{Document, Refusal};
use super::load::refused;
use crate::error::ReadError;
use crate::read::input::Input;
use crate::read::options::LoadOptions;
use crate::read::source::{ByteCount, SourceError, open, packing};

/// Bytes of text that are looked at.
const HEAD: usize = 64 << 10;

/// `distributedInfo.rank`, if it stands in the head; an error for what is clearly no trace.
///
/// # Errors
/// Files that cannot be opened, empty ones and other formats. What shows only later is told when it is loaded.
pub(super) fn peek(input: &Input) -> Result<Option<u32>, ReadError> {
    let io_error = |source| ReadError::Io { file: input.shown.clone(), source };
    let packed = packing(&input.path).map_err(io_error)?;
    let mut source = open(&input.path, packed, &ByteCount::default(), false).map_err(io_error)?;
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match source.read(&mut head[filled..]) {
            Ok(1..) if filled == HEAD => break,
            Ok(0) | Err(SourceError::Io(_)) => break,
            Err(SourceError::Cut { reason, .. }) if filled == 0 => {
                return Err(ReadError::Damaged { file: input.shown.clone(), reason });
            }
            Err(SourceError::Cut { .. }) => break,
            Ok(n) => filled += n,
        }
    }
    let mut document = Document::new(LoadOptions::default());
    // a small file is seen whole, so that other JSON beside the traces is told at once
    let whole = filled < HEAD;
    let seen = if whole {
        document.feed_last(&head[..filled], true).and_then(|()| document.finish())
    } else {
        document.feed(&head[..filled], false).map(|_| ())
    };
    match seen {
        Ok(()) => Ok(document.meta.rank),
        Err(Refusal::NoEvents) => Ok(None),
        Err(other) => Err(refused(input, other)),
    }
}
