//! What a file about memory is, by its first bytes.

use super::is_pickle;
use super::timeline::is_timeline;
use crate::read::source::{ByteCount, SourceError, open, packing};
use std::io;
use std::path::Path;

/// Number of decompressed bytes that are looked at.
const LOOKED_AT: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFile {
    /// A pickle; whether it is a snapshot is known once it is read.
    Snapshot,
    Timeline,
}

/// The kind of a file; `None` if it is something else, a trace for example.
///
/// # Errors
/// When it cannot be opened.
pub fn memory_file(path: &Path) -> io::Result<Option<MemoryFile>> {
    let mut source = open(path, packing(path)?, &ByteCount::default(), false)?;
    let mut head = vec![0; LOOKED_AT];
    let mut filled = 0;
    while filled < head.len() {
        match source.read(head.get_mut(filled..).unwrap_or_default()) {
            Ok(0) | Err(SourceError::Cut { .. }) => break,
            Ok(n) => filled += n,
            Err(SourceError::Io(e)) => return Err(e),
        }
    }
    let head = head.get(..filled).unwrap_or_default();
    Ok(match () {
        () if is_pickle(head) => Some(MemoryFile::Snapshot),
        () if is_timeline(head) => Some(MemoryFile::Timeline),
        () => None,
    })
}
