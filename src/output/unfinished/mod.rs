//! Files and folders that are being written: under another name beside their place, and moved there when complete.
//!
//! They are moved ([`UnfinishedFolder::place`]), removed when dropped, or all removed when the user interrupts
//! ([`abandon_all`]). A `kill -9` leaves them; then the next run to the same place removes them. To tell them from
//! those of a running process, every run holds a lock (`flock`) on its folder or file: only unlocked ones are removed,
//! and of these only files with our names. The process id in the name is no evidence, because in containers most
//! processes have one of the same few ids.
//!
//! The output for a store is written to a temporary folder, which only the user may read, and uploaded from there.

mod file;
mod folder;
mod lock;
mod scratch;
mod upload;

pub use file::{UnfinishedFile, write};
pub use folder::UnfinishedFolder;
pub use scratch::ScratchFolder;

use crate::files::abandon_uploads;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of other names that are tried.
const MOST_TRIES: usize = 1000;

/// Outputs of this process.
struct Writing {
    /// Unfinished folders and files.
    open: BTreeSet<PathBuf>,
    /// The last output that was completed.
    placed: Option<PathBuf>,
}

static WRITING: Mutex<Writing> = Mutex::new(Writing { open: BTreeSet::new(), placed: None });

fn writing() -> MutexGuard<'static, Writing> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all unfinished outputs of this process, and prevents other threads from starting or completing any. Called
/// before the process exits. Returns the last output that was completed before.
pub fn abandon_all() -> Option<PathBuf> {
    abandon_uploads();
    let writing = writing();
    for path in &writing.open {
        remove_while_written(path);
    }
    let placed = writing.placed.clone();
    std::mem::forget(writing);
    placed
}

/// Removes a folder in which other threads may still create files.
fn remove_while_written(path: &Path) {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {}
            _ if !path.exists() => return,
            _ => {}
        }
    }
}

/// Registration of an unfinished file or folder.
struct Registration(PathBuf);

impl Registration {
    /// Creates and registers under one lock, so that an interrupt cannot miss it.
    fn make<T>(make: impl FnOnce() -> io::Result<(PathBuf, T)>) -> io::Result<(Self, T)> {
        let mut writing = writing();
        let (path, made) = make()?;
        writing.open.insert(path.clone());
        Ok((Self(path), made))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        writing().open.remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use crate::output::paths::entries;
    use std::path::Path;

    /// An id that no process has.
    pub(super) const GONE: u32 = 4_194_304 + 7;

    pub(super) fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = entries(folder).into_iter().map(|e| e.1).collect();
        names.sort();
        names
    }
}
