//! What the head of a file says: whether it is a trace, and what precedes its events, such as rank, world
//! size and groups.

use super::document::Document;
use super::load::refused;
use super::refusal::KinetoRefusal;
use crate::error::ReadError;
use crate::format::FileStart;
use crate::input::Input;
use crate::options::LoadOptions;
use hta_trace::meta::Meta;

/// What the head of the file says.
///
/// # Errors
/// When the file is empty, damaged from its beginning, or clearly has another format. Other problems are
/// reported when it is loaded.
pub(super) fn peek(input: &Input, start: &FileStart) -> Result<Meta, ReadError> {
    if let Some(reason) = start.damage.clone() {
        return Err(ReadError::Damaged { file: input.shown.clone(), reason });
    }
    let mut document = Document::new(LoadOptions::default());
    // A small file is seen completely, so other JSON among the traces is recognized at once.
    let whole = start.bytes.len() < FileStart::LONGEST;
    let seen = if whole {
        document.feed_last(&start.bytes, true).and_then(|()| document.finish())
    } else {
        document.feed(&start.bytes, false).map(|_| ())
    };
    match seen {
        Ok(()) => Ok(document.meta),
        Err(KinetoRefusal::NoEvents) => Ok(Meta::default()),
        Err(other) => Err(refused(input, other)),
    }
}
