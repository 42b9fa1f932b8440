//! Paths of outputs: where links lead, and the names under which a run writes.

use std::fs;
use std::path::{Path, PathBuf};

pub(super) const WORK: &str = ".tmp-";

/// Where a path leads: to the end of its links, even where nothing stands there.
pub fn destination(path: &Path) -> PathBuf {
    /// As many as the system follows.
    const MOST_LINKS: usize = 40;
    // a slash at the end would follow a link that is to be looked at
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

/// What is in a folder, where it can be listed.
pub(super) fn entries(folder: &Path) -> Vec<(PathBuf, String)> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    found.flatten().map(|e| (e.path(), e.file_name().to_string_lossy().into_owned())).collect()
}

/// Whether a name is that of a folder in which a run writes, without what it begins with.
pub(super) fn is_work_name(name: &str) -> bool {
    name.strip_prefix(WORK).is_some_and(is_id)
}

/// Whether a name's ending is one of ours: the id of a process, and a number where it has made several.
pub(super) fn is_id(ending: &str) -> bool {
    let (process, more) = ending.split_once('.').unwrap_or((ending, "0"));
    [process, more].iter().all(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))
}
