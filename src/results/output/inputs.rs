//! The inputs of a command, which its outputs must not overwrite or remove.
//!
//! Files and folders are compared by identity (device and inode), not by name, because links, different spellings of a
//! path and bind mounts can lead to the same file.

use crate::output::paths::destination;
use hta_read::files::{is_remote, is_within};
use hta_read::input::Input;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputClash {
    #[error("cannot write {path}: expected another file than the inputs, found the input `{input}`")]
    IsInput { path: String, input: String },
    #[error("cannot write to {path}: expected a folder without inputs, found `{input}` in it")]
    HoldsInput { path: String, input: String },
    #[error("cannot write to {path}: expected a folder outside of the inputs, found it in `{input}`")]
    LiesInInput { path: String, input: String },
}

impl InputClash {
    /// Advice for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            InputClash::IsInput { .. } => {
                "inputs are never written to, not even with --force: choose another file with --out"
            }
            InputClash::HoldsInput { .. } | InputClash::LiesInInput { .. } => {
                "inputs are never written to, not even with --force: choose a folder beside them with --out"
            }
        }
    }

    /// The same error with the name that the user gave the output.
    pub(crate) fn called(mut self, name: &str) -> Self {
        let (InputClash::IsInput { path, .. }
        | InputClash::HoldsInput { path, .. }
        | InputClash::LiesInInput { path, .. }) = &mut self;
        *path = name.to_string();
        self
    }
}

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
    pub fn allow_file(&self, out: &Path) -> Result<(), InputClash> {
        // Files are not written to stores, and a file that does not exist is not an input.
        let Some(own) = Identity::of(out).filter(|_| !out.is_dir()) else { return Ok(()) };
        match self.files.iter().find(|(file, _)| Identity::of(file).as_ref() == Some(&own)) {
            Some((_, input)) => Err(InputClash::IsInput { path: out.display().to_string(), input: input.clone() }),
            None => Ok(()),
        }
    }

    /// Checks that a folder of a store may be written at `out`. URLs are compared by their texts.
    ///
    /// # Errors
    /// When `out` is or contains one of the inputs, or lies in one of the folders.
    pub(crate) fn allow_folder_of_store(&self, out: &Path) -> Result<(), InputClash> {
        let path = || out.display().to_string();
        let in_stores =
            |all: &[(PathBuf, String)]| all.iter().filter(|(p, _)| is_remote(p)).cloned().collect::<Vec<_>>();
        let (files, folders) = (in_stores(&self.files), in_stores(&self.folders));
        if let Some((_, input)) = files.iter().chain(&folders).find(|(input, _)| is_within(input, out)) {
            return Err(InputClash::HoldsInput { path: path(), input: input.clone() });
        }
        match folders.into_iter().find(|(folder, _)| is_within(out, folder)) {
            Some((_, input)) => Err(InputClash::LiesInInput { path: path(), input }),
            None => Ok(()),
        }
    }

    /// Checks that a folder may be written at `out`.
    ///
    /// # Errors
    /// When `out`, after following links, is or contains one of the inputs, or lies in one of the folders.
    pub(crate) fn allow_folder(&self, out: &Path) -> Result<(), InputClash> {
        let shown = out.display().to_string();
        let path = || shown.clone();
        let out = &destination(out);
        let above = existing_folders_above(out);
        for (folder, input) in &self.folders {
            // If `out` is the folder itself, that is reported as containing the input.
            let lies_in = |id| above.iter().skip(usize::from(out.is_dir())).any(|a| *a == id);
            if Identity::of(folder).is_some_and(lies_in) {
                return Err(InputClash::LiesInInput { path: path(), input: input.clone() });
            }
        }
        let Some(own) = Identity::of(out).filter(|_| out.is_dir()) else { return Ok(()) };
        let mut known: BTreeMap<PathBuf, bool> = BTreeMap::new();
        let mut is_in = |folder: PathBuf| {
            *known.entry(folder).or_insert_with_key(|folder| existing_folders_above(folder).contains(&own))
        };
        let places = |(input, shown)| holders(input).into_iter().map(move |folder| (folder, shown));
        let files = self.files.iter().map(|(p, s)| (p.as_path(), s)).flat_map(places);
        let folders = self.folders.iter().map(|(p, s)| (p.clone(), s));
        for (folder, input) in files.chain(folders) {
            if is_in(folder) {
                return Err(InputClash::HoldsInput { path: path(), input: input.clone() });
            }
        }
        Ok(())
    }
}

/// The folders that contain a file: that of its path, and that of the file to which a link leads.
fn holders(file: &Path) -> Vec<PathBuf> {
    let parent =
        |path: &Path| path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf();
    let mut folders = vec![parent(file)];
    if fs::symlink_metadata(file).is_ok_and(|m| m.is_symlink()) {
        folders.extend(file.canonicalize().ok().as_deref().map(parent));
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
            let refused = inputs.allow_folder(&root.join(holds)).unwrap_err();
            assert!(matches!(refused, InputClash::HoldsInput { .. }), "{holds}: {refused}");
        }
        for lies_in in ["logs/new", "logs/below", "logs/new/deeper", "logs/below/new"] {
            let refused = inputs.allow_folder(&root.join(lies_in)).unwrap_err();
            assert!(matches!(refused, InputClash::LiesInInput { .. }), "{lies_in}: {refused}");
        }
        for free in ["other", "new", "logs2", "other/new"] {
            assert_eq!(inputs.allow_folder(&root.join(free)), Ok(()), "{free}");
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
            assert!(inputs.allow_folder(&root.join(folder)).is_err(), "{folder}");
        }
    }
}
