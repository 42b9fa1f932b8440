//! Paths of outputs: resolving links, and the names of unfinished outputs.

use std::fs;
use std::path::{Path, PathBuf};

pub(super) const WORK: &str = ".tmp-";

/// Follows all links of a path, even if its target does not exist.
pub fn destination(path: &Path) -> PathBuf {
    /// The limit of Linux.
    const MOST_LINKS: usize = 40;
    // Remove a trailing slash, which would make the system follow the link.
    let mut path: PathBuf = path.components().collect();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = parent(&path).join(next),
            Err(_) => break,
        }
    }
    path
}

pub(super) fn parent(target: &Path) -> &Path {
    target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The entries of a folder; empty if it cannot be listed.
pub(super) fn entries(folder: &Path) -> Vec<(PathBuf, String)> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    found.flatten().map(|e| (e.path(), e.file_name().to_string_lossy().into_owned())).collect()
}

/// Whether a name, after the prefix was removed, is that of an unfinished output.
pub(super) fn is_work_name(name: &str) -> bool {
    name.strip_prefix(WORK).is_some_and(is_id)
}

/// Whether a suffix is one of ours: a process id, followed by a number if the process has several outputs.
pub(super) fn is_id(ending: &str) -> bool {
    let (process, more) = ending.split_once('.').unwrap_or((ending, "0"));
    [process, more].iter().all(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))
}
