//! Files that are written under another name, and moved to their place when complete.

use super::{Claim, temporary, writing};
use crate::output::paths::{destination, parent};
use hta_read::files::is_remote;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;

pub struct UnfinishedFile {
    file: NamedTempFile,
    _claim: Claim,
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

    fn create_with_mode(folder: &Path, kind: &str, mode: u32) -> io::Result<Self> {
        let (_claim, file) = temporary(folder, (kind, false, mode), |builder| builder.tempfile_in(folder))?;
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
        let mut writing = writing();
        let moved = if force { file.persist(target) } else { file.persist_noclobber(target) };
        if moved.is_ok() {
            writing.placed = Some(target.to_path_buf());
        }
        // Dropping the claim takes the same lock.
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
    if is_remote(path) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::unfinished::tests::{GONE, names};

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
