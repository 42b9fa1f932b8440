//! The place of an output folder: whether it may be used, and how the output gets there.
//!
//! An existing folder is replaced only if it is empty or provably an earlier output: its summary says that `hta` wrote
//! it, and it contains only files with names that `hta` writes. With `--force` a folder with other files is used, too,
//! and those files stay. A folder that contains an input, or lies in one, is always refused.
//!
//! Usually the output is written beside its place and moved there in one step. That is impossible if the place is a
//! mount point, and wrong if other files stay in it or it is some process' current folder. In these cases the files are
//! moved one by one, the file that proves completeness last.
//!
//! A place in a store (`s3://...`) is judged by the same rules. Its files are written to a temporary folder and uploaded
//! when they are complete, the proof last.

use crate::analysis::inventory;
use crate::compat;
use crate::files::{Fault, Location};
use crate::output::captures::CapturesTable;
use crate::output::inputs::{InputClash, Inputs};
use crate::output::paths::{destination, entries, is_work_name, parent};
use crate::registry::ANALYSES;
use serde::Deserialize;
use std::fs;
use std::io::{self, BufReader};
use std::path::Path;

/// A subfolder of an output, and a test for the names of its files.
pub type OwnFolder = (&'static str, fn(&str) -> bool);

/// The files of one kind of output folder.
pub struct Layout {
    /// Names of the files in the folder itself.
    pub files: &'static [&'static str],
    /// Its subfolders.
    pub folders: &'static [OwnFolder],
    /// The file of `files` that is written last and proves that the output is complete.
    pub proof: &'static str,
    /// Whether that file was written by `hta`.
    pub is_proven: fn(&Location) -> bool,
}

/// The output of `hta analyze` and `hta merge`.
pub const RESULTS: Layout = Layout {
    files: &["compare.html", "report.html", "report.txt", "summary.json"],
    folders: &[("events", is_events_file), ("tables", is_table_file)],
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
    inventory::TABLES
        .iter()
        .chain(of_analyses.flat_map(|a| a.tables()))
        .chain([&CapturesTable::SPEC])
        .any(|t| t.name == table)
}

/// Whether `hta` wrote this `summary.json`. It may be long, so it is read as a stream.
fn is_summary(file: &Location) -> bool {
    #[derive(Deserialize)]
    struct Summary {
        #[serde(rename = "hta_version")]
        _version: String,
    }
    file.open().is_ok_and(|f| serde_json::from_reader::<_, Summary>(BufReader::with_capacity(1 << 16, f)).is_ok())
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot write to {path}: expected an empty folder or an earlier result, found `{found}` in it")]
    Foreign { path: String, found: String },
    #[error("cannot write to {path}: expected an earlier result, found `{found}` in it but no {proof} of hta")]
    NoProof { path: String, found: String, proof: &'static str },
    #[error("cannot write to {path}: expected {expected}, found {found}")]
    InTheWay { path: String, expected: String, found: &'static str },
    #[error("cannot write to {path}: expected a folder, found a file")]
    IsFile { path: String },
    #[error(transparent)]
    InputClash(#[from] InputClash),
    #[error("cannot write to {path}: {source}")]
    Io { path: String, source: io::Error },
}

impl FolderError {
    /// Advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Foreign { .. } | Self::NoProof { .. } => Some(
                "choose another folder with --out; --force writes to this one: it replaces files of the names that \
                 hta writes and leaves all others",
            ),
            Self::InTheWay { .. } => Some("choose another folder with --out, or move it away"),
            Self::IsFile { .. } => Some("choose a folder with --out, or remove the file"),
            Self::InputClash(clash) => Some(clash.hint()),
            Self::Io { source, .. } => Fault::of(source).and_then(|fault| fault.hint),
        }
    }
}

#[derive(Clone)]
pub struct OutputPlace {
    pub(super) layout: &'static Layout,
    /// The path as the user wrote it.
    shown: String,
    /// The path after following links.
    pub(super) target: Location,
    force: bool,
    /// Whether it held a complete earlier output when it was found, or the rest of one that was being moved into it.
    was_proven: bool,
    /// Why it cannot be replaced as a whole, if that is so.
    pub(super) in_place: Option<InPlace>,
    /// Whether the output must be written inside it from the start, because it cannot be moved there from the folder
    /// above.
    pub(super) is_apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    MountPoint,
    CurrentFolder,
    ClosedParent,
    OtherFiles,
}

