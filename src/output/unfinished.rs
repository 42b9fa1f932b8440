//! Files and folders that are being written: under another name beside their place, and moved there when complete.
//!
//! They are moved ([`UnfinishedFolder::place`]), removed when dropped, or all removed when the user interrupts
//! ([`abandon_all`]). A `kill -9` leaves them; then the next run to the same place removes them. To tell them from
//! those of a running process, every run holds a lock (`flock`) on its folder or file: only unlocked ones are removed,
//! and of these only files with our names. The process id in the name is no evidence, because in containers most
//! processes have one of the same few ids.
//!
//! The output for a store is written to a temporary folder, which only the user may read, and uploaded from there.

use crate::files;
use crate::output::paths::{WORK, destination, entries, is_id, is_work_name, parent};
use crate::output::place::{FolderError, Layout, OutputPlace, holds_only_ours, is_ours, move_into, remove_ours};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// Outputs of this process.
struct Writing {
    /// Unfinished folders and files.
    open: BTreeSet<PathBuf>,
    /// The last output that was completed.
    placed: Option<PathBuf>,
}

static WRITING: Mutex<Writing> = Mutex::new(Writing { open: BTreeSet::new(), placed: None });

fn writing() -> MutexGuard<'static, Writing> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all unfinished outputs of this process, and prevents other threads from starting or completing any. Called
/// before the process exits. Returns the last output that was completed before.
pub fn abandon_all() -> Option<PathBuf> {
    files::abandon_uploads();
    let writing = writing();
    for path in &writing.open {
        remove_while_written(path);
    }
    let placed = writing.placed.clone();
    std::mem::forget(writing);
    placed
}

/// Removes a folder in which other threads may still create files.
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

/// Registration of an unfinished file or folder.
struct Registration(PathBuf);

impl Registration {
    /// Creates and registers under one lock, so that an interrupt cannot miss it.
    fn make<T>(make: impl FnOnce() -> io::Result<(PathBuf, T)>) -> io::Result<(Self, T)> {
        let mut writing = writing();
        let (path, made) = make()?;
        writing.open.insert(path.clone());
        Ok((Self(path), made))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        writing().open.remove(&self.0);
    }
}

pub struct UnfinishedFolder {
    path: PathBuf,
    layout: &'static Layout,
    entry: Option<Registration>,
    /// Held until it is dropped.
    lock: Option<File>,
}

const OLD: &str = ".old-";

