//! Folders that are written under another name beside their place, and moved there when complete; for a place in a store, in
//! a temporary folder, and uploaded from there.

use super::{Claim, sweep, writing};
use crate::output::paths::{WORK, is_id, is_work_name, parent};
use crate::output::place::{FolderError, Layout, OutputPlace};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub struct UnfinishedFolder {
    /// Empty once it was moved to its place.
    path: PathBuf,
    layout: &'static Layout,
    claim: Claim,
}

const OLD: &str = ".old-";

/// Name, before that of unfinished outputs, of temporary folders for results that are uploaded.
const FOR_STORES: &str = "hta-upload";

impl UnfinishedFolder {
    /// Creates a folder for a place, and removes leftovers of killed runs there.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn create(place: &OutputPlace) -> io::Result<Self> {
        let layout = place.layout;
        let for_store = std::env::temp_dir().join(FOR_STORES);
        let target = if place.is_remote() { for_store.as_path() } else { &place.target };
        sweep_folders(parent(target), &name(target), target, layout);
        sweep_folders(target, OsStr::new(""), target, layout);
        // Beside its place, or inside it if it cannot be replaced as a whole.
        let (folder, prefix) = if place.is_apart { (target, OsString::new()) } else { (parent(target), name(target)) };
        fs::create_dir_all(folder)?;
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        if place.is_remote() {
            // Only the user may read it.
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        }
        let (claim, path) = Claim::make(|attempt| {
            let ending = if attempt == 0 { String::new() } else { format!(".{attempt}") };
            let mut name = prefix.clone();
            name.push(format!("{WORK}{}{ending}", std::process::id()));
            let path = folder.join(name);
            builder.create(&path).map(|()| (path.clone(), path))
        })?;
        Ok(Self { path, layout, claim })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to its place, replacing an earlier output.
    ///
    /// # Errors
    /// When it cannot be moved, or something else has appeared there.
    pub(crate) fn place(mut self, place: &OutputPlace) -> Result<(), FolderError> {
        if place.is_remote() {
            return self.upload(place);
        }
        let io = |error: io::Error| place.io(error);
        let target: &Path = &place.target;
        let old = {
            // Hold the lock, so that an interrupt does not remove it half way.
            let mut writing = writing();
            let is_there = target.is_dir();
            // The place may have changed since the run began.
            let others_stay = if is_there { place.replaceable()? } else { None };
            // Where the earlier output, or what is left of this one, is in the end.
            let old = if !is_there {
                fs::rename(&self.path, target).map_err(io)?;
                None
            } else if others_stay.is_some() || place.in_place.is_some() {
                self.layout.move_into(&self.path, target).map_err(io)?;
                Some(self.path.clone())
            } else if exchange(&self.path, target) {
                Some(self.path.clone())
            } else {
                // Move the earlier output away first, so that the place never contains a mixture.
                let mut old = name(target);
                old.push(format!("{OLD}{}", std::process::id()));
                let old = parent(target).join(old);
                fs::rename(target, &old).and_then(|()| fs::rename(&self.path, target)).map_err(io)?;
                Some(old)
            };
            self.path = PathBuf::new();
            writing.placed = Some(PathBuf::from(place.shown()));
            old
        };
        let Some(old) = old else { return Ok(()) };
        self.layout.remove_from(&old).map_err(io)?;
        // Fails if something else has appeared in it; then it stays.
        let _ = fs::remove_dir(&old);
        Ok(())
    }

