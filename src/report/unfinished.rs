//! Files and folders that are being written: beside their place under another name, and moved there when complete.
//!
//! What becomes of them: moved ([`UnfinishedFolder::place`]), removed when dropped, removed all at once when the user
//! interrupts ([`abandon_all`]), or, after a `kill -9`, left; then the next run to the same place removes them. So that
//! it never takes what is not left: the name must be one of ours, with the id of a process that is gone, the content
//! must be ours, and nobody may hold the lock on it (a process on another machine, or in another container, has an id
//! that means nothing here).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// All that this process is writing.
static OPEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn open() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all that this process is writing, and lets no thread of it begin or end another one: for a process that is
/// about to exit.
pub fn abandon_all() {
    let open = open();
    for path in open.iter() {
        remove_while_written(path);
    }
    std::mem::forget(open);
}

/// Other threads may still make files in a folder that is removed.
fn remove_while_written(path: &Path) {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {}
            _ if !path.exists() => return,
            _ => {}
        }
    }
}

/// An entry of [`OPEN`].
struct Entry(PathBuf);

impl Entry {
    /// Makes something and notes where: nobody who interrupts comes in between, to whom it would not be known yet.
    fn make<T>(make: impl FnOnce() -> io::Result<(PathBuf, T)>) -> io::Result<(Self, T)> {
        let mut open = open();
        let (path, made) = make()?;
        open.insert(path.clone());
        Ok((Self(path), made))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        open().remove(&self.0);
    }
}

/// A folder that is being written.
pub struct UnfinishedFolder {
    path: PathBuf,
    entry: Option<Entry>,
    /// Held as long as it lives.
    _lock: Option<File>,
}

const WORK: &str = ".tmp-";
const OLD: &str = ".old-";

impl UnfinishedFolder {
    /// Starts a folder that will stand at `target`, and removes what killed runs have left there. `ours`: what such a
    /// folder may hold.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(target: &Path, ours: &[&str]) -> io::Result<Self> {
        sweep_folders(target, ours);
        let own = format!("{WORK}{}", std::process::id());
        fs::create_dir_all(parent(target))?;
        let (entry, ()) = Entry::make(|| {
            let mut path = beside(target, &own);
            let mut more = 0;
            while let Err(e) = fs::create_dir(&path) {
                // of another run in this process, or of one that had our id
                if e.kind() != io::ErrorKind::AlreadyExists || more == 1000 {
                    return Err(e);
                }
                more += 1;
                path = beside(target, &format!("{own}.{more}"));
            }
            Ok((path, ()))
        })?;
        let path = entry.0.clone();
        let lock = File::open(&path).ok().filter(lock);
        Ok(Self { path, entry: Some(entry), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to its place, instead of what stands there.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn place(mut self, target: &Path) -> io::Result<()> {
        {
            // an interrupted run does not remove it half way
            let _open = open();
            if target.is_dir() {
                if !exchange(&self.path, target) {
                    // moved away first, so that there is no moment with half of each
                    let old = beside(target, &format!("{OLD}{}", std::process::id()));
                    fs::rename(target, &old)?;
                    fs::rename(&self.path, target)?;
                    self.path = old;
                }
            } else {
                fs::rename(&self.path, target)?;
                self.path = PathBuf::new();
            }
        }
        // the earlier result now stands where this one was written
        if self.path.as_os_str().is_empty() { Ok(()) } else { fs::remove_dir_all(&self.path) }
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.path);
        }
        self.entry = None;
    }
}

/// A file that is being written.
pub struct UnfinishedFile {
    file: NamedTempFile,
    _entry: Entry,
}

impl UnfinishedFile {
    /// Starts a file in a folder; `kind` tells files of one kind from others that are left by killed runs.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create_in(folder: &Path, kind: &str) -> io::Result<Self> {
        let prefix = format!(".hta-{kind}-");
        sweep_files(folder, &prefix);
        let name = format!("{prefix}{}-", std::process::id());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&name);
        #[cfg(unix)]
        {
            // as any other new file, not only for its owner
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let (entry, file) = Entry::make(|| builder.tempfile_in(folder).map(|file| (file.path().to_path_buf(), file)))?;
        lock(file.as_file());
        Ok(Self { file, _entry: entry })
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The file once more, to write to.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn reopen(&self) -> io::Result<File> {
        self.file.reopen()
    }

    /// Moves it to its place; `force`: instead of what stands there.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn place(self, target: &Path, force: bool) -> io::Result<()> {
        let moved = if force { self.file.persist(target) } else { self.file.persist_noclobber(target) };
        moved.map(drop).map_err(|e| e.error)
    }
}

/// Writes a file that is there whole or not at all. What is no file (a pipe, a terminal) is written to as it is.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // through a link to where it leads
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if target.exists() && !target.is_file() {
        return fs::OpenOptions::new().write(true).open(&target)?.write_all(bytes);
    }
    let file = UnfinishedFile::create_in(parent(&target), "table")?;
    file.reopen()?.write_all(bytes)?;
    file.place(&target, true)
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn name(target: &Path) -> OsString {
    target.file_name().map_or_else(|| "hta-out".into(), OsStr::to_os_string)
}