impl UnfinishedFolder {
    /// Creates a folder for a place, and removes leftovers of killed runs there.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(place: &OutputPlace) -> io::Result<Self> {
        let layout = place.layout;
        let for_store = std::env::temp_dir().join(FOR_STORES);
        let target = if place.is_remote() { for_store.as_path() } else { place.target.as_path() };
        sweep_folders(parent(target), &name(target), target, layout);
        sweep_folders(target, OsStr::new(""), target, layout);
        // Beside its place, or inside it if it cannot be replaced as a whole.
        let (folder, prefix) = if place.is_apart { (target, OsString::new()) } else { (parent(target), name(target)) };
        fs::create_dir_all(folder)?;
        let mut more = 0;
        loop {
            let ending = if more == 0 { String::new() } else { format!(".{more}") };
            let mut name = prefix.clone();
            name.push(format!("{WORK}{}{ending}", std::process::id()));
            let path = folder.join(name);
            let make = if place.is_remote() { create_private } else { create };
            let made = Registration::make(|| make(&path).map(|()| (path.clone(), ())));
            match made {
                Ok((entry, ())) => {
                    let lock = match locked(&path) {
                        OpenAndLock::Yes(file) => Some(file),
                        OpenAndLock::Impossible => None,
                        // Another run mistook it for a leftover before it was locked.
                        OpenAndLock::ByOther if more < MOST_TRIES => {
                            more += 1;
                            continue;
                        }
                        OpenAndLock::ByOther => {
                            return Err(io::Error::other("every name for a temporary folder is taken"));
                        }
                    };
                    return Ok(Self { path, layout, entry: Some(entry), lock });
                }
                // The name is used by another run in this process, or by a process with the same id.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && more < MOST_TRIES => more += 1,
                Err(e) => return Err(e),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to its place, replacing an earlier output.
    ///
    /// # Errors
    /// When it cannot be moved, or something else has appeared there.
    pub fn place(mut self, place: &OutputPlace) -> Result<(), FolderError> {
        if place.is_remote() {
            return self.upload(place);
        }
        let target = place.target.as_path();
        let io = |source| FolderError::Io { path: place.shown().to_string(), source };
        let mut replaced = None;
        {
            // Hold the lock, so that an interrupt does not remove it half way.
            let mut writing = writing();
            let is_there = target.is_dir();
            // The place may have changed since the run began.
            let others_stay = if is_there { place.replaceable()? } else { None };
            if is_there && (others_stay.is_some() || place.in_place.is_some()) {
                move_into(self.layout, &self.path, target).map_err(io)?;
            } else if is_there {
                if !exchange(&self.path, target) {
                    // Move the earlier output away first, so that the place never contains a mixture.
                    let mut old = name(target);
                    old.push(format!("{OLD}{}", std::process::id()));
                    let old = parent(target).join(old);
                    fs::rename(target, &old).map_err(io)?;
                    fs::rename(&self.path, target).map_err(io)?;
                    replaced = Some(old);
                }
            } else {
                fs::rename(&self.path, target).map_err(io)?;
                self.path = PathBuf::new();
            }
            writing.placed = Some(PathBuf::from(place.shown()));
        }
        // The earlier output is now where this one was written.
        let old = replaced.as_deref().unwrap_or(&self.path).to_path_buf();
        self.path = PathBuf::new();
        if old.as_os_str().is_empty() {
            return Ok(());
        }
        remove_ours(self.layout, &old).map_err(io)?;
        // Fails if something else has appeared in it; then it stays.
        let _ = fs::remove_dir(&old);
        Ok(())
    }
}

impl UnfinishedFolder {
    /// Uploads it to its place in a store.
    fn upload(self, place: &OutputPlace) -> Result<(), FolderError> {
        let io = |source| FolderError::Io { path: place.shown().to_string(), source };
        // The place may have changed since the run began.
        place.replaceable()?;
        let earlier = files::all_names(&place.target).map_err(|fault| io(fault.into()))?;
        let earlier: Vec<String> = earlier.into_iter().filter(|name| is_ours(self.layout, name)).collect();
        let below = |folder: &str| {
            let found = entries(&self.path.join(folder)).into_iter().map(|(_, name)| format!("{folder}/{name}"));
            found.collect::<Vec<_>>()
        };
        let mut names: Vec<String> = self.layout.folders.iter().flat_map(|(folder, _)| below(folder)).collect();
        let has = |name: &&&str| self.path.join(name).is_file();
        names.extend(self.layout.files.iter().filter(has).map(|name| name.to_string()));
        names.sort();
        let uploaded = files::upload(&self.path, &names, &place.target, &earlier, self.layout.proof);
        uploaded.map_err(|fault| io(fault.into()))?;
        writing().placed = Some(PathBuf::from(place.shown()));
        Ok(())
    }
}

/// Name, before that of unfinished outputs, of temporary folders for results that are uploaded.
const FOR_STORES: &str = "hta-upload";

fn create(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Creates a folder that only the user may read.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Number of other names that are tried.
const MOST_TRIES: usize = 1000;

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() && fs::remove_dir_all(&self.path).is_err() {
            // Listing a folder needs a file handle, and the process may have none left; release one and try again.
            self.lock = None;
            let _ = fs::remove_dir_all(&self.path);
        }
        self.entry = None;
    }
}

/// A folder that nobody else may read, for files that live as long as it does. An interrupt removes it, too.
pub struct ScratchFolder {
    folder: tempfile::TempDir,
    _entry: Registration,
    /// Held until it is dropped.
    _lock: Option<File>,
}

impl ScratchFolder {
    /// Creates a folder in another one, and removes leftovers of killed runs there.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_in(folder: &Path, kind: &str) -> io::Result<Self> {
        let prefix = format!(".hta-{kind}-");
        for (path, name) in entries(folder) {
            let Some((id, _)) = name.strip_prefix(&prefix).and_then(|r| r.split_once('-')) else { continue };
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
            if is_folder
                && is_id(id)
                && let OpenAndLock::Yes(_lock) = locked(&path)
            {
                let _ = fs::remove_dir_all(&path);
            }
        }
        let name = format!("{prefix}{}-", std::process::id());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&name);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o700));
        }
        let make = || builder.tempdir_in(folder).map(|made| (made.path().to_path_buf(), made));
        let (_entry, made) = Registration::make(make)?;
        let _lock = match locked(made.path()) {
            OpenAndLock::Yes(file) => Some(file),
            OpenAndLock::ByOther | OpenAndLock::Impossible => None,
        };
        Ok(Self { folder: made, _entry, _lock })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub struct UnfinishedFile {
    file: NamedTempFile,
    _entry: Registration,
}

