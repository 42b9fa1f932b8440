//! Paths of outputs: resolving links, the folder above, what a folder holds.

use std::fs;
use std::path::{Path, PathBuf};

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
