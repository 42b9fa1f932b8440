//! The output folder. It is written beside its place and moved there when complete, so a killed run leaves no
//! partial result.

use crate::output::json;
pub use crate::output::place::FolderError;
use crate::output::place::{OutputPlace, UnfinishedFolder};
use crate::output::tables::{FolderTables, RowGrouping, failed};
use crate::results::Results;
use crate::run::{Outcome, RowSink};
use crate::store::Spool;
use hta_analysis::api::{Analysis, Output};
use hta_base::table::schema::{Batch, TableSpec};
use hta_trace::rank_trace::RankTrace;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{RwLock, RwLockReadGuard};

pub struct Folder {
    place: OutputPlace,
    groups: RowGrouping,
    tables: RwLock<FolderTables>,
    /// `None`: no events are written. Otherwise whether they include arguments without a column.
    events: Option<bool>,
    /// Dropped last: removing the folder needs file handles, and the open tables may use all of them.
    work: UnfinishedFolder,
}

impl Folder {
    /// Starts a result for a place.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(place: OutputPlace, events: Option<bool>) -> Result<Self, FolderError> {
        Self::create_by(RowGrouping::ByWeight, place, events)
    }

    /// Starts a result with the given kind of row groups.
    ///
    /// # Errors
    /// As [`Folder::create`].
    pub fn create_by(
        groups: RowGrouping,
        place: OutputPlace,
        events: Option<bool>,
    ) -> Result<Self, FolderError> {
        let io = |error: io::Error| place.io(error);
        let work = place.unfinished().map_err(io)?;
        if events.is_some() {
            fs::create_dir_all(work.path().join("events")).map_err(io)?;
        }
        let tables = RwLock::new(FolderTables::create(&work.path().join("tables"), groups).map_err(io)?);
        Ok(Self { place, groups, tables, events, work })
    }

    /// Adds a table if it does not exist yet.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn declare(&self, spec: &'static TableSpec) -> io::Result<()> {
        self.tables()?.declare(spec)
    }

    /// Appends rows to a table.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&self, batch: &Batch) -> io::Result<()> {
        self.tables()?.append(batch)
    }

    /// Writes `summary.json` and the list of the tables.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn summary(&self, outcome: &Outcome) -> io::Result<()> {
        fs::write(self.work.path().join("tables/README.txt"), self.tables()?.index())?;
        let mut out = BufWriter::new(File::create(self.work.path().join("summary.json"))?);
        serde_json::to_writer_pretty(&mut out, &json::summary(outcome, &self.tables()?.empty()))?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// Writes a text file of the result.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_text(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.work.path().join(name), text)
    }

    fn tables(&self) -> io::Result<RwLockReadGuard<'_, FolderTables>> {
        self.tables.read().map_err(|_| failed())
    }

    /// What is in it, once it is closed. Small tables are not read back from their files.
    pub fn results(&self) -> Results {
        let kept = self.tables().map(|tables| tables.kept()).unwrap_or_default();
        Results::new(self.work.path()).with_kept(kept)
    }

    /// The folder in which the result is written until it is complete.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    /// Closes the tables, so that their files are complete.
    ///
    /// # Errors
    /// When the remaining data cannot be written.
    pub fn close(&self) -> io::Result<()> {
        self.tables()?.finish()
    }

    /// Closes all files and moves the result to its place.
    ///
    /// # Errors
    /// When the remaining data cannot be written or the folder cannot be moved.
    pub fn finish(self) -> Result<(), FolderError> {
        self.close().map_err(|error| self.place.io(error))?;
        let Self { place, work, tables, .. } = self;
        drop(tables);
        place.fill(work)
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
                crate::output::events::write(&path, trace, rest)
            }
            None => Ok(()),
        }
    }

    fn reduced(&self, analysis: &dyn Analysis, output: &mut Output) -> io::Result<()> {
        let tables = std::mem::take(&mut output.tables);
        tables.iter().try_for_each(|b| self.append(b))?;
        self.tables()?.end(analysis.tables())
    }

    /// On the disk of the results, where there is more room than in many folders for temporary files.
    fn spool(&self) -> Spool {
        Spool::into_folder(self.work.path().to_path_buf())
    }

    fn void(&self) -> io::Result<()> {
        let mut tables = self.tables.write().map_err(|_| failed())?;
        fs::remove_dir_all(self.work.path().join("tables"))?;
        *tables = FolderTables::create(&self.work.path().join("tables"), self.groups)?;
        if self.events.is_some() {
            fs::remove_dir_all(self.work.path().join("events"))?;
            fs::create_dir_all(self.work.path().join("events"))?;
        }
        Ok(())
    }
}