fn beside(target: &Path, ending: &str) -> PathBuf {
    let mut name = name(target);
    name.push(ending);
    parent(target).join(name)
}

/// Removes folders that killed runs to `target` have left, and puts back an earlier result that was on its way out.
fn sweep_folders(target: &Path, ours: &[&str]) {
    let own = name(target);
    let Some(own) = own.to_str() else { return };
    for (path, name) in entries(parent(target)) {
        let Some(rest) = name.strip_prefix(own) else { continue };
        let (is_old, id) = match (rest.strip_prefix(WORK), rest.strip_prefix(OLD)) {
            (Some(id), _) => (false, id),
            (None, Some(id)) => (true, id),
            (None, None) => continue,
        };
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
        let is_ours = || entries(&path).iter().all(|(_, name)| ours.contains(&name.as_str()));
        if is_folder && is_left(id) && is_ours() && File::open(&path).is_ok_and(|f| lock(&f)) {
            if is_old && !target.exists() {
                let _ = fs::rename(&path, target);
            } else {
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}

fn sweep_files(folder: &Path, prefix: &str) {
    for (path, name) in entries(folder) {
        let Some((id, _)) = name.strip_prefix(prefix).and_then(|r| r.split_once('-')) else { continue };
        let is_file = fs::symlink_metadata(&path).is_ok_and(|m| m.is_file());
        if is_file && is_left(id) && File::open(&path).is_ok_and(|f| lock(&f)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// What is in a folder, where it can be listed.
fn entries(folder: &Path) -> Vec<(PathBuf, String)> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    found.flatten().map(|e| (e.path(), e.file_name().to_string_lossy().into_owned())).collect()
}

/// Whether a name's ending is the id of a process that is gone.
fn is_left(id: &str) -> bool {
    let (process, more) = id.split_once('.').unwrap_or((id, "0"));
    let is_number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let known = Path::new("/proc/self").exists();
    known
        && is_number(process)
        && is_number(more)
        && process != std::process::id().to_string()
        && !Path::new("/proc").join(process).exists()
}

/// Takes the lock on a file or folder, until it is closed. `false`: somebody has it, or it cannot be told.
#[cfg(unix)]
fn lock(file: &File) -> bool {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(not(unix))]
fn lock(_: &File) -> bool {
    false
}

/// Swaps two folders in one step, where the system can.
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

    const OURS: [&str; 2] = ["report.txt", "tables"];

    /// An id that no process has.
    const GONE: u32 = 4_194_304 + 7;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = entries(folder).into_iter().map(|e| e.1).collect();
        names.sort();
        names
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
        // somebody else's: another content, a process that lives, a name that is no id, another place
        left(&format!(".tmp-{GONE}.2"), "thesis");
        left(".tmp-1", "tables");
        left(".tmp-keep", "tables");
        left(&format!("2.tmp-{GONE}"), "tables");
        fs::write(dir.path().join(format!("out.tmp-{GONE}.3")), "a file").unwrap();
        let kept =
            [".tmp-1", &format!(".tmp-{GONE}.2"), &format!(".tmp-{GONE}.3"), ".tmp-keep"].map(|e| format!("out{e}"));
        drop(UnfinishedFolder::create(&target, &OURS).unwrap());
        let mut expected = kept.to_vec();
        expected.push(format!("out2.tmp-{GONE}"));
        expected.sort();
        assert_eq!(names(dir.path()), expected);
    }

    #[test]
    fn a_folder_that_somebody_holds_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!("out.tmp-{GONE}"));
        fs::create_dir(&path).unwrap();
        let held = File::open(&path).unwrap();
        assert!(lock(&held));
        drop(UnfinishedFolder::create(&dir.path().join("out"), &OURS).unwrap());
        assert!(path.exists());
        drop(held);
        drop(UnfinishedFolder::create(&dir.path().join("out"), &OURS).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn an_earlier_result_on_its_way_out_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(format!("out.old-{GONE}/tables"))).unwrap();
        drop(UnfinishedFolder::create(&dir.path().join("out"), &OURS).unwrap());
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_result_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        for text in ["first", "second"] {
            let folder = UnfinishedFolder::create(&target, &OURS).unwrap();
            fs::write(folder.path().join("report.txt"), text).unwrap();
            folder.place(&target).unwrap();
            assert_eq!(names(dir.path()), ["out"]);
            assert_eq!(fs::read_to_string(target.join("report.txt")).unwrap(), text);
        }
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("t.csv");
        fs::write(dir.path().join(format!(".hta-table-{GONE}-abc")), "half").unwrap();
        write(&target, b"whole").unwrap();
        assert_eq!(names(dir.path()), ["t.csv"]);
        assert!(write(&dir.path().join("no/such/t.csv"), b"x").is_err());
        assert!(write(Path::new("/dev/full"), b"x").is_err());
    }
}
