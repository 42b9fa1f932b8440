//! Files and folders that are being written: under another name beside their place, and moved there when
//! complete.
//!
//! They are removed when dropped, or all when the user interrupts ([`abandon_all`]). A `kill -9` leaves them;
//! then the next run that writes beside them removes them ([`claim`]).

mod claim;

pub use claim::abandon_all;
pub(super) use claim::{EARLIER, OF_RESULTS, is_results_name, note_placed};

use crate::output::paths::{destination, parent};
use claim::Claim;
use hta_read::files::is_remote;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use tempfile::{NamedTempFile, TempDir};

pub struct UnfinishedFile {
    file: NamedTempFile,
    _claim: Claim,
}

impl UnfinishedFile {
    /// Creates a file in a folder, readable as the user's umask allows. `kind` distinguishes leftovers of
    /// different kinds.
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

    fn create_with_mode(folder: &Path, kind: &str, mode: u32) -> io::Result<Self> {
        let (_claim, file) = Claim::make(folder, kind, mode, |named| named.tempfile_in(folder))?;
        Ok(Self { file, _claim })
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
        let Self { file, _claim } = self;
        note_placed(target, || {
            let moved = if force { file.persist(target) } else { file.persist_noclobber(target) };
            moved.map(drop).map_err(|e| e.error)
        })
    }
}

/// Writes a file completely or not at all. Something that is not a regular file (a pipe, a terminal) is
/// written directly.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_remote(path) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "only folders of results are written to stores",
        ));
    }
    let target = destination(path);
    if target.exists() && !target.is_file() {
        return fs::OpenOptions::new().write(true).open(&target)?.write_all(bytes);
    }
    let file = UnfinishedFile::create_in(parent(&target), "table")?;
    file.reopen()?.write_all(bytes)?;
    file.place(&target, true)
}

/// A folder that nobody else may read, for files that live as long as it does.
pub struct ScratchFolder {
    folder: TempDir,
    claim: Claim,
}

impl ScratchFolder {
    /// Creates a folder in another one.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_in(folder: &Path, kind: &str) -> io::Result<Self> {
        let (claim, folder) = Claim::make(folder, kind, 0o700, |named| named.tempdir_in(folder))?;
        Ok(Self { folder, claim })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // The folder is removed next. Listing it needs a file handle, and the process may have no other left.
        self.claim.unlock();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::output::paths::entries;

    /// An id that no process has.
    pub(super) const GONE: u32 = 4_194_304 + 7;

    pub(in crate::output) fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = entries(folder).into_iter().map(|e| e.1).collect();
        names.sort();
        names
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

    #[cfg(unix)]
    #[test]
    fn private_files_and_scratch_folders_are_for_their_owner_alone_and_removed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!(".hta-mcp-{GONE}-abc"));
        fs::create_dir_all(left.join("x")).unwrap();
        fs::create_dir(dir.path().join(".hta-mcp-notes")).unwrap();
        let file = UnfinishedFile::create_private_in(dir.path(), "stdin").unwrap();
        let first = ScratchFolder::create_in(dir.path(), "mcp").unwrap();
        let second = ScratchFolder::create_in(dir.path(), "mcp").unwrap();
        assert!(!left.exists() && first.path().exists());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(first.path())), (0o600, 0o700));
        fs::write(second.path().join("file"), "x").unwrap();
        drop((file, first, second));
        assert_eq!(names(dir.path()), [".hta-mcp-notes"]);
    }
}
