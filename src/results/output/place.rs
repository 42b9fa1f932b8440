//! The place of an output folder: whether it may be used, and how the output gets there.
//!
//! An existing folder is replaced only if it is empty or provably an earlier output: its summary says that
//! `hta` wrote it, and it contains only files with names that `hta` writes. With `--force` a folder with
//! other files is used, too, and those files stay. A folder that contains an input, or lies in one, is always
//! refused.
//!
//! Usually the output is written beside its place and moved there in one step. That is impossible if the
//! place is a mount point, and wrong if other files stay in it or it is some process' current folder. In
//! these cases it is written inside and its files are moved one by one, the file that proves completeness
//! last.
//!
//! A place in a store (`s3://...`) is judged by the same rules. Its files are written to a temporary folder
//! and uploaded when they are complete, the proof last.

use crate::output::inputs::{Inputs, OutputRefused};
pub use crate::output::layout::{Layout, RESULTS, is_events_file, is_table_file};
use crate::output::paths::{destination, parent};
use crate::output::unfinished::{EARLIER, OF_RESULTS, ScratchFolder, note_placed};
use hta_read::files::{Fault, Location};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error(transparent)]
    Refused(#[from] OutputRefused),
    #[error("cannot write to {path}: {source}")]
    Io { path: String, source: io::Error },
}

impl FolderError {
    /// Advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused(refused) => Some(refused.hint),
            Self::Io { source, .. } => Fault::of(source).and_then(|fault| fault.hint),
        }
    }
}

#[derive(Clone)]
pub struct OutputPlace {
    layout: &'static Layout,
    /// The path as the user wrote it.
    shown: String,
    /// The path after following links.
    target: Location,
    force: bool,
    /// Why it cannot be replaced as a whole, if that is so: the end of a sentence about the folder.
    in_place: Option<&'static str>,
}

impl OutputPlace {
    /// Examines the folder `out` without changing anything.
    ///
    /// # Errors
    /// When it contains an input or lies in one; when it contains something other than an earlier output and
    /// `force` is not given; when it is not a folder.
    pub fn find(
        layout: &'static Layout,
        out: impl Into<Location>,
        inputs: &Inputs,
        force: bool,
    ) -> Result<Self, FolderError> {
        let out: Location = out.into();
        let shown = out.display().to_string();
        let target = if out.is_remote() { out.clone() } else { destination(&out).into() };
        let mut place = Self { layout, shown, target, force, in_place: None };
        if out.is_remote() {
            out.can_upload().map_err(|fault| place.io(fault))?;
            inputs.allow_folder_of_store(&out)?;
            place.in_place = place.judge()?;
            return Ok(place);
        }
        let is_there = match fs::metadata(&place.target) {
            Ok(found) if found.is_dir() => true,
            Ok(_) => {
                return Err(place.refused(
                    "a folder",
                    "a file",
                    "choose a folder with --out, or remove the file",
                ));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(place.io(e)),
        };
        // Checked first, because this error is more informative than the following ones.
        inputs.allow_folder(&place.target, &place.shown)?;
        if is_there {
            place.target = place.target.canonicalize().map_err(|e| place.io(e))?.into();
            let others_stay = place.judge()?;
            place.in_place = cannot_be_moved(&place.target).or(others_stay);
        }
        Ok(place)
    }

    /// The path as the user wrote it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Name of the file that is written last.
    pub fn proof(&self) -> &'static str {
        self.layout.proof
    }

