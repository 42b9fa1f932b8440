//! What a file about memory is, by its first bytes.

use super::is_pickle;
use super::timeline::is_timeline;
use super::viewer_page::{ViewerPage, text_start};
use crate::files::Location;
use crate::source::{ByteCount, Source, SourceError, open, packing};
use std::io;

/// Number of decompressed bytes that are looked at.
const LOOKED_AT: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFile {
    /// A pickle, or a page with one inside; whether it is a snapshot is known once it is read.
    Snapshot,
    Timeline,
}

/// The kind of a file; `None` if it is something else, a trace for example.
///
/// # Errors
/// When it cannot be opened.
pub fn memory_file(path: &Location) -> io::Result<Option<MemoryFile>> {
    let mut source = open(path, packing(path)?, &ByteCount::default(), false)?;
    let head = head(source.as_mut())?;
    Ok(match () {
        () if is_pickle(&head) || text_start(&head).is_some() => Some(MemoryFile::Snapshot),
        () if is_timeline(&head) => Some(MemoryFile::Timeline),
        () => None,
    })
}

/// The pickle in a file: its bytes, or those inside a page of the viewer.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn open_pickle(path: &Location, count: &ByteCount) -> io::Result<Box<dyn Source>> {
    let open = || open(path, packing(path)?, count, false);
    let mut page = open()?;
    let mut head = head(page.as_mut())?;
    match text_start(&head) {
        Some(start) => Ok(Box::new(ViewerPage::new(page, head.split_off(start)))),
        None => open(),
    }
}

/// The first bytes of a file.
fn head(source: &mut dyn Source) -> io::Result<Vec<u8>> {
    let mut head = vec![0; LOOKED_AT];
    let mut filled = 0;
    while filled < head.len() {
        match source.read(head.get_mut(filled..).unwrap_or_default()) {
            Ok(0) | Err(SourceError::Cut { .. }) => break,
            Ok(n) => filled += n,
            Err(SourceError::Io(e)) => return Err(e),
        }
    }
    head.truncate(filled);
    Ok(head)
}
