//! The inputs of a command, which its outputs must not overwrite or remove.
//!
//! Files and folders are compared by identity (device and inode), not by name, because links, different
//! spellings of a path and bind mounts can lead to the same file.

use crate::output::paths::{destination, parent};
use hta_read::files::{is_remote, is_within};
use hta_read::input::Input;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Why an output may not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot write {place}: expected {expected}, found {found}")]
pub struct OutputRefused {
    place: String,
    expected: String,
    found: String,
    /// Advice for the user.
    pub hint: &'static str,
}

impl OutputRefused {
    pub(super) fn new(
        place: String,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self { place, expected: expected.into(), found: found.into(), hint }
    }

    fn holds(out: &str, input: &str) -> Self {
        Self::new(format!("to {out}"), "a folder without inputs", format!("`{input}` in it"), BESIDE)
    }

    fn lies_in(out: &str, input: &str) -> Self {
        Self::new(format!("to {out}"), "a folder outside of the inputs", format!("it in `{input}`"), BESIDE)
    }
}

const BESIDE: &str =
    "inputs are never written to, not even with --force: choose a folder beside them with --out";

#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// Path and name in messages.
    files: Vec<(PathBuf, String)>,
    folders: Vec<(PathBuf, String)>,
}

impl Inputs {
    pub fn of_traces(inputs: &[Input]) -> Self {
        let files = inputs.iter().map(|i| (i.path.to_path_buf(), i.shown.clone())).collect();
        Self { files, folders: Vec::new() }
    }

    pub fn add_file(&mut self, path: &Path) {
        self.files.push((path.to_path_buf(), path.display().to_string()));
    }

    /// Adds a folder: an output folder may neither contain it nor lie in it.
    pub fn add_folder(&mut self, path: &Path) {
        self.folders.push((path.to_path_buf(), path.display().to_string()));
    }

    pub fn add_all(&mut self, other: &Inputs) {
        self.files.extend_from_slice(&other.files);
        self.folders.extend_from_slice(&other.folders);
    }

    /// Adds the files of a results folder: those in it and in its `tables` and `events`.
    pub fn add_results(&mut self, folder: &Path) {
        for below in [folder.to_path_buf(), folder.join("tables"), folder.join("events")] {
            for entry in fs::read_dir(below).into_iter().flatten().flatten() {
                if entry.path().is_file() {
                    self.add_file(&entry.path());
                }
            }
        }
    }

    /// Removes a file that the command is meant to replace.
    pub fn except(mut self, path: &Path) -> Self {
        self.files.retain(|(file, _)| file != path);
        self
    }

    /// Checks that a file may be written at `out`.
    ///
    /// # Errors
    /// When `out`, after following links, is one of the files.
    pub fn allow_file(&self, out: &Path) -> Result<(), OutputRefused> {
        const HINT: &str =
            "inputs are never written to, not even with --force: choose another file with --out";
        // Files are not written to stores, and a file that does not exist is not an input.
        let Some(own) = Identity::of(out).filter(|_| !out.is_dir()) else { return Ok(()) };
        let Some((_, input)) = self.files.iter().find(|(file, _)| Identity::of(file).as_ref() == Some(&own))
        else {
            return Ok(());
        };
        let found = format!("the input `{input}`");
        Err(OutputRefused::new(out.display().to_string(), "another file than the inputs", found, HINT))
    }

    /// Checks that a folder of a store may be written at `out`. URLs are compared by their texts.
    ///
    /// # Errors
    /// When `out` is or contains one of the inputs, or lies in one of the folders.
    pub(super) fn allow_folder_of_store(&self, out: &Path) -> Result<(), OutputRefused> {
        let shown = out.display().to_string();
        let (mut held, mut holders) = (self.files.iter().chain(&self.folders), self.folders.iter());
        if let Some((_, input)) = held.find(|(input, _)| is_remote(input) && is_within(input, out)) {
            return Err(OutputRefused::holds(&shown, input));
        }
        let holder = holders.find(|(folder, _)| is_remote(folder) && is_within(out, folder));
        holder.map_or(Ok(()), |(_, input)| Err(OutputRefused::lies_in(&shown, input)))
    }

