//! Location of real traces and other tools' answers. They are not part of the repository. The tests that need them are in
//! modules named `on_shared_traces`, so `cargo test on_shared_traces` runs all of them. If the traces are absent, these
//! tests pass, and one message on stderr says that they were skipped.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The folder named by `HTA_SHARED`, else `shared` beside the repository; `None` if there is none.
pub fn folder() -> Option<PathBuf> {
    let root = match std::env::var_os("HTA_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    let found = root.join("traces").is_dir() && root.join("reference").is_dir();
    if !found {
        static ONCE: Once = Once::new();
        // print macros are captured in tests that pass
        ONCE.call_once(|| {
            let message = "skipped: the tests in `on_shared_traces`, which need the folder ../shared (or HTA_SHARED)";
            let _ = writeln!(std::io::stderr(), "{message}");
        });
    }
    found.then_some(root)
}

/// The samples of the repository.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples")
}

/// Files below a folder, sorted by path.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder can be listed") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Every file of an output folder with its bytes.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The files at and below a folder, by their paths in it.
pub fn contents(root: &Path) -> Files {
    let name = |p: &PathBuf| p.strip_prefix(root).expect("below the folder").display().to_string();
    files_below(root).iter().map(|p| (name(p), std::fs::read(p).expect("a result can be read"))).collect()
}

/// Folders at and below a folder, sorted by path.
pub fn folders_below(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    let mut at = 0;
    while let Some(next) = folders.get(at).cloned() {
        at += 1;
        for entry in std::fs::read_dir(&next).expect("a folder can be listed") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    folders.sort();
    folders
}

/// Whether a file with this name is read from a folder.
pub fn looks_like_a_trace(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    [".json", ".json.gz", ".json.zst", ".tmp"].iter().any(|e| name.ends_with(e))
}
