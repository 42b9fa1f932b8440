//! The files of an output that is there: their names, reading one of them, and removing partials from a
//! store.
//!
//! Only files that hta writes are named, read and removed, so a name can lead nowhere else.

use crate::output::layout::Layout;
use crate::output::parquet::write_to;
use crate::output::paths::{destination, parent};
use crate::output::unfinished::UnfinishedFile;
use crate::results::{Results, ResultsError};
use hta_read::files::{Fault, Location};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    #[error("cannot open {path}: expected results or a partial of hta, found {found}")]
    NoOutput { path: String, found: &'static str },
    #[error("cannot find `{name}` in {path}")]
    NoSuchFile { path: String, name: String },
    #[error(
        "cannot remove the partials in {path}: expected a folder of a store, found a path on this machine"
    )]
    NotInStore { path: String },
    #[error("cannot remove the partials in {path}: found `{found}`, which is not part of a partial")]
    Foreign { path: String, found: String },
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("cannot copy {name} to {to}: {source}")]
    Copy { name: String, to: String, source: io::Error },
    #[error("cannot remove {path}: {source}")]
    Remove { path: String, source: io::Error },
}

impl ContentsError {
    /// Advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoOutput { .. } => Some("give a folder that `hta analyze` or `hta merge` has written"),
            Self::NoSuchFile { .. } => Some("without a name the command lists the files"),
            Self::NotInStore { .. } => Some("on a disk: rm -r FOLDER"),
            Self::Results(e) => e.hint(),
            Self::Foreign { .. } => {
                Some("nothing was removed; give a folder that holds partials and nothing else")
            }
            Self::Read { source, .. } | Self::Copy { source, .. } | Self::Remove { source, .. } => {
                Fault::of(source).and_then(|fault| fault.hint)
            }
        }
    }
}

/// A complete output.
pub struct FolderContents {
    folder: Location,
    names: Vec<String>,
}

