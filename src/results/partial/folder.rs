//! The folder of a partial: writing the files beside the row tables and events, and opening it again.

use crate::output::folder::Folder;
use crate::output::place::{Layout, is_events_file, is_table_file};
use crate::partial::error::PartialError;
use crate::partial::manifest::{ListedFile, Manifest, NAME, checksum};
use crate::partial::options::RecordedOptions;
use crate::partial::state::{PartialState, read, spec_of, state, write_state};
use crate::run::MappedSet;
use crate::store::{PartialStore, StateTable, bytes};
use flate2::Crc;
use hta_read::files::Location;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The files of a partial's folder.
pub const LAYOUT: Layout = Layout {
    files: &[NAME],
    folders: &[(STATE, is_state_file), (TABLES, is_table_file), (EVENTS, is_events_file)],
    proof: NAME,
    is_proven: |path| text_of(path).is_ok_and(|text| Manifest::is_one(&text)),
};
const STATE: &str = "state";
pub(super) const TABLES: &str = "tables";
pub(super) const EVENTS: &str = "events";

/// Completes a partial whose rows are already in `folder`. The caller must then finish the folder.
///
/// # Errors
/// When a file cannot be read or written.
pub fn leave(folder: &Folder, set: &MappedSet, options: RecordedOptions) -> io::Result<()> {
    folder.close()?;
    let root = folder.work();
    fs::create_dir_all(root.join(STATE))?;
    let mut files = Vec::new();
    write_state(set, &mut |of, spec, rows| {
        let bytes = bytes(of, spec, rows).map_err(io::Error::other)?;
        let name = format!("{STATE}/{of}.{}.parquet", spec.name);
        fs::write(root.join(&name), &bytes)?;
        files.push(ListedFile { name, bytes: bytes.len() as u64, sum: checksum(&bytes) });
        Ok(())
    })?;
    for below in [TABLES, EVENTS] {
        for path in entries(&root.join(below))? {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let (bytes, sum) = (fs::metadata(&path)?.len(), file_sum(&path.into())?);
            files.push(ListedFile { name: format!("{below}/{name}"), bytes, sum });
        }
    }
    fs::write(root.join(NAME), Manifest { options, files }.text())
}

/// Whether a name is that of a state file, such as `steps.steps.parquet`: owner and table.
fn is_state_file(name: &str) -> bool {
    let parts = name.strip_suffix(".parquet").and_then(|n| n.split_once('.'));
    parts.is_some_and(|(of, table)| spec_of(of, table).is_some())
}

/// Maximum length of `partial.json`, bytes. That of a million ranks is shorter.
const LONGEST_MANIFEST: u64 = 1 << 28;

/// The text of a `partial.json`.
fn text_of(file: &Location) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.open()?.take(LONGEST_MANIFEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST_MANIFEST {
        return Err(io::Error::other(format!("expected at most {LONGEST_MANIFEST} bytes, found more")));
    }
    Ok(text)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn file_sum(file: &Location) -> io::Result<u32> {
    let (mut file, mut sum) = (file.open()?, Crc::new());
    let mut block = vec![0; 1 << 18];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(sum.sum()),
            n => sum.update(block.get(..n).unwrap_or_default()),
        }
    }
}

/// A partial that was opened. The results of its ranks are in a store; its row tables and events are still in
/// its folder.
pub struct PartialFolder {
    pub(crate) path: Location,
    pub(crate) options: RecordedOptions,
    pub(crate) state: PartialState,
    pub(super) manifest: Manifest,
}