impl InPlace {
    /// The reason, as the end of a sentence about the folder.
    pub fn reason(self) -> &'static str {
        match self {
            Self::MountPoint => "it is a mount point",
            Self::CurrentFolder => "it is, or holds, the current folder",
            Self::ClosedParent => "the folder that it is in cannot be written to",
            Self::OtherFiles => "it holds other files, which stay",
        }
    }
}

impl OutputPlace {
    /// Examines the folder `out` without changing anything.
    ///
    /// # Errors
    /// When it contains an input or lies in one; when it contains something other than an earlier output and `force` is
    /// not given; when it is not a folder.
    pub fn find(
        layout: &'static Layout,
        out: impl Into<Location>,
        inputs: &Inputs,
        force: bool,
    ) -> Result<Self, FolderError> {
        let out: Location = out.into();
        let shown = out.display().to_string();
        let io = |source| FolderError::Io { path: shown.clone(), source };
        let target = if out.is_remote() { out.clone() } else { destination(&out).into() };
        let shown_as = shown.clone();
        let mut place =
            Self { layout, shown: shown_as, target, force, was_proven: false, in_place: None, is_apart: false };
        if place.is_remote() {
            out.can_upload().map_err(|fault| io(fault.into()))?;
            inputs.allow_folder_of_store(&out)?;
            let found = place.content(true).map_err(io)?;
            place.was_proven = found.is_proven;
            place.in_place = place.judge(found)?;
            return Ok(place);
        }
        match fs::metadata(&place.target) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(FolderError::IsFile { path: shown }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                inputs.allow_folder(&place.target).map_err(|clash| clash.called(&shown))?;
                return Ok(place);
            }
            Err(e) => return Err(io(e)),
        }
        place.target = place.target.canonicalize().map_err(io)?.into();
        // Checked first, because this error is more informative than the following ones.
        inputs.allow_folder(&place.target).map_err(|clash| clash.called(&shown))?;
        let found = FolderContent::of(layout, &place.target, true).map_err(io)?;
        place.was_proven = found.is_proven;
        let others_stay = place.judge(found)?;
        let fixed = cannot_be_moved(&place.target);
        place.is_apart = matches!(fixed, Some(InPlace::MountPoint | InPlace::ClosedParent));
        place.in_place = fixed.or(others_stay);
        Ok(place)
    }

    /// The path as the user wrote it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether it is a folder of a store.
    pub(super) fn is_remote(&self) -> bool {
        self.target.is_remote()
    }

    /// Name of the file that is written last.
    pub fn proof(&self) -> &'static str {
        self.layout.proof
    }

    /// Why its files are moved one by one, if they are.
    pub fn in_place(&self) -> Option<InPlace> {
        self.in_place
    }

    /// Whether the existing folder may be replaced, and if other files are to stay.
    ///
    /// # Errors
    /// When it may not be replaced.
    pub(super) fn replaceable(&self) -> Result<Option<InPlace>, FolderError> {
        // A long summary is read only once.
        let found = self.content(!self.was_proven);
        self.judge(found.map_err(|source| FolderError::Io { path: self.shown.clone(), source })?)
    }

    /// What is in it. `proves`: whether to check the file that proves completeness.
    fn content(&self, proves: bool) -> io::Result<FolderContent> {
        match self.is_remote() {
            true => FolderContent::of_store(self.layout, &self.target, proves),
            false => FolderContent::of(self.layout, &self.target, proves),
        }
    }

    fn judge(&self, found: FolderContent) -> Result<Option<InPlace>, FolderError> {
        let path = || self.shown.clone();
        if let Some((expected, found)) = found.in_the_way {
            return Err(FolderError::InTheWay { path: path(), expected, found });
        }
        match (found.foreign, found.ours) {
            (Some(_), _) if self.force => Ok(Some(InPlace::OtherFiles)),
            (Some(found), _) => Err(FolderError::Foreign { path: path(), found }),
            (None, Some(found_ours)) if !self.force && !found.is_proven && !self.was_proven => {
                Err(FolderError::NoProof { path: path(), found: found_ours, proof: self.layout.proof })
            }
            _ => Ok(None),
        }
    }
}