impl UnfinishedFile {
    /// Creates a file in a folder, readable as the user's umask allows. `kind` distinguishes leftovers of different
    /// kinds.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_in(folder: &Path, kind: &str) -> io::Result<Self> {
        Self::create_with_mode(folder, kind, 0o666)
    }

    /// Like [`UnfinishedFile::create_in`], readable only by the user.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_private_in(folder: &Path, kind: &str) -> io::Result<Self> {
        Self::create_with_mode(folder, kind, 0o600)
    }

    fn create_with_mode(folder: &Path, kind: &str, _mode: u32) -> io::Result<Self> {
        let prefix = format!(".hta-{kind}-");
        sweep_files(folder, &prefix);
        let name = format!("{prefix}{}-", std::process::id());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&name);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(_mode));
        }
        for _ in 0..MOST_TRIES {
            let make = || builder.tempfile_in(folder).map(|file| (file.path().to_path_buf(), file));
            let (entry, file) = Registration::make(make)?;
            // Another run may have mistaken it for a leftover before it was locked.
            let is_taken = matches!(lock(file.as_file()), LockResult::ByOther) || !is_at(file.as_file(), file.path());
            if !is_taken {
                return Ok(Self { file, _entry: entry });
            }
        }
        Err(io::Error::other("every name for a temporary file is taken"))
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Opens the file a second time for writing.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn reopen(&self) -> io::Result<File> {
        self.file.reopen()
    }

    /// Moves it to its place; with `force` it may replace an existing file.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn place(self, target: &Path, force: bool) -> io::Result<()> {
        let Self { file, _entry } = self;
        let mut writing = writing();
        let moved = if force { file.persist(target) } else { file.persist_noclobber(target) };
        if moved.is_ok() {
            writing.placed = Some(target.to_path_buf());
        }
        // Dropping the entry takes the same lock.
        drop(writing);
        moved.map(drop).map_err(|e| e.error)
    }
}

/// Writes a file completely or not at all. Something that is not a regular file (a pipe, a terminal) is written
/// directly.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if files::is_remote(path) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "only folders of results are written to stores"));
    }
    let target = destination(path);
    if target.exists() && !target.is_file() {
        return fs::OpenOptions::new().write(true).open(&target)?.write_all(bytes);
    }
    let file = UnfinishedFile::create_in(parent(&target), "table")?;
    file.reopen()?.write_all(bytes)?;
    file.place(&target, true)
}

fn name(target: &Path) -> OsString {
    target.file_name().map_or_else(|| "hta-out".into(), OsStr::to_os_string)
}

