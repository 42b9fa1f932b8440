//! Locks that tell the files and folders of a running process from those that a killed one left.

use std::fs::File;
use std::path::Path;

/// Result of taking the lock of a file or folder; it is held until the file is closed.
pub(super) enum LockResult {
    Taken,
    ByOther,
    /// The file system has no locks.
    Impossible,
}

#[cfg(unix)]
pub(super) fn lock(file: &File) -> LockResult {
    match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => LockResult::Taken,
        Err(rustix::io::Errno::WOULDBLOCK) => LockResult::ByOther,
        Err(_) => LockResult::Impossible,
    }
}

#[cfg(not(unix))]
pub(super) fn lock(_: &File) -> LockResult {
    LockResult::Impossible
}

/// Result of opening and locking a path.
pub(super) enum OpenAndLock {
    Yes(File),
    /// Another process has the lock, or has removed the file.
    ByOther,
    Impossible,
}

pub(super) fn locked(path: &Path) -> OpenAndLock {
    let Ok(file) = File::open(path) else {
        return if path.exists() { OpenAndLock::Impossible } else { OpenAndLock::ByOther };
    };
    match lock(&file) {
        LockResult::Taken if is_at(&file, path) => OpenAndLock::Yes(file),
        LockResult::Taken | LockResult::ByOther => OpenAndLock::ByOther,
        LockResult::Impossible => OpenAndLock::Impossible,
    }
}

/// Whether an open file is still the one at a path.
#[cfg(unix)]
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(held), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else { return false };
    (held.dev(), held.ino()) == (there.dev(), there.ino())
}

#[cfg(not(unix))]
pub(super) fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