impl PartialFolder {
    /// The name of the partial in messages.
    pub fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

/// Opens a partial, checks all its files, and moves the results of its ranks to `store`.
///
/// # Errors
/// When the folder is not a partial, has another version or is damaged, or when it cannot be read or the
/// results cannot be spooled.
pub fn open(path: &Location, store: &PartialStore) -> Result<PartialFolder, PartialError> {
    let shown = path.display().to_string();
    let foreign = |found: &str| PartialError::Foreign { path: shown.clone(), found: found.to_string() };
    let manifest = path.join(NAME);
    let named = manifest.display().to_string();
    let io = |source| PartialError::Io { path: named.clone(), source };
    if !path.is_folder().map_err(io)? {
        return Err(foreign(if path.exists() { "a file" } else { "nothing of this name" }));
    }
    // Refuse links, which could point anywhere, and pipes, on which reading would block.
    if !path.is_remote() && !fs::symlink_metadata(&manifest).is_ok_and(|m| m.is_file())
        || !manifest.is_file().map_err(io)?
    {
        let is_result = path.join("summary.json").is_file().map_err(io)?;
        return Err(foreign(if is_result {
            "results of a run without --partial"
        } else {
            "a folder without partial.json"
        }));
    }
    let manifest = Manifest::parse(&shown, &text_of(&manifest).map_err(io)?)?;
    for (folder, _) in LAYOUT.folders.iter().filter(|_| !path.is_remote()) {
        match fs::symlink_metadata(path.join(folder)) {
            Ok(m) if m.is_dir() => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            _ => return Err(damaged(&shown, folder, "a folder", "a link or a file")),
        }
    }
    manifest.files.par_iter().try_for_each(|f| whole(path, f))?;
    let listed: Vec<&ListedFile> = manifest.below(STATE).collect();
    let stored = listed.par_iter().map(|f| table(path, f)).collect::<Result<Vec<_>, _>>()?;
    let mut state = state(stored).map_err(|flaw| PartialError::Flawed {
        path: shown.clone(),
        file: format!("{STATE}/"),
        flaw: Box::new(flaw),
    })?;
    own_events(&shown, &manifest, &state)?;
    let spooled = state.move_into(store);
    spooled.map_err(|source| PartialError::Write { path: "what the ranks left".to_string(), source })?;
    Ok(PartialFolder { path: path.clone(), options: manifest.options.clone(), state, manifest })
}

fn damaged(path: &str, file: &str, expected: impl ToString, found: impl ToString) -> PartialError {
    let (path, file) = (path.to_string(), file.to_string());
    PartialError::Damaged { path, file, expected: expected.to_string(), found: found.to_string() }
}

/// Checks that there are only events files of this partial's ranks, each once. Merging puts the files of all
/// partials into one folder, where any other name could collide with the file of another partial.
fn own_events(shown: &str, manifest: &Manifest, state: &PartialState) -> Result<(), PartialError> {
    let ranks: BTreeSet<String> =
        state.ranks.iter().map(|d| format!("{EVENTS}/rank={:05}.parquet", d.rank)).collect();
    let mut seen = BTreeSet::new();
    for file in manifest.below(EVENTS) {
        if !ranks.contains(&file.name) {
            return Err(damaged(
                shown,
                &file.name,
                "events of a rank of this partial",
                "those of another one",
            ));
        }
        if !seen.insert(&file.name) {
            return Err(damaged(shown, &file.name, "events of a rank once", "them twice"));
        }
    }
    Ok(())
}

/// Checks that a file is unchanged since the partial was made.
fn whole(root: &Location, file: &ListedFile) -> Result<(), PartialError> {
    let path = root.join(&file.name);
    let shown = || root.display().to_string();
    let damaged =
        |expected, found| PartialError::Damaged { path: shown(), file: file.name.clone(), expected, found };
    // Refuse links, which could point anywhere, and pipes, on which reading would block.
    if !path.is_remote() && fs::symlink_metadata(&path).is_ok_and(|m| !m.is_file()) {
        return Err(damaged("a file".to_string(), "a link, folder, pipe or device".to_string()));
    }
    let found = match path.size() {
        Ok(size) => size,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(format!("{} bytes", file.bytes), "no such file".to_string()));
        }
        Err(source) => return Err(PartialError::Io { path: path.display().to_string(), source }),
    };
    if found != file.bytes {
        return Err(damaged(format!("{} bytes", file.bytes), format!("{found} bytes")));
    }
    let (sum, found) = (file.sum, file_sum(&path));
    let found = found.map_err(|source| PartialError::Io { path: path.display().to_string(), source })?;
    if found != sum {
        return Err(damaged(format!("checksum {sum:08x}"), format!("checksum {found:08x}")));
    }
    Ok(())
}

fn table(root: &Location, file: &ListedFile) -> Result<StateTable, PartialError> {
    let path = root.join(&file.name);
    let mut bytes = Vec::new();
    let whole = path.open().and_then(|mut file| file.read_to_end(&mut bytes));
    whole.map_err(|source| PartialError::Io { path: path.display().to_string(), source })?;
    read(&bytes).map_err(|d| PartialError::Damaged {
        path: root.display().to_string(),
        file: file.name.clone(),
        expected: d.expected,
        found: d.found,
    })
}
