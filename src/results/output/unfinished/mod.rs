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

pub use file::{UnfinishedFile, write};
pub use folder::UnfinishedFolder;
pub use scratch::ScratchFolder;

use crate::output::paths::{entries, is_id};
use hta_read::files::abandon_uploads;
use lock::{OpenAndLock, locked};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of other names that are tried.
const MOST_TRIES: usize = 1000;

/// Outputs of this process.
struct WrittenOutputs {
    /// Unfinished folders and files.
    open: BTreeSet<PathBuf>,
    /// The last output that was completed.
    placed: Option<PathBuf>,
}

static WRITING: Mutex<WrittenOutputs> = Mutex::new(WrittenOutputs { open: BTreeSet::new(), placed: None });

fn writing() -> MutexGuard<'static, WrittenOutputs> {
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

/// An unfinished file or folder of this process: an interrupt removes it, and its lock tells other runs that it is no leftover.
struct Claim {
    path: PathBuf,
    /// Held until it is dropped; `None` where the file system has no locks.
    lock: Option<File>,
}

impl Claim {
    /// Makes and claims a file or folder. `make` is given the number of the attempt: it is asked again while the name is used
    /// by another run of this process, or by a process with the same id.
    fn make<T>(mut make: impl FnMut(usize) -> io::Result<(PathBuf, T)>) -> io::Result<(Self, T)> {
        for attempt in 0..MOST_TRIES {
            let (mut claim, made) = {
                // Creates and registers under one lock, so that an interrupt cannot miss it.
                let mut writing = writing();
                match make(attempt) {
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                    made => {
                        let (path, made) = made?;
                        writing.open.insert(path.clone());
                        (Self { path, lock: None }, made)
                    }
                }
            };
            match locked(&claim.path) {
                OpenAndLock::Yes(lock) => claim.lock = Some(lock),
                OpenAndLock::Impossible => {}
                // Another run has mistaken it for a leftover before it was locked.
                OpenAndLock::ByOther => continue,
            }
            return Ok((claim, made));
        }
        Err(io::Error::other("every name for a temporary file or folder is taken"))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        writing().open.remove(&self.path);
    }
}

/// Removes the files or folders that killed runs have left in a folder. `is_left` tells them by their names.
fn sweep(folder: &Path, is_dir: bool, is_left: impl Fn(&str) -> bool, remove: impl Fn(&Path, &str)) {
    for (path, name) in entries(folder) {
        let is_kind = |m: fs::Metadata| if is_dir { m.is_dir() } else { m.is_file() };
        // The lock is held until it is removed.
        if is_left(&name)
            && fs::symlink_metadata(&path).is_ok_and(is_kind)
            && let OpenAndLock::Yes(_lock) = locked(&path)
        {
            remove(&path, &name);
        }
    }
}

/// Makes a file or folder under a temporary name. `kind` tells leftovers of different kinds apart, and `_mode` who may use it.
fn temporary<T: AsRef<Path>>(
    folder: &Path,
    (kind, is_dir, _mode): (&str, bool, u32),
    make: impl Fn(&tempfile::Builder) -> io::Result<T>,
) -> io::Result<(Claim, T)> {
    let prefix = format!(".hta-{kind}-");
    let id = |name: &str| name.strip_prefix(&prefix).and_then(|rest| Some(is_id(rest.split_once('-')?.0)));
    let remove = |path: &Path, _: &str| {
        let _ = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    };
    sweep(folder, is_dir, |name| id(name) == Some(true), remove);
    let name = format!("{prefix}{}-", std::process::id());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&name);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(_mode));
    Claim::make(|_| make(&builder).map(|made| (made.as_ref().to_path_buf(), made)))
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
