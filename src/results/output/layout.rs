//! The files of an output folder: which names are ours, what else a folder holds, and removing and moving
//! them.

use crate::output::captures::CapturesTable;
use crate::output::unfinished::is_results_name;
use hta_analysis::inventory;
use hta_compat as compat;
use hta_diagnosis::registry::ANALYSES;
use hta_read::files::Location;
use serde::Deserialize;
use std::fs::{self, FileType};
use std::io::{self, BufReader};
use std::path::Path;

/// A subfolder of an output, and a test for the names of its files.
pub(crate) type OwnFolder = (&'static str, fn(&str) -> bool);

/// The files of one kind of output folder.
pub struct Layout {
    /// Names of the files in the folder itself.
    pub(crate) files: &'static [&'static str],
    /// Its subfolders.
    pub(crate) folders: &'static [OwnFolder],
    /// The file of `files` that is written last and proves that the output is complete.
    pub(crate) proof: &'static str,
    /// Whether that file was written by `hta`.
    pub(crate) is_proven: fn(&Location) -> bool,
}

/// The output of `hta analyze` and `hta merge`.
pub const RESULTS: Layout = Layout {
    files: &["compare.html", "report.html", "report.txt", "summary.json"],
    folders: &[("events", is_events_file), ("tables", is_file_of_tables)],
    proof: "summary.json",
    is_proven: is_summary,
};