/// The content of a folder, compared with its layout.
#[derive(Default)]
struct FolderContent {
    /// Something with another name.
    foreign: Option<String>,
    /// Something with one of our names.
    ours: Option<String>,
    /// Something with one of our names that is not a regular file or folder, such as a link: its name, and what was
    /// found.
    in_the_way: Option<(String, &'static str)>,
    /// The file that proves completeness exists and is ours.
    is_proven: bool,
}

impl FolderContent {
    /// `proves`: whether to check the file that proves completeness.
    fn of(layout: &Layout, folder: &Path, proves: bool) -> io::Result<Self> {
        let mut found = Self::default();
        let mut names = listed(folder)?;
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let kind = fs::symlink_metadata(&path)?.file_type();
            if let Some((_, is_one)) = layout.folders.iter().find(|(own, _)| *own == name) {
                if kind.is_dir() {
                    found.look_below(&path, &name, *is_one)?;
                } else {
                    found.in_the_way.get_or_insert((format!("a folder `{name}`"), described(kind)));
                }
            } else if layout.files.contains(&name.as_str()) {
                if kind.is_file() {
                    found.is_proven |= proves && name == layout.proof && (layout.is_proven)(&Location::from(&path));
                    found.ours.get_or_insert(name);
                } else {
                    found.in_the_way.get_or_insert((format!("a file `{name}`"), described(kind)));
                }
            } else if kind.is_dir() && is_work_name(&name) {
                // A run that was killed while it moved its files here has left the rest of them.
                let left = Self::of(layout, &path, proves)?;
                found.is_proven |= left.is_proven;
                if left.foreign.is_some() || left.in_the_way.is_some() {
                    found.foreign.get_or_insert(name);
                }
            } else {
                found.foreign.get_or_insert(name);
            }
        }
        Ok(found)
    }

    /// The same of a folder of a store, which has nothing but objects.
    fn of_store(layout: &Layout, folder: &Location, proves: bool) -> io::Result<Self> {
        let mut found = Self::default();
        for name in folder.all_names()? {
            if is_ours(layout, &name) {
                found.is_proven |= proves && name == layout.proof && (layout.is_proven)(&folder.join(&name));
                found.ours.get_or_insert(name);
            } else {
                found.foreign.get_or_insert(name);
            }
        }
        Ok(found)
    }

    fn look_below(&mut self, path: &Path, folder: &str, is_one: fn(&str) -> bool) -> io::Result<()> {
        self.ours.get_or_insert_with(|| folder.to_string());
        let mut names = listed(path)?;
        names.sort();
        for name in names {
            let shown = format!("{folder}/{name}");
            let kind = fs::symlink_metadata(path.join(&name))?.file_type();
            if !is_one(&name) {
                self.foreign.get_or_insert(shown);
            } else if !kind.is_file() {
                self.in_the_way.get_or_insert((format!("a file `{shown}`"), described(kind)));
            }
        }
        Ok(())
    }
}

fn listed(folder: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?.map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned())).collect()
}

fn described(kind: fs::FileType) -> &'static str {
    match kind {
        _ if kind.is_symlink() => "a link",
        _ if kind.is_dir() => "a folder",
        _ if kind.is_file() => "a file",
        _ => "a pipe, socket or device",
    }
}

/// Whether a name, relative to the folder, is that of a file of the layout.
pub(super) fn is_ours(layout: &Layout, name: &str) -> bool {
    match name.split_once('/') {
        Some((folder, name)) => layout.folders.iter().any(|(own, is_one)| *own == folder && is_one(name)),
        None => layout.files.contains(&name),
    }
}

/// Whether the names in a folder all belong to the layout.
pub(super) fn holds_only_ours(layout: &Layout, folder: &Path) -> bool {
    FolderContent::of(layout, folder, false).is_ok_and(|f| f.foreign.is_none() && f.in_the_way.is_none())
}

