//! The part of the file system that tools may read: what lies at and below the paths given at the start,
//! after all links are resolved.

use crate::mcp::answer::{Refusal, clip};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders below a source in which its files are: `tables` and `events` of a results folder.
const DEEPEST: usize = 2;

/// Most entries of a folder that are looked at.
const MOST_ENTRIES: usize = 1_000_000;

/// Paths without links at and below which tools may read.
#[derive(Debug, Default)]
pub struct Roots(Vec<PathBuf>);

/// What a tool is told that names something else than was given.
pub fn outside(path: &Path) -> Refusal {
    let shown = clip(&path.display().to_string(), 200);
    Refusal::refused(format!("cannot use `{shown}`: expected a path at or below those given at the start"))
        .hint(
            "`sources` lists them; more are allowed by `hta mcp --allow DIR`, URLs by giving them at the \
               start",
        )
}

impl Roots {
    /// Adds a path, which must exist.
    ///
    /// # Errors
    /// When it does not.
    pub fn add(&mut self, path: &Path) -> std::io::Result<PathBuf> {
        let real = fs::canonicalize(path)?;
        self.0.push(real.clone());
        Ok(real)
    }

    fn holds(&self, real: &Path) -> bool {
        self.0.iter().any(|root| real.starts_with(root))
    }

    /// The path without links. Whether something is there that may not be read is not told.
    ///
    /// # Errors
    /// When it leads outside, or nowhere.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, Refusal> {
        let real = fs::canonicalize(path).ok().filter(|real| self.holds(real));
        real.ok_or_else(|| outside(path))
    }

    /// Checks that the files of a source are inside, too: links in a folder may lead elsewhere.
    ///
    /// # Errors
    /// When one is not.
    pub fn check_files(&self, source: &Path) -> Result<(), Refusal> {
        self.check_below(source, DEEPEST)
    }

    fn check_below(&self, folder: &Path, depth: usize) -> Result<(), Refusal> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten().take(MOST_ENTRIES) {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            // A link that leads nowhere cannot be read.
            let real = if kind.is_symlink() { fs::canonicalize(&path).ok() } else { None };
            if real.as_ref().is_some_and(|real| !self.holds(real)) {
                let shown = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                let shown = clip(&shown, 200);
                return Err(Refusal::refused(format!(
                    "cannot use this source: `{shown}` is a link that leads outside"
                ))
                .hint("allow the folder that it leads to at the start: `hta mcp --allow DIR`"));
            }
            let is_folder = kind.is_dir() || real.is_some_and(|real| real.is_dir());
            if is_folder && depth > 1 {
                self.check_below(&path, depth - 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_that_lead_outside_are_refused_however_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(inside.join("tables")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("secret.json"), "x").unwrap();
        fs::write(inside.join("a.json"), "x").unwrap();
        let mut roots = Roots::default();
        roots.add(&inside).unwrap();
        assert!(roots.resolve(&inside.join("a.json")).is_ok());
        assert!(roots.resolve(&inside.join("tables/../a.json")).is_ok());
        symlink(&outside, inside.join("link")).unwrap();
        let refused = |path: &str| roots.resolve(&inside.join(path)).unwrap_err().reason;
        for path in ["../out/secret.json", "link/secret.json", "link", "tables/../../out", "none.json"] {
            assert!(refused(path).contains("expected a path at or below those given"), "{path}");
        }
        // A sibling whose name only begins with that of the root.
        fs::create_dir(dir.path().join("in2")).unwrap();
        assert!(roots.resolve(&dir.path().join("in2")).is_err());
    }

    #[test]
    fn a_source_with_a_link_to_the_outside_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("in");
        fs::create_dir_all(inside.join("tables")).unwrap();
        fs::write(dir.path().join("secret"), "x").unwrap();
        let mut roots = Roots::default();
        roots.add(&inside).unwrap();
        assert_eq!(roots.check_files(&inside), Ok(()));
        symlink("tables", inside.join("same")).unwrap();
        symlink("nowhere", inside.join("broken")).unwrap();
        assert_eq!(roots.check_files(&inside), Ok(()));
        symlink(dir.path().join("secret"), inside.join("tables/ranks.parquet")).unwrap();
        assert!(roots.check_files(&inside).unwrap_err().reason.contains("`ranks.parquet` is a link"));
    }
}