/// Whether a name is of the form `rank=00000.parquet`.
pub fn is_events_file(name: &str) -> bool {
    let rank = name.strip_prefix("rank=").and_then(|n| n.strip_suffix(".parquet"));
    rank.is_some_and(|r| r.len() >= 5 && r.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a name is that of a table of any analysis, including compatible ones.
pub fn is_table_file(name: &str) -> bool {
    let Some(table) = name.strip_suffix(".parquet") else { return false };
    let of_analyses = ANALYSES.iter().copied().flat_map(|a| std::iter::once(a).chain(compat::of(a.stem())));
    let tables =
        inventory::TABLES.iter().chain(of_analyses.flat_map(|a| a.tables())).chain([&CapturesTable::SPEC]);
    tables.into_iter().any(|t| t.name == table)
}

/// Whether a name is that of a table, or of the list of them.
fn is_file_of_tables(name: &str) -> bool {
    name == "README.txt" || is_table_file(name)
}

/// Whether `hta` wrote this `summary.json`. It may be long, so it is read as a stream.
fn is_summary(file: &Location) -> bool {
    #[derive(Deserialize)]
    struct SummaryFile {
        #[serde(rename = "hta_version")]
        _version: String,
    }
    file.open().is_ok_and(|f| {
        serde_json::from_reader::<_, SummaryFile>(BufReader::with_capacity(1 << 16, f)).is_ok()
    })
}

/// The content of a folder, compared with a layout.
#[derive(Default)]
pub(super) struct FolderContent {
    /// Something with another name.
    pub(crate) foreign: Option<String>,
    /// Something with one of our names.
    pub(crate) ours: Option<String>,
    /// Something with one of our names that is not a regular file or folder, such as a link: what was
    /// expected and found.
    pub(crate) in_the_way: Option<(String, &'static str)>,
    /// The file that proves completeness is there and ours, or an output is on its way here.
    pub(crate) is_proven: bool,
}

impl Layout {
    /// Whether a name, relative to the folder, is that of a file of the layout.
    pub(super) fn owns(&self, name: &str) -> bool {
        match name.split_once('/') {
            Some((folder, name)) => self.folders.iter().any(|(own, is_one)| *own == folder && is_one(name)),
            None => self.files.contains(&name),
        }
    }

    /// What a folder holds.
    pub(super) fn content(&self, folder: &Location) -> io::Result<FolderContent> {
        let entries: Vec<(String, &'static str)> = match folder.is_remote() {
            // A store has nothing but objects.
            true => folder.all_names()?.into_iter().map(|name| (name, "a file")).collect(),
            false => self.entries(folder)?.into_iter().map(|(name, kind)| (name, described(kind))).collect(),
        };
        let mut found = FolderContent::default();
        for (name, kind) in entries {
            let is_folder = !folder.is_remote() && self.folders.iter().any(|(own, _)| *own == name);
            let expected = if is_folder { "a folder" } else { "a file" };
            if is_folder || self.owns(&name) {
                if kind != expected {
                    found.in_the_way.get_or_insert((format!("{expected} `{name}`"), kind));
                    continue;
                }
                found.is_proven |= name == self.proof && (self.is_proven)(&folder.join(&name));
                found.ours.get_or_insert(name);
            } else if kind == "a folder" && is_results_name(&name) {
                // A run that was killed while it moved its files here has left the rest of them, and the
                // proof.
                found.is_proven = true;
            } else {
                found.foreign.get_or_insert(name);
            }
        }
        Ok(found)
    }

    /// Everything in a folder and in its subfolders of the layout, by names relative to it, sorted.
    fn entries(&self, folder: &Path) -> io::Result<Vec<(String, FileType)>> {
        let listed = |folder: &Path, prefix: &str| -> io::Result<Vec<(String, FileType)>> {
            let entry = |e: fs::DirEntry| {
                Ok((format!("{prefix}{}", e.file_name().to_string_lossy()), e.file_type()?))
            };
            fs::read_dir(folder)?.map(|e| e.and_then(entry)).collect()
        };
        let mut found = listed(folder, "")?;
        for (below, _) in self.folders {
            if found.iter().any(|(name, kind)| name == below && kind.is_dir()) {
                found.extend(listed(&folder.join(below), &format!("{below}/"))?);
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// Names of the files of the layout in a folder, the proof last.
    pub(super) fn own_files(&self, folder: &Path) -> io::Result<Vec<String>> {
        let own = self.entries(folder)?.into_iter().filter(|(name, kind)| kind.is_file() && self.owns(name));
        let mut names: Vec<String> = own.map(|(name, _)| name).collect();
        names.sort_by_key(|name| name == self.proof);
        Ok(names)
    }

    /// Removes the files of the layout from a folder, beginning with the proof, and then its empty
    /// subfolders.
    pub(super) fn remove_from(&self, folder: &Path) -> io::Result<()> {
        for name in self.own_files(folder)?.iter().rev() {
            match fs::remove_file(folder.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        // Fails if it contains something else; then it stays.
        self.folders.iter().for_each(|(below, _)| drop(fs::remove_dir(folder.join(below))));
        Ok(())
    }

    /// Moves the files of the layout from one folder to another, the proof last; existing files with these
    /// names are removed first.
    pub(super) fn move_into(&self, from: &Path, target: &Path) -> io::Result<()> {
        self.remove_from(target)?;
        let below = || self.folders.iter().map(|(below, _)| below).filter(|below| from.join(below).is_dir());
        below().try_for_each(|below| fs::create_dir_all(target.join(below)))?;
        self.own_files(from)?.iter().try_for_each(|name| fs::rename(from.join(name), target.join(name)))?;
        below().try_for_each(|below| fs::remove_dir(from.join(below)))
    }
}

fn described(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_symlink() => "a link",
        _ if kind.is_dir() => "a folder",
        _ if kind.is_file() => "a file",
        _ => "a pipe, socket or device",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes an earlier result.
    pub(crate) fn earlier(folder: &Path) {
        for name in ["report.txt", "tables/kernels.parquet", "events/rank=00003.parquet"] {
            write(&folder.join(name), "ours");
        }
        write(&folder.join("summary.json"), r#"{"analyses": {}, "hta_version": "0.0.1"}"#);
    }

    #[test]
    fn names_that_we_write_are_told_from_others() {
        assert!(
            is_table_file("kernels.parquet")
                && is_table_file("ranks.parquet")
                && is_table_file("health.parquet")
        );
        assert!(is_events_file("rank=00000.parquet") && is_events_file("rank=123456.parquet"));
        for other in ["thesis.parquet", "kernels.csv", "kernels", ".parquet", "rank_0.json"] {
            assert!(!is_table_file(other) && !is_events_file(other), "{other}");
        }
        assert!(!is_events_file("rank=0.parquet") && !is_events_file("rank=0000x.parquet"));
    }

    #[test]
    fn files_are_moved_into_a_folder_that_keeps_its_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let (from, out) = (dir.path().join("from"), dir.path().join("out"));
        earlier(&from);
        fs::remove_file(from.join("events/rank=00003.parquet")).unwrap();
        write(&out.join("events/rank=00007.parquet"), "of the run before");
        write(&out.join("events/notes.txt"), "mine");
        RESULTS.move_into(&from, &out).unwrap();
        assert!(is_summary(&out.join("summary.json").into()) && out.join("tables/kernels.parquet").is_file());
        assert!(!out.join("events/rank=00007.parquet").exists() && out.join("events/notes.txt").is_file());
        assert_eq!(fs::read_dir(&from).unwrap().count(), 0);
    }
}
