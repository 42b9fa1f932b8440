//! Folders for files that live as long as the process needs them.

use super::Registration;
use super::lock::{OpenAndLock, locked};
use crate::output::paths::{entries, is_id};
use std::fs::{self, File};
use std::io;
use std::path::Path;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::unfinished::tests::{GONE, names};

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
}