/// Removes the files of a layout from a folder, beginning with the proof, and then its empty subfolders.
///
/// # Errors
/// When one of them cannot be removed.
pub(super) fn remove_ours(layout: &Layout, folder: &Path) -> io::Result<()> {
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
    let remove = |path: &Path| if is_file(path) { gone(fs::remove_file(path)) } else { Ok(()) };
    remove(&folder.join(layout.proof))?;
    layout.files.iter().try_for_each(|name| remove(&folder.join(name)))?;
    for (name, is_one) in layout.folders {
        let below = folder.join(name);
        if !fs::symlink_metadata(&below).is_ok_and(|m| m.is_dir()) {
            continue;
        }
        entries(&below).into_iter().filter(|(_, name)| is_one(name)).try_for_each(|(path, _)| remove(&path))?;
        // Fails if it contains something else; then it stays.
        let _ = fs::remove_dir(&below);
    }
    Ok(())
}

/// Treats a file that no longer exists as removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// Moves the files of a layout from one folder to another, the proof last; existing files with these names are removed
/// first.
///
/// # Errors
/// When one of them cannot be moved.
pub(super) fn move_into(layout: &Layout, from: &Path, target: &Path) -> io::Result<()> {
    remove_ours(layout, target)?;
    for (name, _) in layout.folders {
        let below = from.join(name);
        if !below.is_dir() {
            continue;
        }
        let to = target.join(name);
        fs::create_dir_all(&to)?;
        entries(&below).into_iter().try_for_each(|(path, name)| fs::rename(path, to.join(name)))?;
        fs::remove_dir(&below)?;
    }
    let others = layout.files.iter().filter(|name| **name != layout.proof);
    for name in others.chain([&layout.proof]) {
        if from.join(name).exists() {
            fs::rename(from.join(name), target.join(name))?;
        }
    }
    Ok(())
}

/// Why an existing folder cannot be replaced as a whole, if that is so.
fn cannot_be_moved(target: &Path) -> Option<InPlace> {
    if is_mount_point(target) {
        return Some(InPlace::MountPoint);
    }
    if is_closed(parent(target)) {
        return Some(InPlace::ClosedParent);
    }
    let current = std::env::current_dir().and_then(|c| c.canonicalize());
    current.is_ok_and(|c| c.starts_with(target)).then_some(InPlace::CurrentFolder)
}