    /// Why its files are moved one by one, if they are.
    pub fn in_place(&self) -> Option<&'static str> {
        self.in_place
    }

    /// Creates the folder in which the output is written: beside the place, inside of it, or for a store a
    /// temporary one.
    pub(super) fn unfinished(&self) -> io::Result<UnfinishedFolder> {
        let temporary = std::env::temp_dir();
        let (folder, kind) = match self.in_place {
            _ if self.target.is_remote() => (temporary.as_path(), "upload"),
            Some(_) => (&*self.target, OF_RESULTS),
            None => (parent(&self.target), OF_RESULTS),
        };
        fs::create_dir_all(folder)?;
        let scratch = ScratchFolder::create_in(folder, kind)?;
        let path = scratch.path().join("results");
        fs::create_dir(&path)?;
        Ok(UnfinishedFolder { path, scratch })
    }

    /// Moves an output to its place, replacing an earlier one.
    ///
    /// # Errors
    /// When it cannot be moved, or something else has appeared there.
    pub(super) fn fill(&self, from: UnfinishedFolder) -> Result<(), FolderError> {
        let shown = Path::new(&self.shown);
        if self.target.is_remote() {
            self.upload(&from.path)?;
            return note_placed(shown, || Ok(()));
        }
        let target: &Path = &self.target;
        note_placed(shown, || {
            let io = |error| self.io(error);
            if !target.is_dir() {
                return fs::rename(&from.path, target).map_err(io);
            }
            // The place may have changed since the run began.
            if self.judge()?.or(self.in_place).is_some() {
                return self.layout.move_into(&from.path, target).map_err(io);
            }
            if exchange(&from.path, target) {
                return Ok(());
            }
            // Move the earlier output away first, so that the place never contains a mixture.
            let earlier = from.scratch.path().join(EARLIER);
            fs::create_dir(&earlier).map_err(io)?;
            let earlier = earlier.join(target.file_name().unwrap_or_default());
            fs::rename(target, &earlier).map_err(io)?;
            fs::rename(&from.path, target)
                .or_else(|error| fs::rename(&earlier, target).and(Err(error)))
                .map_err(io)
        })
    }

    fn upload(&self, from: &Path) -> Result<(), FolderError> {
        // The place may have changed since the run began.
        self.judge()?;
        let mut earlier = self.target.all_names().map_err(|fault| self.io(fault))?;
        earlier.retain(|name| self.layout.owns(name));
        let names = self.layout.own_files(from).map_err(|error| self.io(error))?;
        let uploaded = self.target.upload(from, &names, &earlier, self.layout.proof);
        uploaded.map_err(|fault| self.io(fault))
    }

    pub(super) fn io(&self, error: impl Into<io::Error>) -> FolderError {
        FolderError::Io { path: self.shown.clone(), source: error.into() }
    }

    fn refused(
        &self,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: &'static str,
    ) -> FolderError {
        OutputRefused::new(format!("to {}", self.shown), expected, found, hint).into()
    }

    /// Whether the existing folder may be replaced, and why not as a whole if other files are to stay.
    ///
    /// # Errors
    /// When it may not be replaced.
    fn judge(&self) -> Result<Option<&'static str>, FolderError> {
        const FORCE: &str = "choose another folder with --out; --force writes to this one: it replaces files \
                             of the names that hta writes and leaves all others";
        let found = self.layout.content(&self.target).map_err(|error| self.io(error))?;
        if let Some((expected, found)) = found.in_the_way {
            return Err(self.refused(expected, found, "choose another folder with --out, or move it away"));
        }
        match (found.foreign, found.ours) {
            (Some(_), _) if self.force => Ok(Some("it holds other files, which stay")),
            (Some(found), _) => {
                Err(self.refused("an empty folder or an earlier result", format!("`{found}` in it"), FORCE))
            }
            (None, Some(name)) if !self.force && !found.is_proven => {
                let found = format!("`{name}` in it but no {} of hta", self.layout.proof);
                Err(self.refused("an earlier result", found, FORCE))
            }
            _ => Ok(None),
        }
    }
}

/// A folder in which an output is written until it is complete.
pub(super) struct UnfinishedFolder {
    path: PathBuf,
    /// What holds it, and in the end an earlier output.
    scratch: ScratchFolder,
}

