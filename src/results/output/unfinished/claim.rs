//! Which unfinished files and folders are in use, told by locks, and which of them this process has.
//!
//! Every run holds a lock (`flock`) on what it is writing: what has a name of ours and is not locked was left
//! by a killed run. The process id in the name is no evidence, because in containers most processes have one
//! of the same few ids.

use crate::output::paths::entries;
use hta_read::files::abandon_uploads;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Moves an output to its place, by `moved`, so that an interrupt comes before or after and knows which.
pub(in crate::output) fn note_placed<E>(
    shown: &Path,
    moved: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let mut writing = writing();
    moved()?;
    writing.placed = Some(shown.to_path_buf());
    Ok(())
}

/// Removes all unfinished outputs of this process, and prevents other threads from starting or completing
/// any. Called before the process exits. Returns the last output that was completed before.
pub fn abandon_all() -> Option<PathBuf> {
    /// Other threads may still create files in a folder.
    const TRIES: usize = 100;
    abandon_uploads();
    let writing = writing();
    for path in &writing.open {
        (0..TRIES).any(|_| remove(path).is_ok() || !path.exists());
    }
    let placed = writing.placed.clone();
    std::mem::forget(writing);
    placed
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// An unfinished file or folder of this process: an interrupt removes it, and its lock tells other runs that
/// it is no leftover.
pub(super) struct Claim {
    path: PathBuf,
    /// `None` where the file system has no locks.
    lock: Option<File>,
}

impl Claim {
    /// Makes a file or folder in `folder`, and removes those of the same kind that killed runs have left
    /// there.
    pub(super) fn make<T: AsRef<Path>>(
        folder: &Path,
        kind: &str,
        _mode: u32,
        make: impl Fn(&tempfile::Builder) -> io::Result<T>,
    ) -> io::Result<(Self, T)> {
        /// Other runs that take it for a leftover before it is locked.
        const MOST_TRIES: usize = 1000;
        sweep(folder, kind);
        let name = format!("{}{}-", prefix(kind), std::process::id());
        let mut named = tempfile::Builder::new();
        named.prefix(&name);
        #[cfg(unix)]
        named.permissions(std::os::unix::fs::PermissionsExt::from_mode(_mode));
        for _ in 0..MOST_TRIES {
            let (mut claim, made) = {
                // Creates and registers under one lock, so that an interrupt cannot miss it.
                let mut writing = writing();
                let made = make(&named)?;
                let path = made.as_ref().to_path_buf();
                writing.open.insert(path.clone());
                (Self { path, lock: None }, made)
            };
            match OpenAndLock::of(&claim.path) {
                OpenAndLock::Yes(lock) => claim.lock = Some(lock),
                OpenAndLock::Impossible => {}
                OpenAndLock::ByOther => continue,
            }
            return Ok((claim, made));
        }
        Err(io::Error::other("every name for a temporary file or folder is taken"))
    }

    /// Lets other runs take it for a leftover.
    pub(super) fn unlock(&mut self) {
        self.lock = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        writing().open.remove(&self.path);
    }
}

fn prefix(kind: &str) -> String {
    format!(".hta-{kind}-")
}

/// Whether a name is that of an unfinished file or folder of a kind: the id of a process and letters follow.
fn is_of(kind: &str, name: &str) -> bool {
    let id = name.strip_prefix(&prefix(kind)).and_then(|rest| rest.split_once('-'));
    id.is_some_and(|(id, _)| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
}

/// The kind of the folders in which results are written.
pub(in crate::output) const OF_RESULTS: &str = "results";

/// Whether a name is that of a folder in which results are written.
pub(in crate::output) fn is_results_name(name: &str) -> bool {
    is_of(OF_RESULTS, name)
}

fn sweep(folder: &Path, kind: &str) {
    for (path, name) in entries(folder) {
        // The lock is held until it is removed.
        if is_of(kind, &name)
            && fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir() || m.is_file())
            && let OpenAndLock::Yes(_lock) = OpenAndLock::of(&path)
        {
            let _ = restore_earlier(&path, folder).and_then(|()| remove(&path));
        }
    }
}

/// The folder in an unfinished one into which an earlier output is moved, under its own name, before the new
/// one takes its place.
pub(in crate::output) const EARLIER: &str = "earlier";

/// Moves an earlier output back that a run had moved away when it was killed, unless its place has been
/// taken.
fn restore_earlier(left: &Path, folder: &Path) -> io::Result<()> {
    entries(&left.join(EARLIER)).into_iter().try_for_each(|(path, _)| {
        let place = folder.join(path.file_name().unwrap_or_default());
        if place.exists() { Ok(()) } else { fs::rename(path, place) }
    })
}

/// Result of opening and locking a file or folder; the lock is held until the file is closed.
pub(super) enum OpenAndLock {
    Yes(File),
    /// Another process has the lock, or has removed the file.
    ByOther,
    /// It cannot be opened, or the file system has no locks.
    Impossible,
}

impl OpenAndLock {
    pub(super) fn of(path: &Path) -> Self {
        match File::open(path) {
            Ok(file) => Self::lock(file, path),
            Err(_) if path.exists() => Self::Impossible,
            Err(_) => Self::ByOther,
        }
    }

    #[cfg(unix)]
    fn lock(file: File, path: &Path) -> Self {
        use rustix::fs::{FlockOperation, flock};
        use std::os::unix::fs::MetadataExt;
        let id = |found: io::Result<fs::Metadata>| found.ok().map(|m| (m.dev(), m.ino()));
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Meanwhile another file may have come to the path, or none.
            Ok(()) if id(file.metadata()).is_some_and(|own| id(fs::symlink_metadata(path)) == Some(own)) => {
                Self::Yes(file)
            }
            Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) => Self::ByOther,
            Err(_) => Self::Impossible,
        }
    }

    #[cfg(not(unix))]
    fn lock(_: File, _: &Path) -> Self {
        Self::Impossible
    }
}

#[cfg(test)]
mod tests {
    use super::super::ScratchFolder;
    use super::super::tests::{GONE, names};
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        // In a container a process with this id always exists, and is another one.
        let left = [GONE, 1, std::process::id()].map(|id| format!(".hta-results-{id}-abc"));
        let kept = [".hta-mcp-1-abc", ".hta-results-notes", ".hta-results-x1-abc", "out.tmp-1"];
        for name in left.iter().map(String::as_str).chain(kept) {
            fs::create_dir_all(dir.path().join(name).join("results/tables")).unwrap();
        }
        drop(ScratchFolder::create_in(dir.path(), OF_RESULTS).unwrap());
        assert_eq!(names(dir.path()), kept);
    }

    #[test]
    fn a_folder_that_somebody_holds_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!(".hta-results-{GONE}-abc"));
        fs::create_dir(&path).unwrap();
        let OpenAndLock::Yes(held) = OpenAndLock::of(&path) else { panic!("nobody holds it") };
        drop(ScratchFolder::create_in(dir.path(), OF_RESULTS).unwrap());
        assert!(path.exists());
        drop(held);
        drop(ScratchFolder::create_in(dir.path(), OF_RESULTS).unwrap());
        assert!(!path.exists());
    }
}