#[cfg(target_os = "linux")]
fn is_mount_point(folder: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    use std::os::unix::fs::MetadataExt;
    let found = statx(CWD, folder, AtFlags::empty(), StatxFlags::BASIC_STATS);
    if let Ok(found) = found
        && found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
    {
        return found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    }
    // Without this information from the system, compare devices with the folder above.
    let device = |path: &Path| fs::metadata(path).map(|m| m.dev()).ok();
    device(folder) != device(parent(folder))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(_: &Path) -> bool {
    false
}

/// Whether no file can be created in a folder.
#[cfg(unix)]
fn is_closed(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err()
}

#[cfg(not(unix))]
fn is_closed(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn earlier(folder: &Path) {
        for name in ["report.txt", "tables/kernels.parquet", "events/rank=00003.parquet"] {
            write(&folder.join(name), "ours");
        }
        write(&folder.join("summary.json"), r#"{"analyses": {}, "hta_version": "0.0.1"}"#);
    }

    fn find(out: &Path, force: bool) -> Result<Option<InPlace>, String> {
        let found = OutputPlace::find(&RESULTS, out, &Inputs::default(), force);
        found.map(|p| p.in_place()).map_err(|e| e.to_string())
    }

    #[test]
    fn names_that_we_write_are_told_from_others() {
        assert!(is_table_file("kernels.parquet") && is_table_file("ranks.parquet") && is_table_file("health.parquet"));
        assert!(is_events_file("rank=00000.parquet") && is_events_file("rank=123456.parquet"));
        for other in ["thesis.parquet", "kernels.csv", "kernels", ".parquet", "rank_0.json"] {
            assert!(!is_table_file(other) && !is_events_file(other), "{other}");
        }
        assert!(!is_events_file("rank=0.parquet") && !is_events_file("rank=0000x.parquet"));
    }

    #[test]
    fn only_an_empty_folder_and_a_proven_result_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        assert_eq!(find(&out, false), Ok(None));
        fs::create_dir(&out).unwrap();
        assert_eq!(find(&out, false), Ok(None));
        earlier(&out);
        assert_eq!(find(&out, false), Ok(None));
        for proof in ["", "{}", "{\"version\": 1}", "[1, 2]", "{\"hta_version\": \"0.1.0\""] {
            write(&out.join("summary.json"), proof);
            let error = find(&out, false).unwrap_err();
            assert!(error.ends_with("but no summary.json of hta"), "{proof}: {error}");
            assert_eq!(find(&out, true), Ok(None), "all names are ours");
        }
    }

    #[test]
    fn other_names_below_are_found_and_stay_where_force_is_given() {
        for name in ["thesis.txt", "tables/mine.parquet", "tables/old/a", "events/rank_0.json", "tables/kernels.csv"] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("out");
            earlier(&out);
            write(&out.join(name), "years of work");
            let error = find(&out, false).unwrap_err();
            let found = if name == "tables/old/a" { "tables/old" } else { name };
            assert!(error.ends_with(&format!("found `{found}` in it")), "{error}");
            assert_eq!(find(&out, true), Ok(Some(InPlace::OtherFiles)));
            remove_ours(&RESULTS, &out).unwrap();
            assert_eq!(fs::read_to_string(out.join(name)).unwrap(), "years of work");
            assert!(!out.join("summary.json").exists() && !out.join("tables/kernels.parquet").exists());
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_of_our_names_are_not_followed() {
        use std::os::unix::fs::symlink;
        for name in ["tables", "events/rank=00003.parquet", "summary.json", "report.txt"] {
            let dir = tempfile::tempdir().unwrap();
            let (out, other) = (dir.path().join("out"), dir.path().join("other"));
            earlier(&out);
            earlier(&other);
            let path = out.join(name);
            if path.is_dir() {
                fs::remove_dir_all(&path).unwrap()
            } else {
                fs::remove_file(&path).unwrap()
            }
            symlink(other.join(name), &path).unwrap();
            for force in [false, true] {
                let error = find(&out, force).unwrap_err();
                assert!(error.ends_with("found a link") && error.contains(&format!("`{name}`")), "{error}");
            }
            assert!(other.join(name).exists());
        }
    }

    #[test]
    fn a_run_that_was_killed_while_it_moved_its_files_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        earlier(&out.join(".tmp-7"));
        fs::create_dir(out.join("tables")).unwrap();
        fs::rename(out.join(".tmp-7/tables/kernels.parquet"), out.join("tables/kernels.parquet")).unwrap();
        let place = OutputPlace::find(&RESULTS, &out, &Inputs::default(), false).unwrap();
        let folder = crate::output::unfinished::UnfinishedFolder::create(&place).unwrap();
        assert!(!out.join(".tmp-7").exists());
        earlier(folder.path());
        folder.place(&place).unwrap();
        assert_eq!(find(&out, false), Ok(None));
        // Not a folder without proof.
        fs::remove_file(out.join("summary.json")).unwrap();
        fs::create_dir_all(out.join(".tmp-8/tables")).unwrap();
        assert!(find(&out, false).is_err());
    }

    #[test]
    fn files_are_moved_into_a_folder_that_keeps_its_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let (from, out) = (dir.path().join("from"), dir.path().join("out"));
        earlier(&from);
        fs::remove_file(from.join("events/rank=00003.parquet")).unwrap();
        write(&out.join("events/rank=00007.parquet"), "of the run before");
        write(&out.join("events/notes.txt"), "mine");
        move_into(&RESULTS, &from, &out).unwrap();
        assert!(is_summary(&out.join("summary.json").into()) && out.join("tables/kernels.parquet").is_file());
        assert!(!out.join("events/rank=00007.parquet").exists() && out.join("events/notes.txt").is_file());
        assert_eq!(listed(&from).unwrap(), Vec::<String>::new());
    }
}
