//! A partial's folder: what is written beside the row tables and events, and opening it again.

use super::error::PartialError;
use super::manifest::{Listed, Manifest, NAME, checksum};
use super::options::Recorded;
use super::state::{State, shelves, state};
use super::stored::{Stored, bytes, read};
use crate::pipeline::MappedSet;
use crate::report::folder::Folder;
use flate2::Crc;
use rayon::prelude::*;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What a partial's folder may hold.
pub const OURS: [&str; 4] = [NAME, STATE, TABLES, EVENTS];
const STATE: &str = "state";
pub(super) const TABLES: &str = "tables";
pub(super) const EVENTS: &str = "events";

/// Completes a partial: its rows stand in `folder` already. The folder is then to be finished.
///
/// # Errors
/// When something cannot be written.
pub fn leave(folder: &Folder, set: &MappedSet, options: Recorded) -> io::Result<()> {
    folder.close()?;
    let root = folder.work();
    fs::create_dir_all(root.join(STATE))?;
    let mut files = Vec::new();
    for shelf in shelves(set)? {
        let bytes = bytes(shelf.of, shelf.spec, &shelf.batches).map_err(io::Error::other)?;
        let name = format!("{STATE}/{}.{}.parquet", shelf.of, shelf.spec.name);
        fs::write(root.join(&name), &bytes)?;
        files.push(Listed { name, bytes: bytes.len() as u64, sum: Some(checksum(&bytes)) });
    }
    for (below, with_sum) in [(TABLES, true), (EVENTS, false)] {
        for path in entries(&root.join(below))? {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let sum = if with_sum { Some(file_sum(&path)?) } else { None };
            files.push(Listed { name: format!("{below}/{name}"), bytes: fs::metadata(&path)?.len(), sum });
        }
    }
    fs::write(root.join(NAME), Manifest { options, files }.text())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn file_sum(path: &Path) -> io::Result<u32> {
    let (mut file, mut sum) = (File::open(path)?, Crc::new());
    let mut block = vec![0; 1 << 18];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(sum.sum()),
            n => sum.update(block.get(..n).unwrap_or_default()),
        }
    }
}

/// A partial that was opened: all but its rows is in memory.
pub struct Partial {
    pub path: PathBuf,
    pub options: Recorded,
    pub state: State,
    pub(super) manifest: Manifest,
}

impl Partial {
    /// What messages call it.
    pub fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

/// Opens a partial and checks every file of it.
///
/// # Errors
/// Something else than a partial, another version, damage.
pub fn open(path: &Path) -> Result<Partial, PartialError> {
    let shown = path.display().to_string();
    let foreign = |found: &str| PartialError::Foreign { path: shown.clone(), found: found.to_string() };
    if !path.exists() {
        return Err(foreign("nothing of this name"));
    }
    if !path.is_dir() {
        return Err(foreign("a file"));
    }
    let manifest = path.join(NAME);
    if !manifest.is_file() {
        let is_result = path.join("summary.json").is_file();
        return Err(foreign(if is_result {
            "results of a run without --partial"
        } else {
            "a folder without partial.json"
        }));
    }
    let io = |source| PartialError::Io { path: manifest.display().to_string(), source };
    let text = fs::read(&manifest).map_err(io)?;
    let manifest = Manifest::parse(&shown, &text)?;
    manifest.files.par_iter().try_for_each(|f| whole(path, f))?;
    let listed: Vec<&Listed> = manifest.below(STATE).collect();
    let stored = listed.par_iter().map(|f| table(path, f)).collect::<Result<Vec<Stored>, _>>()?;
    let state = state(stored).map_err(|flaw| PartialError::Flawed {
        path: shown,
        file: format!("{STATE}/"),
        flaw: Box::new(flaw),
    })?;
    Ok(Partial { path: path.to_path_buf(), options: manifest.options.clone(), state, manifest })
}

/// Whether a file is as it was when the partial was made.
fn whole(root: &Path, file: &Listed) -> Result<(), PartialError> {
    let path = root.join(&file.name);
    let shown = || root.display().to_string();
    let damaged = |expected, found| PartialError::Damaged { path: shown(), file: file.name.clone(), expected, found };
    let found = match fs::metadata(&path) {
        Ok(m) => m.len(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(format!("{} bytes", file.bytes), "no such file".to_string()));
        }
        Err(source) => return Err(PartialError::Io { path: path.display().to_string(), source }),
    };
    if found != file.bytes {
        return Err(damaged(format!("{} bytes", file.bytes), format!("{found} bytes")));
    }
    if let Some(sum) = file.sum {
        let found = file_sum(&path).map_err(|source| PartialError::Io { path: path.display().to_string(), source })?;
        if found != sum {
            return Err(damaged(format!("checksum {sum:08x}"), format!("checksum {found:08x}")));
        }
    }
    Ok(())
}

fn table(root: &Path, file: &Listed) -> Result<Stored, PartialError> {
    let path = root.join(&file.name);
    let bytes = fs::read(&path).map_err(|source| PartialError::Io { path: path.display().to_string(), source })?;
    read(&bytes).map_err(|d| PartialError::Damaged {
        path: root.display().to_string(),
        file: file.name.clone(),
        expected: d.expected,
        found: d.found,
    })
}