impl UnfinishedFolder {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Exchanges two folders atomically, if the system supports it.
#[cfg(target_os = "linux")]
fn exchange(a: &Path, b: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> bool {
    false
}

/// Why an existing folder cannot be replaced as a whole, if that is so.
fn cannot_be_moved(target: &Path) -> Option<&'static str> {
    let is_current =
        || std::env::current_dir().and_then(|c| c.canonicalize()).is_ok_and(|c| c.starts_with(target));
    match () {
        () if is_mount_point(target) => Some("it is a mount point"),
        () if is_closed(parent(target)) => Some("the folder that it is in cannot be written to"),
        () if is_current() => Some("it is, or holds, the current folder"),
        () => None,
    }
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
    use crate::output::layout::tests::{earlier, write};
    use crate::output::unfinished::tests::names;

    fn find(out: &Path, force: bool) -> Result<Option<&'static str>, String> {
        let found = OutputPlace::find(&RESULTS, out, &Inputs::default(), force);
        found.map(|p| p.in_place()).map_err(|e| e.to_string())
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
        for name in
            ["thesis.txt", "tables/mine.parquet", "tables/old/a", "events/rank_0.json", "tables/kernels.csv"]
        {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("out");
            earlier(&out);
            write(&out.join(name), "years of work");
            let error = find(&out, false).unwrap_err();
            let found = if name == "tables/old/a" { "tables/old" } else { name };
            assert!(error.ends_with(&format!("found `{found}` in it")), "{error}");
            assert_eq!(find(&out, true), Ok(Some("it holds other files, which stay")));
            RESULTS.remove_from(&out).unwrap();
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

    fn place(target: &Path) -> OutputPlace {
        OutputPlace::find(&RESULTS, target, &Inputs::default(), false).unwrap()
    }

    #[test]
    fn a_run_that_was_killed_while_it_moved_its_files_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let left = out.join(".hta-results-7-abc");
        earlier(&left.join("results"));
        fs::create_dir(out.join("tables")).unwrap();
        fs::rename(left.join("results/tables/kernels.parquet"), out.join("tables/kernels.parquet")).unwrap();
        let place = place(&out);
        let folder = place.unfinished().unwrap();
        earlier(folder.path());
        place.fill(folder).unwrap();
        assert_eq!((find(&out, false), names(dir.path())), (Ok(None), vec!["out".to_string()]));
        assert!(!left.exists());
        // Not a folder without proof.
        fs::remove_file(out.join("summary.json")).unwrap();
        fs::create_dir_all(out.join(".tmp-8/tables")).unwrap();
        assert!(find(&out, false).is_err());
    }

    #[test]
    fn a_run_that_was_killed_between_its_two_renames_loses_no_earlier_result() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let left = dir.path().join(".hta-results-7-abc");
        earlier(&left.join("earlier/out"));
        fs::create_dir(left.join("results")).unwrap();
        drop(place(&out).unfinished().unwrap());
        assert_eq!((names(dir.path()), find(&out, false)), (vec!["out".to_string()], Ok(None)));
        assert!(out.join("summary.json").exists());
        // The second rename came before the end: what is at the place is newer.
        earlier(&left.join("earlier/out"));
        write(&left.join("earlier/out/report.txt"), "older");
        drop(place(&out).unfinished().unwrap());
        assert_ne!(fs::read_to_string(out.join("report.txt")).unwrap(), "older");
    }

    #[test]
    fn runs_of_one_process_to_one_place_do_not_take_each_others_folders() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir.path().join("out"));
        let (first, second) = (place.unfinished().unwrap(), place.unfinished().unwrap());
        assert!(first.path() != second.path() && first.path().is_dir() && second.path().is_dir());
        earlier(first.path());
        place.fill(first).unwrap();
        drop(second);
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_result_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        for text in ["first", "second"] {
            let place = place(&target);
            let folder = place.unfinished().unwrap();
            earlier(folder.path());
            write(&folder.path().join("report.txt"), text);
            place.fill(folder).unwrap();
            assert_eq!(names(dir.path()), ["out"]);
            assert_eq!(fs::read_to_string(target.join("report.txt")).unwrap(), text);
        }
    }

    #[test]
    fn what_has_come_into_the_place_during_the_run_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let place = place(&target);
        let folder = place.unfinished().unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("rank_0.json"), "recorded meanwhile").unwrap();
        assert!(place.fill(folder).unwrap_err().to_string().contains("found `rank_0.json`"));
        assert_eq!(
            (names(dir.path()), names(&target)),
            (vec!["out".to_string()], vec!["rank_0.json".to_string()])
        );
    }
}
