//! The texts of a results folder: only files of the folder are read, and no more than is ever written.

use crate::results::room::TableRoom;
use crate::results::{PROOF, ResultsError};
use hta_read::files::Location;
use std::io::{self, Read};

/// Maximum length of a text of results, bytes. The summary of a hundred thousand ranks is shorter.
const LONGEST: u64 = 1 << 28;

/// The text of a file of a folder of results.
///
/// # Errors
/// When it is no file of the folder, too long, or cannot be read.
pub(crate) fn text_of(folder: &Location, name: &str, room: &TableRoom) -> Result<String, ResultsError> {
    let path = folder.join(name);
    let read = || {
        let mut text = String::new();
        path.check_file_below(folder)?;
        let longest = room.left().map_or(LONGEST, |left| left.min(LONGEST));
        path.open()?.take(longest + 1).read_to_string(&mut text)?;
        if text.len() as u64 > longest {
            return Err(io::Error::other(format!("expected at most {longest} bytes, found more")));
        }
        Ok(text)
    };
    read().map_err(|e| ResultsError::io(&path, e))
}

/// Refuses what is no file in the place of `summary.json`, which is not there before all is written.
///
/// # Errors
/// When something else is there.
pub(crate) fn check_proof(folder: &Location) -> Result<(), ResultsError> {
    let proof = folder.join(PROOF);
    match proof.check_file_below(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(ResultsError::io(&proof, e)),
        _ => Ok(()),
    }
}
