//! Files on disk and objects in stores, read and listed by one set of functions.
//!
//! A path is that of a file, or a URL (`s3://`, `gs://`, `az://`, `http://`, `https://`). An object is read as a stream of
//! its bytes: nothing of it is copied to the disk, and a few megabytes are in memory.
//!
//! - `scheme`, `secrets`, `address`: URLs, and what must not be seen of them.
//! - `fault`: why a store failed.
//! - `net`, `stores`: connections, credentials, one client for each bucket.
//! - `object`, `listing`, `lists`: reading and listing, and lists that do not end.
//! - `upload`: writing a folder, complete or not at all.
//! - `stored`: a file or object that is read at any place, as Parquet needs it.

mod address;
mod fault;
mod listing;
mod lists;
mod net;
mod object;
mod scheme;
mod secrets;
mod stored;
mod stores;
mod upload;

pub use address::is_within;
pub use fault::Fault;
pub use listing::{all_names, matching, unreadable_urls};
pub use scheme::is_remote;
pub use secrets::without_secrets;
pub use stored::{Stored, StoredReader};
pub use stores::{STALL, StoreOptions, configure};
pub use upload::{abandon_uploads, can_write, upload};

use object::{ObjectStream, object};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Opens a file or object for reading from its beginning.
///
/// # Errors
/// When it does not exist or cannot be read.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    open_at(path, 0)
}

/// Opens a file or object for reading from some place on; beyond the end there is nothing.
///
/// # Errors
/// As [`open`].
pub fn open_at(path: &Path, start: u64) -> io::Result<Box<dyn Read + Send>> {
    if is_remote(path) {
        return Ok(Box::new(ObjectStream::new(object(path)?, start)));
    }
    let mut file = File::open(path)?;
    if start > 0 {
        file.seek(SeekFrom::Start(start))?;
    }
    Ok(Box::new(file))
}

/// Size of a file or object, bytes.
///
/// # Errors
/// As [`open`].
pub fn size(path: &Path) -> io::Result<u64> {
    if is_remote(path) { Ok(object(path)?.size()) } else { Ok(fs::metadata(path)?.len()) }
}

/// Whether a path is that of a regular file (following links) or of an object.
///
/// # Errors
/// When a store cannot be asked.
pub fn is_file(path: &Path) -> io::Result<bool> {
    if is_remote(path) { Ok(listing::is_object(path)?) } else { Ok(path.is_file()) }
}

/// Whether a path is that of a folder; in a store, of one with objects in it or below.
///
/// # Errors
/// When a store cannot be asked.
pub fn is_folder(path: &Path) -> io::Result<bool> {
    if is_remote(path) { Ok(listing::has_any(path)?) } else { Ok(path.is_dir()) }
}

/// Names of everything directly in a folder; of a store, of its objects. In order of the names.
///
/// # Errors
/// When the folder cannot be listed.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    if is_remote(folder) {
        return Ok(listing::names(folder)?);
    }
    let entries = fs::read_dir(folder)?.map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned()));
    let mut names = entries.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}