impl FolderContents {
    /// Looks which files an output has. It is one of the first of `layouts` whose proof is there.
    ///
    /// # Errors
    /// When there is no complete output.
    pub fn of(folder: impl Into<Location>, layouts: &[&'static Layout]) -> Result<Self, ContentsError> {
        let folder = folder.into();
        let path = || folder.display().to_string();
        let read = |source| ContentsError::Read { path: path(), source };
        if !folder.is_folder().map_err(read)? {
            let found = if !folder.is_remote() && folder.exists() { "a file" } else { "nothing there" };
            return Err(ContentsError::NoOutput { path: path(), found });
        }
        let direct = folder.names().map_err(read)?;
        let layout = layouts.iter().find(|layout| direct.iter().any(|name| name == layout.proof));
        let layout = layout.ok_or_else(|| ContentsError::NoOutput {
            path: path(),
            found: "neither summary.json nor partial.json in it",
        })?;
        let mut names: Vec<String> = direct;
        for (below, _) in layout.folders {
            let inner = folder.join(below);
            if inner.is_folder().map_err(read)? {
                names.extend(inner.names().map_err(read)?.into_iter().map(|name| format!("{below}/{name}")));
            }
        }
        names.retain(|name| layout.owns(name));
        names.sort();
        let contents = Self { folder, names };
        contents.file(layout.proof)?;
        Ok(contents)
    }

    /// Names of its files, as paths relative to the folder, sorted.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Opens one of its files. A table without rows has none; it is made with its columns.
    ///
    /// # Errors
    /// When it has no such file, or it cannot be read.
    pub fn open(&self, name: &str) -> Result<Box<dyn Read + Send>, ContentsError> {
        let path = || self.folder.display().to_string();
        if !self.names.iter().any(|known| known == name) {
            let table = name.strip_prefix("tables/").and_then(|table| table.strip_suffix(".parquet"));
            let results = Results::new(self.folder.clone());
            if let Some(spec) = table.map(|table| results.empty_table(table)).transpose()?.flatten() {
                let mut file = Vec::new();
                let made = write_to(&mut file, spec, &[]).map(|()| Cursor::new(file));
                return match made {
                    Ok(file) => Ok(Box::new(file)),
                    Err(source) => Err(ContentsError::Read { path: path(), source }),
                };
            }
            return Err(ContentsError::NoSuchFile { path: path(), name: name.to_string() });
        }
        let file = self.file(name)?;
        file.open().map_err(|source| ContentsError::Read { path: file.display().to_string(), source })
    }

    /// The place of something with a name of its files.
    ///
    /// # Errors
    /// When it is no file of the folder.
    pub fn file(&self, name: &str) -> Result<Location, ContentsError> {
        let file = self.folder.join(name);
        match file.check_file_below(&self.folder) {
            Ok(()) => Ok(file),
            Err(source) => Err(ContentsError::Read { path: file.display().to_string(), source }),
        }
    }

    /// Copies one of its files, completely or not at all.
    ///
    /// # Errors
    /// When it has no such file, it cannot be read, or `out` cannot be written.
    pub fn copy(&self, name: &str, out: &Path) -> Result<(), ContentsError> {
        let mut from = self.open(name)?;
        let target = destination(out);
        let copied = UnfinishedFile::create_in(parent(&target), "file").and_then(|file| {
            io::copy(&mut from, &mut file.reopen()?)?;
            file.place(&target, true)
        });
        copied.map_err(|source| ContentsError::Copy {
            name: name.to_string(),
            to: out.display().to_string(),
            source,
        })
    }
}

/// Outputs that are removed at a time. It is the store that takes the time.
const AT_ONCE: usize = 16;

/// Removes the outputs of a layout in a folder of a store and below it, each beginning with its proof. What a
/// killed process has left of one is removed, too. Returns how many there were.
///
/// # Errors
/// When the folder holds anything else, which is found before anything is removed; or when it cannot be
/// removed.
pub fn remove_from_store(layout: &Layout, folder: &Location) -> Result<usize, ContentsError> {
    let path = || folder.display().to_string();
    if !folder.is_remote() {
        return Err(ContentsError::NotInStore { path: path() });
    }
    let names =
        folder.all_names().map_err(|fault| ContentsError::Read { path: path(), source: fault.into() })?;
    let mut outputs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in &names {
        let (place, own) = parted(layout, name)
            .ok_or_else(|| ContentsError::Foreign { path: path(), found: name.clone() })?;
        outputs.entry(place).or_default().push(own.to_string());
    }
    let remove = |(place, names): (&&str, &Vec<String>)| {
        let output = if place.is_empty() { folder.clone() } else { folder.join(place) };
        // An upload of nothing in the place of what is there.
        output.upload(&output, &[], names, layout.proof).map_err(|fault| ContentsError::Remove {
            path: output.display().to_string(),
            source: fault.into(),
        })
    };
    let threads = rayon::ThreadPoolBuilder::new().num_threads(AT_ONCE).build();
    let failed =
        |e: rayon::ThreadPoolBuildError| ContentsError::Remove { path: path(), source: io::Error::other(e) };
    threads.map_err(failed)?.install(|| outputs.par_iter().try_for_each(remove))?;
    Ok(outputs.len())
}

/// The name of an object, parted into the folder of its output and its name there; `None` if it belongs to
/// none.
fn parted<'a>(layout: &Layout, name: &'a str) -> Option<(&'a str, &'a str)> {
    let ends: Vec<usize> = std::iter::once(0).chain(name.match_indices('/').map(|(at, _)| at + 1)).collect();
    let own = ends.into_iter().find(|from| name.get(*from..).is_some_and(|own| layout.owns(own)))?;
    Some((name.get(..own)?.trim_end_matches('/'), name.get(own..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::place::RESULTS;

    #[test]
    fn an_object_is_parted_into_the_folder_of_its_output_and_its_name() {
        assert_eq!(parted(&RESULTS, "summary.json"), Some(("", "summary.json")));
        assert_eq!(parted(&RESULTS, "a/b/tables/kernels.parquet"), Some(("a/b", "tables/kernels.parquet")));
        for other in ["thesis.txt", "a/tables/thesis.parquet", "tables/a/kernels.parquet", "a/summary.json/b"]
        {
            assert_eq!(parted(&RESULTS, other), None, "{other}");
        }
    }

    #[test]
    fn an_output_without_its_proof_is_none_and_only_its_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        };
        ["tables/kernels.parquet", "tables/thesis.parquet", "notes.txt", "report.txt"]
            .into_iter()
            .for_each(write);
        let refused = FolderContents::of(dir.path(), &[&RESULTS]).map(|_| ()).unwrap_err();
        assert!(
            refused.to_string().ends_with("found neither summary.json nor partial.json in it"),
            "{refused}"
        );
        write("summary.json");
        let contents = FolderContents::of(dir.path(), &[&RESULTS]).unwrap();
        assert_eq!(contents.names(), ["report.txt", "summary.json", "tables/kernels.parquet"]);
        let mut text = String::new();
        contents.open("tables/kernels.parquet").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "tables/kernels.parquet");
        for name in ["notes.txt", "../notes.txt", "tables/thesis.parquet", "tables", ""] {
            assert!(contents.open(name).is_err(), "{name}");
        }
        assert!(remove_from_store(&RESULTS, &dir.path().into()).is_err());
    }
}