    /// Checks that a folder may be written at `out`, which the user calls `shown`.
    ///
    /// # Errors
    /// When `out`, after following links, is or contains one of the inputs, or lies in one of the folders.
    pub(super) fn allow_folder(&self, out: &Path, shown: &str) -> Result<(), OutputRefused> {
        let out = &destination(out);
        let above = existing_folders_above(out);
        // If `out` is an input folder itself, it holds the input.
        let mut own = None;
        let mut outer = above.iter();
        if out.is_dir() {
            own = outer.next();
        }
        let outer: Vec<&Identity> = outer.collect();
        for (folder, input) in &self.folders {
            if Identity::of(folder).is_some_and(|id| outer.contains(&&id)) {
                return Err(OutputRefused::lies_in(shown, input));
            }
        }
        let Some(own) = own else { return Ok(()) };
        // Many files lie in one folder.
        let mut held: BTreeMap<PathBuf, &str> = BTreeMap::new();
        for (file, input) in &self.files {
            for folder in holders(file) {
                held.entry(folder).or_insert(input);
            }
        }
        held.extend(self.folders.iter().map(|(folder, input)| (folder.clone(), input.as_str())));
        let found = held.into_iter().find(|(folder, _)| existing_folders_above(folder).contains(own));
        found.map_or(Ok(()), |(_, input)| Err(OutputRefused::holds(shown, input)))
    }
}

/// The folders that contain a file: that of its path, and that of the file to which a link leads.
fn holders(file: &Path) -> Vec<PathBuf> {
    let mut folders = vec![parent(file).to_path_buf()];
    if fs::symlink_metadata(file).is_ok_and(|m| m.is_symlink()) {
        folders.extend(file.canonicalize().ok().map(|real| parent(&real).to_path_buf()));
    }
    folders
}

/// Identities of a path, if it exists, and of all folders above it.
fn existing_folders_above(path: &Path) -> Vec<Identity> {
    let mut nearest = path;
    let real = loop {
        match nearest.canonicalize() {
            Ok(real) => break real,
            Err(_) => match nearest.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => nearest = parent,
                _ => break Path::new(".").canonicalize().unwrap_or_default(),
            },
        }
    };
    real.ancestors().filter_map(Identity::of).collect()
}

/// Identifies a file independently of its path.
#[cfg(unix)]
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity(u64, u64);

#[cfg(unix)]
impl Identity {
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).ok().map(|m| Self(m.dev(), m.ino()))
    }
}

/// Identifies a file independently of its path.
#[cfg(not(unix))]
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity(PathBuf);

#[cfg(not(unix))]
impl Identity {
    fn of(path: &Path) -> Option<Self> {
        path.canonicalize().ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(root: &Path) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add_file(&root.join("logs/rank_0.json"));
        inputs.add_folder(&root.join("logs"));
        inputs
    }

    #[test]
    fn a_folder_that_holds_an_input_or_lies_in_one_is_refused_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("logs/below")).unwrap();
        fs::create_dir_all(root.join("other")).unwrap();
        fs::write(root.join("logs/rank_0.json"), "{}").unwrap();
        let inputs = inputs(root);
        for holds in [".", "logs", "logs/", "other/../logs", "logs/."] {
            let refused = inputs.allow_folder(&root.join(holds), "out").unwrap_err();
            assert!(refused.to_string().ends_with("in it"), "{holds}: {refused}");
        }
        for lies_in in ["logs/new", "logs/below", "logs/new/deeper", "logs/below/new"] {
            let refused = inputs.allow_folder(&root.join(lies_in), "out").unwrap_err();
            assert!(refused.to_string().contains("found it in `"), "{lies_in}: {refused}");
        }
        for free in ["other", "new", "logs2", "other/new"] {
            assert_eq!(inputs.allow_folder(&root.join(free), "out"), Ok(()), "{free}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_second_names_of_an_input_are_that_input() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("store")).unwrap();
        fs::create_dir_all(root.join("logs")).unwrap();
        fs::write(root.join("store/a"), "{}").unwrap();
        symlink("../store/a", root.join("logs/rank_0.json")).unwrap();
        symlink("store", root.join("linked")).unwrap();
        fs::hard_link(root.join("store/a"), root.join("second")).unwrap();
        let inputs = inputs(root);
        for file in ["store/a", "logs/rank_0.json", "second", "linked/a", "logs/../store/a"] {
            assert!(inputs.allow_file(&root.join(file)).is_err(), "{file}");
        }
        assert_eq!(inputs.allow_file(&root.join("store/b")), Ok(()));
        // The folder of the link, and that of the file to which it leads.
        for folder in ["logs", "store", "linked"] {
            assert!(inputs.allow_folder(&root.join(folder), "out").is_err(), "{folder}");
        }
    }
}
