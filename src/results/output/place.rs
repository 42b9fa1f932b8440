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

use crate::output::inputs::{InputClash, Inputs};
use crate::output::layout::FolderContent;
pub use crate::output::layout::{Layout, RESULTS, is_events_file, is_table_file};
use crate::output::paths::{destination, parent};
use hta_read::files::{Fault, Location};
use std::fs;
use std::io;
use std::path::Path;

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
        let target = if out.is_remote() { out.clone() } else { destination(&out).into() };
        let mut place = Self { layout, shown, target, force, was_proven: false, in_place: None, is_apart: false };
        if out.is_remote() {
            out.can_upload().map_err(|fault| place.io(fault))?;
            inputs.allow_folder_of_store(&out)?;
        } else {
            let is_there = match fs::metadata(&place.target) {
                Ok(found) if found.is_dir() => true,
                Ok(_) => return Err(FolderError::IsFile { path: place.shown }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => false,
                Err(e) => return Err(place.io(e)),
            };
            if is_there {
                place.target = place.target.canonicalize().map_err(|e| place.io(e))?.into();
            }
            // Checked first, because this error is more informative than the following ones.
            inputs.allow_folder(&place.target).map_err(|clash| clash.called(&place.shown))?;
            if !is_there {
                return Ok(place);
            }
        }
        let found = layout.content(&place.target, true).map_err(|e| place.io(e))?;
        place.was_proven = found.is_proven;
        let others_stay = place.judge(found)?;
        let fixed = if place.is_remote() { None } else { cannot_be_moved(&place.target) };
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
        let found = self.layout.content(&self.target, !self.was_proven);
        self.judge(found.map_err(|error| self.io(error))?)
    }

    pub(super) fn io(&self, error: impl Into<io::Error>) -> FolderError {
        FolderError::Io { path: self.shown.clone(), source: error.into() }
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
    use crate::output::layout::tests::{earlier, write};

    fn find(out: &Path, force: bool) -> Result<Option<InPlace>, String> {
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
        for name in ["thesis.txt", "tables/mine.parquet", "tables/old/a", "events/rank_0.json", "tables/kernels.csv"] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("out");
            earlier(&out);
            write(&out.join(name), "years of work");
            let error = find(&out, false).unwrap_err();
            let found = if name == "tables/old/a" { "tables/old" } else { name };
            assert!(error.ends_with(&format!("found `{found}` in it")), "{error}");
            assert_eq!(find(&out, true), Ok(Some(InPlace::OtherFiles)));
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
}