    /// Uploads it to its place in a store.
    fn upload(&self, place: &OutputPlace) -> Result<(), FolderError> {
        // The place may have changed since the run began.
        place.replaceable()?;
        let mut earlier = place.target.all_names().map_err(|fault| place.io(fault))?;
        earlier.retain(|name| self.layout.owns(name));
        let names = self.layout.own_files(&self.path).map_err(|error| place.io(error))?;
        let uploaded = place.target.upload(&self.path, &names, &earlier, self.layout.proof);
        uploaded.map_err(|fault| place.io(fault))?;
        writing().placed = Some(PathBuf::from(place.shown()));
        Ok(())
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() && fs::remove_dir_all(&self.path).is_err() {
            // Listing a folder needs a file handle, and the process may have none left; release one and try again.
            self.claim.lock = None;
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn name(target: &Path) -> OsString {
    target.file_name().map_or_else(|| "hta-out".into(), OsStr::to_os_string)
}

/// Removes folders that killed runs to `target` have left in `folder` under names that begin with `prefix`, and
/// restores an earlier result that was being replaced.
fn sweep_folders(folder: &Path, prefix: &OsStr, target: &Path, layout: &Layout) {
    let Some(prefix) = prefix.to_str() else { return };
    let rest = |name: &str| name.strip_prefix(prefix).unwrap_or_default().to_string();
    let is_old = |name: &str| !prefix.is_empty() && rest(name).strip_prefix(OLD).is_some_and(is_id);
    let is_left = |name: &str| is_old(name) || is_work_name(&rest(name));
    sweep(folder, true, is_left, |path, name| {
        if !layout.content(&path.into(), false).is_ok_and(|found| found.is_ours()) {
            return;
        }
        if is_old(name) && !target.exists() {
            let _ = fs::rename(path, target);
        } else if layout.remove_from(path).is_ok() {
            let _ = fs::remove_dir(path);
        }
    });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::inputs::Inputs;
    use crate::output::place::RESULTS;
    use crate::output::unfinished::lock::{OpenAndLock, locked};
    use crate::output::unfinished::tests::{GONE, names};

    fn place(target: &Path) -> OutputPlace {
        OutputPlace::find(&RESULTS, target, &Inputs::default(), false).unwrap()
    }

    fn create(target: &Path) -> UnfinishedFolder {
        UnfinishedFolder::create(&place(target)).unwrap()
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let left = |ending: &str, entry: &str| {
            let path = dir.path().join(format!("out{ending}"));
            fs::create_dir_all(path.join(entry)).unwrap();
        };
        left(&format!(".tmp-{GONE}"), "tables");
        left(&format!(".tmp-{GONE}.1"), "tables");
        // In a container a process with this id always exists, and is another one.
        left(".tmp-1", "tables");
        left(&format!(".tmp-{}", std::process::id()), "events");
        // Folders of others: other content, also in subfolders, a name without an id, another place.
        left(&format!(".tmp-{GONE}.2"), "thesis");
        left(&format!(".tmp-{GONE}.4"), "tables");
        fs::write(dir.path().join(format!("out.tmp-{GONE}.4/tables/thesis.txt")), "years of work").unwrap();
        left(".tmp-keep", "tables");
        left(&format!("2.tmp-{GONE}"), "tables");
        fs::write(dir.path().join(format!("out.tmp-{GONE}.3")), "a file").unwrap();
        let kept = [&format!(".tmp-{GONE}.2"), &format!(".tmp-{GONE}.3"), &format!(".tmp-{GONE}.4"), ".tmp-keep"];
        let mut expected = kept.map(|e| format!("out{e}")).to_vec();
        drop(create(&target));
        expected.push(format!("out2.tmp-{GONE}"));
        expected.sort();
        assert_eq!(names(dir.path()), expected);
    }

    #[test]
    fn a_folder_that_somebody_holds_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!("out.tmp-{GONE}"));
        fs::create_dir(&path).unwrap();
        let OpenAndLock::Yes(held) = locked(&path) else { panic!("nobody holds it") };
        drop(create(&dir.path().join("out")));
        assert!(path.exists());
        drop(held);
        drop(create(&dir.path().join("out")));
        assert!(!path.exists());
    }

    #[test]
    fn runs_of_one_process_to_one_place_do_not_take_each_others_folders() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let (first, second) = (create(&target), create(&target));
        assert!(first.path() != second.path() && first.path().is_dir() && second.path().is_dir());
        fs::write(first.path().join("report.txt"), "first").unwrap();
        first.place(&place(&target)).unwrap();
        drop(second);
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn an_earlier_result_on_its_way_out_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(format!("out.old-{GONE}/tables"))).unwrap();
        drop(create(&dir.path().join("out")));
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_result_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        for text in ["first", "second"] {
            let folder = create(&target);
            fs::write(folder.path().join("report.txt"), text).unwrap();
            fs::write(folder.path().join("summary.json"), r#"{"hta_version": "0"}"#).unwrap();
            folder.place(&place(&target)).unwrap();
            assert_eq!(names(dir.path()), ["out"]);
            assert_eq!(fs::read_to_string(target.join("report.txt")).unwrap(), text);
        }
    }

    #[test]
    fn what_has_come_into_the_place_during_the_run_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let (place, folder) = (place(&target), create(&target));
        fs::create_dir(&target).unwrap();
        fs::write(target.join("rank_0.json"), "recorded meanwhile").unwrap();
        assert!(folder.place(&place).unwrap_err().to_string().contains("found `rank_0.json`"));
        assert_eq!((names(dir.path()), names(&target)), (vec!["out".to_string()], vec!["rank_0.json".to_string()]));
    }
}