/// Removes folders that killed runs to `target` have left in `folder` under names that begin with `prefix`, and
/// restores an earlier result that was being replaced.
fn sweep_folders(folder: &Path, prefix: &OsStr, target: &Path, layout: &Layout) {
    let Some(prefix) = prefix.to_str() else { return };
    for (path, name) in entries(folder) {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        let is_old = !prefix.is_empty() && rest.strip_prefix(OLD).is_some_and(is_id);
        if !is_old && !is_work_name(rest) {
            continue;
        }
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
        if !is_folder || !holds_only_ours(layout, &path) {
            continue;
        }
        // Hold the lock until the folder is removed.
        let OpenAndLock::Yes(_lock) = locked(&path) else { continue };
        if is_old && !target.exists() {
            let _ = fs::rename(&path, target);
        } else if remove_ours(layout, &path).is_ok() {
            let _ = fs::remove_dir(&path);
        }
    }
}

fn sweep_files(folder: &Path, prefix: &str) {
    for (path, name) in entries(folder) {
        let Some((id, _)) = name.strip_prefix(prefix).and_then(|r| r.split_once('-')) else { continue };
        let is_file = fs::symlink_metadata(&path).is_ok_and(|m| m.is_file());
        if is_file
            && is_id(id)
            && let OpenAndLock::Yes(_lock) = locked(&path)
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Result of taking the lock of a file or folder; it is held until the file is closed.
enum LockResult {
    Taken,
    ByOther,
    /// The file system has no locks.
    Impossible,
}

#[cfg(unix)]
fn lock(file: &File) -> LockResult {
    match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => LockResult::Taken,
        Err(rustix::io::Errno::WOULDBLOCK) => LockResult::ByOther,
        Err(_) => LockResult::Impossible,
    }
}

#[cfg(not(unix))]
fn lock(_: &File) -> LockResult {
    LockResult::Impossible
}

/// Result of opening and locking a path.
enum OpenAndLock {
    Yes(File),
    /// Another process has the lock, or has removed the file.
    ByOther,
    Impossible,
}

fn locked(path: &Path) -> OpenAndLock {
    let Ok(file) = File::open(path) else {
        return if path.exists() { OpenAndLock::Impossible } else { OpenAndLock::ByOther };
    };
    match lock(&file) {
        LockResult::Taken if is_at(&file, path) => OpenAndLock::Yes(file),
        LockResult::Taken | LockResult::ByOther => OpenAndLock::ByOther,
        LockResult::Impossible => OpenAndLock::Impossible,
    }
}

/// Whether an open file is still the one at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(held), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (held.dev(), held.ino()) == (there.dev(), there.ino())
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
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
    use crate::output::paths::{destination, entries};
    use crate::output::place::RESULTS;

    /// An id that no process has.
    const GONE: u32 = 4_194_304 + 7;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = entries(folder).into_iter().map(|e| e.1).collect();
        names.sort();
        names
    }

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

    #[cfg(unix)]
    #[test]
    fn a_link_leads_to_its_destination_whether_that_is_there_or_not() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("below/c", dir.path().join("b")).unwrap();
        for path in ["a", "a/", "b", "below/c"] {
            assert_eq!(destination(&dir.path().join(path)), dir.path().join("below/c"), "{path}");
        }
        fs::create_dir(dir.path().join("below")).unwrap();
        write(&dir.path().join("a"), b"text").unwrap();
        assert_eq!(fs::read(dir.path().join("below/c")).unwrap(), b"text");
        assert!(fs::symlink_metadata(dir.path().join("a")).unwrap().is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = UnfinishedFile::create_private_in(dir.path(), "stdin").unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_scratch_folder_is_for_its_owner_and_removed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!(".hta-mcp-{GONE}-abc"));
        fs::create_dir_all(left.join("x")).unwrap();
        fs::create_dir(dir.path().join(".hta-mcp-notes")).unwrap();
        let first = ScratchFolder::create_in(dir.path(), "mcp").unwrap();
        let second = ScratchFolder::create_in(dir.path(), "mcp").unwrap();
        assert!(!left.exists() && first.path().exists());
        assert_eq!(fs::metadata(first.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(second.path().join("file"), "x").unwrap();
        drop((first, second));
        assert_eq!(names(dir.path()), [".hta-mcp-notes"]);
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
