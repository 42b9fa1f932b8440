//! Locks that tell the files and folders of a running process from those that a killed one left.

use std::fs::File;
use std::path::Path;

/// Result of opening and locking a file or folder; the lock is held until the file is closed.
pub(super) enum OpenAndLock {
    Yes(File),
    /// Another process has the lock, or has removed the file.
    ByOther,
    /// It cannot be opened, or the file system has no locks.
    Impossible,
}

pub(super) fn locked(path: &Path) -> OpenAndLock {
    let Ok(file) = File::open(path) else {
        return if path.exists() { OpenAndLock::Impossible } else { OpenAndLock::ByOther };
    };
    lock(file, path)
}

#[cfg(unix)]
fn lock(file: File, path: &Path) -> OpenAndLock {
    use rustix::fs::{FlockOperation, flock};
    use std::os::unix::fs::MetadataExt;
    let id = |found: std::io::Result<std::fs::Metadata>| found.ok().map(|m| (m.dev(), m.ino()));
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // Meanwhile another file may have come to the path, or none.
        Ok(()) if id(file.metadata()).is_some_and(|own| id(std::fs::symlink_metadata(path)) == Some(own)) => {
            OpenAndLock::Yes(file)
        }
        Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) => OpenAndLock::ByOther,
        Err(_) => OpenAndLock::Impossible,
    }
}

#[cfg(not(unix))]
fn lock(_: File, _: &Path) -> OpenAndLock {
    OpenAndLock::Impossible
}
