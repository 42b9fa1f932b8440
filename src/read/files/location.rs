//! A file or object by its path, with the stores through which a URL is reached.

use super::address::Address;
use super::fault::Fault;
use super::scheme::is_remote;
use super::stores::Stores;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Name, size, and time or ETag of each file or object, sorted.
pub type ContentVersion = Vec<(String, u64, String)>;

/// The path of a file or folder, or a URL. It is compared and shown as a path.
#[derive(Clone)]
pub struct Location {
    path: PathBuf,
    stores: Stores,
}

impl Location {
    pub fn new(path: impl Into<PathBuf>, stores: &Stores) -> Self {
        Self { path: path.into(), stores: stores.clone() }
    }

    /// Another path, reached through the same stores.
    pub fn beside(&self, path: impl Into<PathBuf>) -> Self {
        Self::new(path, &self.stores)
    }

    /// What lies in a folder under a name.
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        self.beside(self.path.join(name))
    }

    /// The same place as it is now: what was seen of objects before does not count.
    pub fn anew(&self) -> Self {
        Self::new(self.path.clone(), &self.stores.anew())
    }

    pub(super) fn stores(&self) -> &Stores {
        &self.stores
    }

    pub(super) fn address(&self) -> Result<Address, Fault> {
        self.stores.address(&self.path)
    }

    /// Whether it is a URL.
    pub fn is_remote(&self) -> bool {
        is_remote(&self.path)
    }

    /// Opens a file or object for reading from its beginning.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        self.open_at(0)
    }

    /// Opens a file or object for reading from some place on; beyond the end there is nothing.
    ///
    /// # Errors
    /// As [`Location::open`].
    pub fn open_at(&self, start: u64) -> io::Result<Box<dyn Read + Send>> {
        if self.is_remote() {
            return Ok(Box::new(self.stream(start)?));
        }
        let mut file = File::open(&self.path)?;
        if start > 0 {
            file.seek(SeekFrom::Start(start))?;
        }
        Ok(Box::new(file))
    }

    /// Size of a file or object, bytes.
    ///
    /// # Errors
    /// As [`Location::open`].
    pub fn size(&self) -> io::Result<u64> {
        if self.is_remote() { Ok(self.object()?.0.size()) } else { Ok(fs::metadata(&self.path)?.len()) }
    }

    /// Whether it is a regular file (following links) or an object.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub fn is_file(&self) -> io::Result<bool> {
        if self.is_remote() { Ok(self.is_object()?) } else { Ok(self.path.is_file()) }
    }

    /// Whether it is a folder; in a store, one with objects in it or below.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub fn is_folder(&self) -> io::Result<bool> {
        if self.is_remote() { Ok(self.has_any()?) } else { Ok(self.path.is_dir()) }
    }

    /// Names of everything directly in a folder; of a store, of its objects. In order of the names.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn names(&self) -> io::Result<Vec<String>> {
        if self.is_remote() {
            return Ok(self.object_names()?);
        }
        let entries =
            fs::read_dir(&self.path)?.map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned()));
        let mut names = entries.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// Refuses what is no file in or below a folder: a pipe, on which reading would block, a device,
    /// a folder, or a link that leads out of it. A store has objects only.
    ///
    /// # Errors
    /// When it is none, does not exist, or cannot be looked at.
    pub fn check_file_below(&self, folder: &Path) -> io::Result<()> {
        if self.is_remote() {
            return Ok(());
        }
        match self.check_file() {
            // Of a link that leads nowhere the name is there.
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.path.is_symlink() => {
                return Err(io::Error::other("expected a file, found a link that leads nowhere"));
            }
            checked => checked?,
        }
        match fs::canonicalize(&self.path)?.starts_with(fs::canonicalize(folder)?) {
            true => Ok(()),
            false => Err(io::Error::other("expected a file, found a link that leads out of the folder")),
        }
    }

    /// Refuses what cannot be opened several times, such as a pipe.
    ///
    /// # Errors
    /// When it is no file, does not exist, or cannot be looked at.
    pub(crate) fn check_file(&self) -> io::Result<()> {
        if self.is_remote() {
            return Ok(());
        }
        match fs::metadata(&self.path)?.file_type() {
            kind if kind.is_file() => Ok(()),
            kind if kind.is_dir() => Err(io::Error::other("expected a file, found a folder")),
            _ => Err(io::Error::other("expected a file, found a pipe, socket or device")),
        }
    }

    /// What tells the present content of a file or object, or of the files directly in a folder, from another
    /// one.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn version(&self) -> io::Result<ContentVersion> {
        if self.is_remote() {
            return Ok(self.object_version()?);
        }
        let of = |path: &Path| -> io::Result<_> {
            let found = fs::metadata(path)?;
            Ok((path.display().to_string(), found.len(), format!("{:?}", found.modified()?)))
        };
        if !self.path.is_dir() {
            return Ok(vec![of(&self.path)?]);
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A link that leads nowhere cannot be read.
            found.extend(of(&entry?.path()));
        }
        found.sort();
        Ok(found)
    }
}

impl Deref for Location {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Location {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// A path that is reached through stores of its own, with the usual options.
macro_rules! from_paths {
    ($($path:ty),+) => {
        $(impl From<$path> for Location {
            fn from(path: $path) -> Self {
                Self::new(path, &Stores::default())
            }
        })+
    };
}

from_paths!(PathBuf, &PathBuf, &Path, &str);

impl From<&Location> for Location {
    fn from(location: &Location) -> Self {
        location.clone()
    }
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Location {}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}
