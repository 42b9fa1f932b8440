//! Folders for files that live as long as the process needs them.

use super::{Claim, temporary};
use std::io;
use std::path::Path;

/// A folder that nobody else may read, for files that live as long as it does. An interrupt removes it, too.
pub struct ScratchFolder {
    folder: tempfile::TempDir,
    _claim: Claim,
}

impl ScratchFolder {
    /// Creates a folder in another one, and removes leftovers of killed runs there.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_in(folder: &Path, kind: &str) -> io::Result<Self> {
        let (_claim, folder) = temporary(folder, (kind, true, 0o700), |builder| builder.tempdir_in(folder))?;
        Ok(Self { folder, _claim })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::unfinished::tests::{GONE, names};
    use std::fs;

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
