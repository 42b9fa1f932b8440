//! The output folder: written beside its place and moved there when complete, so that a killed run
//! leaves no half result.

use super::html::Results;
use super::json::{self, Answers};
use super::parquet::{Groups, Tables, failed};
use super::small::Small;
use super::unfinished::UnfinishedFolder;
use crate::analysis::api::{Analysis, Compat, Output};
use crate::model::rank_trace::RankTrace;
use crate::model::schema::{Batch, TableSpec};
use crate::pipeline::{Outcome, RowSink};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock, RwLockReadGuard};

/// What a result folder may hold; anything else in it is not ours to replace.
const OURS: [&str; 5] = ["report.txt", "report.html", "summary.json", "tables", "events"];

/// A result folder that is being written.
pub struct Folder {
    target: PathBuf,
    work: UnfinishedFolder,
    groups: Groups,
    tables: RwLock<Tables>,
    small: Small,
    answers: Mutex<Answers>,
    /// Whether events are written, and whether with their other arguments.
    events: Option<bool>,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot write to {path}: expected an empty folder or an earlier result, found `{found}` in it")]
    Foreign { path: String, found: String },
    #[error("cannot write to {path}: expected a folder, found a file")]
    IsFile { path: String },
    #[error("cannot write to {path}: {source}")]
    Io { path: String, source: io::Error },
}

impl Folder {
    /// Starts a result that will stand at `target`. `force` replaces whatever is there.
    ///
    /// # Errors
    /// When the target holds other things, or cannot be written.
    pub fn create(target: &Path, events: Option<bool>, force: bool) -> Result<Self, FolderError> {
        Self::create_among(&OURS, Groups::ByWeight, target, events, force)
    }

    /// Starts a folder of which earlier ones may hold other names.
    ///
    /// # Errors
    /// As [`Folder::create`].
    pub fn create_among(
        ours: &[&str],
        groups: Groups,
        target: &Path,
        events: Option<bool>,
        force: bool,
    ) -> Result<Self, FolderError> {
        let path = target.display().to_string();
        let io = |source| FolderError::Io { path: path.clone(), source };
        if target.is_file() {
            return Err(FolderError::IsFile { path });
        }
        if target.is_dir() && !force {
            for entry in fs::read_dir(target).map_err(io)? {
                let found = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
                if !ours.contains(&found.as_str()) {
                    return Err(FolderError::Foreign { path, found });
                }
            }
        }
        let work = UnfinishedFolder::create(target, ours).map_err(io)?;
        if events.is_some() {
            fs::create_dir_all(work.path().join("events")).map_err(io)?;
        }
        let tables = RwLock::new(Tables::create(&work.path().join("tables"), groups).map_err(io)?);
        let answers = Mutex::new(Answers::create_in(work.path()).map_err(io)?);
        Ok(Self { target: target.to_path_buf(), work, groups, tables, small: Small::default(), answers, events })
    }

    /// Makes sure that a table exists.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn declare(&self, spec: &'static TableSpec) -> io::Result<()> {
        self.small.declare(spec);
        self.tables()?.declare(spec)
    }

    /// Appends to a table.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&self, batch: &Batch) -> io::Result<()> {
        self.small.append(batch);
        self.tables()?.append(batch)
    }

    /// Writes `summary.json`, around what the analyses answered.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn summary(&self, outcome: &Outcome) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(self.work.path().join("summary.json"))?);
        let mut answers = self.answers.lock().map_err(|_| failed())?;
        json::summary(&mut out, outcome, |out| answers.copy_to(out))?;
        out.flush()
    }

    /// Writes a text file of the result.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn text(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.work.path().join(name), text)
    }

    fn tables(&self) -> io::Result<RwLockReadGuard<'_, Tables>> {
        self.tables.read().map_err(|_| failed())
    }

    /// What is in it, once it is closed.
    pub fn results(&self) -> Results<'_> {
        Results::being_written(self.work.path(), &self.small)
    }

    /// Where the result is written until it is complete.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    /// Closes the tables, so that their files are whole.
    ///
    /// # Errors
    /// When their last bytes cannot be written.
    pub fn close(&self) -> io::Result<()> {
        self.tables()?.finish()
    }

    /// Closes all files and moves the result to its place.
    ///
    /// # Errors
    /// When the last bytes cannot be written or the folder cannot be moved.
    pub fn finish(self) -> io::Result<()> {
        self.close()?;
        self.work.place(&self.target)
    }
}

impl RowSink for Folder {
    fn rows(&self, rows: Batch) -> io::Result<()> {
        self.append(&rows)
    }

    fn trace(&self, trace: &RankTrace) -> io::Result<()> {
        match self.events {
            Some(rest) => {
                let path = self.work.path().join("events").join(format!("rank={:05}.parquet", trace.rank));
                super::events::write(&path, trace, rest)
            }
            None => Ok(()),
        }
    }

    fn reduced(&self, analysis: &dyn Analysis, output: &mut Output) -> io::Result<()> {
        let tables = std::mem::take(&mut output.tables);
        self.answers.lock().map_err(|_| failed())?.add(analysis.stem(), &tables)?;
        tables.iter().try_for_each(|b| self.append(b))?;
        let compat = [Compat::Hta, Compat::TraceLens].map(|c| analysis.compat_tables(c));
        let tables = self.tables()?;
        tables.end(analysis.tables())?;
        compat.iter().try_for_each(|specs| tables.end(specs))
    }

    fn void(&self) -> io::Result<()> {
        let mut tables = self.tables.write().map_err(|_| failed())?;
        fs::remove_dir_all(self.work.path().join("tables"))?;
        *tables = Tables::create(&self.work.path().join("tables"), self.groups)?;
        self.small.clear();
        if self.events.is_some() {
            fs::remove_dir_all(self.work.path().join("events"))?;
            fs::create_dir_all(self.work.path().join("events"))?;
        }
        Ok(())
    }
}
