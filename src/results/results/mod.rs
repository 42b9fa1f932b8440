//! What a run leaves: its tables, in memory, in a folder on disk or in a store. Everything behind reducing
//! reads them here: page, comparison, SQL, the server for assistants, and commands that are given results
//! instead of traces.
//!
//! `tables/<name>.parquet` holds a table, `events/rank=N.parquet` the events of a rank, and `summary.json`,
//! which is written last, is the proof that the results are complete. It names the tables without rows, which
//! have no file. Rows are read a few thousand at a time
//! and only with the columns that are needed, so that memory does not depend on the size of the job.

mod columns;
pub(crate) mod constant;
mod error;
mod pages;
pub(crate) mod parquet_file;
pub(crate) mod room;
mod texts;
mod told;
mod verdict;

pub(crate) use columns::{Picked, column, columns};
pub use error::ResultsError;
pub(crate) use texts::RunSummary;
pub(crate) use told::SaidOfRun;
pub use told::{ToldRun, is_told_from};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use hta_analysis::inventory::{self, HealthTable};
use hta_base::health::Severity;
use hta_base::table::column::Column;
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_base::units::MemoryLimit;
use hta_compat::ANSWERS;
use hta_diagnosis::registry::ANALYSES;
use hta_read::discover::has_known_ending;
use hta_read::files::Location;
use parquet_file::{batches, footer};
use room::TableRoom;
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

/// The table that consists of several files.
pub const EVENTS: &str = "events";

/// The file that is written last.
pub const PROOF: &str = "summary.json";

columns! {
    Defect of HealthTable { severity: Text }
}

/// The tables of a run.
#[derive(Debug)]
pub struct Results {
    /// Where they are; of tables in memory, what was analysed.
    folder: Location,
    /// Tables in memory, by name.
    memory: BTreeMap<&'static str, Vec<Batch>>,
    /// Whether a table that is not in memory is looked for in the folder.
    has_files: bool,
    /// Sorted names of the tables, with their files, once someone asked.
    files: OnceLock<Vec<(String, Vec<Location>)>>,
    /// Once someone asked.
    summary: OnceLock<RunSummary>,
    room: TableRoom,
}

/// The declared table with this name, of any analysis, also in the definitions of another tool.
pub(crate) fn declared(name: &str) -> Option<&'static TableSpec> {
    let of_tools = ANSWERS.iter().flat_map(|(_, analysis)| analysis.tables().iter().copied());
    declared_tables().chain(of_tools).find(|spec| spec.name == name)
}

/// The tables of the inventory and of every analysis.
pub(crate) fn declared_tables() -> impl Iterator<Item = &'static TableSpec> {
    inventory::TABLES.iter().copied().chain(ANALYSES.iter().flat_map(|a| a.tables().iter().copied()))
}

impl Results {
    /// Results in a folder of which it is known that it has some.
    pub(crate) fn new(folder: impl Into<Location>) -> Self {
        Self {
            folder: folder.into(),
            memory: BTreeMap::new(),
            has_files: true,
            files: OnceLock::new(),
            summary: OnceLock::new(),
            room: TableRoom::default(),
        }
    }

    /// The same, whose tables are read within a memory limit.
    pub fn within(self, limit: Option<MemoryLimit>) -> Self {
        Self { room: TableRoom::new(limit), ..self }
    }

    /// The same while they are written: some whole tables are in memory, too, and there is no summary yet.
    pub(crate) fn with_kept(self, memory: BTreeMap<&'static str, Vec<Batch>>) -> Self {
        Self { memory, summary: OnceLock::from(RunSummary::default()), ..self }
    }

    /// Tables in memory, of a run on what is at `place`.
    pub fn in_memory(place: impl Into<Location>, tables: impl IntoIterator<Item = Batch>) -> Self {
        let mut memory: BTreeMap<&'static str, Vec<Batch>> = BTreeMap::new();
        for table in tables {
            memory.entry(table.spec.name).or_default().push(table);
        }
        Self { memory, has_files: false, ..Self::new(place) }
    }

    /// The same results with other rows in some tables.
    pub(crate) fn with_tables(self, memory: BTreeMap<&'static str, Vec<Batch>>) -> Self {
        Self { memory, ..self }
    }

    /// The results at a place that may hold traces instead. What cannot be asked is for the reader of traces
    /// to tell.
    pub fn found(place: &Location) -> Option<Self> {
        // A store is not asked for a folder where the name is that of a file, and a server of files lists
        // none.
        let name = place.to_string_lossy();
        let is_asked = !place.is_remote() || !has_known_ending(&name) && !name.starts_with("http");
        // Something else in the place of the proof is refused by whoever reads it.
        let has_proof = || match place.is_remote() {
            true => place.join(PROOF).is_file().unwrap_or(false),
            false => place.join(PROOF).symlink_metadata().is_ok(),
        };
        let is_complete = || Self::is_one(place).unwrap_or(false) && has_proof();
        (is_asked && is_complete()).then(|| Self::new(place))
    }

    /// Whether a folder is a results folder.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub fn is_one(folder: &Location) -> Result<bool, ResultsError> {
        folder.join("tables").is_folder().map_err(|e| ResultsError::io(folder, e))
    }

    /// # Errors
    /// When the folder holds no results, or incomplete ones, or a store cannot be asked.
    pub fn open(folder: impl Into<Location>) -> Result<Self, ResultsError> {
        let folder = folder.into();
        let unread = |e: io::Error| ResultsError::io(&folder, e);
        let found = if !Self::is_one(&folder)? {
            let is_there = folder.is_folder().map_err(unread)? || (!folder.is_remote() && folder.exists());
            if is_there { "no folder `tables` in it" } else { "nothing there" }.to_string()
        } else if !folder.join(PROOF).is_file().map_err(unread)? {
            RunSummary::read(&folder, &TableRoom::default())?;
            format!("no {PROOF} in it")
        } else {
            return Ok(Self::new(folder));
        };
        Err(ResultsError::NoResults { path: folder.display().to_string(), found })
    }

    pub fn folder(&self) -> &Location {
        &self.folder
    }

    /// Sorted names of the tables, with their files.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub(crate) fn files(&self) -> Result<&[(String, Vec<Location>)], ResultsError> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let mut files: Vec<(String, Vec<Location>)> = Vec::new();
        for path in self.listed("tables")? {
            if let Some(name) = path.file_stem().and_then(|n| n.to_str()) {
                files.push((name.to_string(), vec![path.clone()]));
            }
        }
        for name in self.summary()?.empty_tables.keys() {
            if !files.iter().any(|(known, _)| known == name) {
                files.push((name.to_string(), Vec::new()));
            }
        }
        let events = self.listed(EVENTS)?;
        if !events.is_empty() {
            files.push((EVENTS.to_string(), events));
        }
        files.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(self.files.get_or_init(|| files))
    }

    /// # Errors
    /// When something else is in its place.
    pub(crate) fn summary(&self) -> Result<&RunSummary, ResultsError> {
        match self.summary.get() {
            Some(summary) => Ok(summary),
            None => RunSummary::read(&self.folder, &self.room).map(|read| self.summary.get_or_init(|| read)),
        }
    }

    /// The declaration of a table that these results have, and that has no rows and no file.
    ///
    /// # Errors
    /// When the summary, which names them, cannot be read.
    pub(crate) fn empty_table(&self, name: &str) -> Result<Option<&'static TableSpec>, ResultsError> {
        Ok(self.summary()?.empty_tables.get(name).copied())
    }

    /// The Parquet files of a folder of the results, sorted by name.
    fn listed(&self, name: &str) -> Result<Vec<Location>, ResultsError> {
        let folder = self.folder.join(name);
        let names = folder.is_folder().and_then(|is_folder| match is_folder {
            true => folder.names(),
            false if !folder.is_remote() && folder.symlink_metadata().is_ok() => {
                Err(io::Error::other("expected a folder, found something else"))
            }
            false => Ok(Vec::new()),
        });
        let names = names.map_err(|e| ResultsError::io(&folder, e))?;
        Ok(names.iter().filter(|name| name.ends_with(".parquet")).map(|name| folder.join(name)).collect())
    }

    /// Names of the tables, sorted.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn names(&self) -> Result<Vec<String>, ResultsError> {
        Ok(self.files()?.iter().map(|(name, _)| name.clone()).collect())
    }

    /// The schema of a table, with the meanings of its columns, and the number of its rows. `None` if there
    /// is no such table.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn schema(&self, table: &str) -> Result<Option<(SchemaRef, u64)>, ResultsError> {
        let Some((_, files)) = self.files()?.iter().find(|t| t.0 == table) else { return Ok(None) };
        if files.is_empty() {
            return Ok(declared(table).map(|spec| (spec.noted_schema(), 0)));
        }
        let all = files.iter().map(footer).collect::<Result<Vec<_>, _>>()?;
        let rows = all.iter().map(|m| u64::try_from(m.metadata().file_metadata().num_rows()).unwrap_or(0));
        let rows = rows.fold(0u64, u64::saturating_add);
        Ok(all.first().map(|m| (SchemaRef::clone(m.schema()), rows)))
    }

    /// The columns of a table; none if it cannot be read.
    pub fn columns(&self, table: &str) -> Vec<String> {
        let schema = self.schema(table).ok().flatten();
        schema.iter().flat_map(|(s, _)| s.fields().iter().map(|f| f.name().clone())).collect()
    }

    /// The error for a table that is missing.
    pub fn no_table(&self, spec: &'static TableSpec) -> ResultsError {
        ResultsError::NoTable { path: self.folder.display().to_string(), table: spec.name }
    }

    fn table(&self, name: &str) -> Location {
        self.folder.join("tables").join(format!("{name}.parquet"))
    }

    /// Passes all rows of a table in order to `each`, with the declared columns. Returns `false` if there is
    /// no such table.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub(crate) fn read<P: Picked>(&self, mut each: impl FnMut(P::Row<'_>)) -> Result<bool, ResultsError> {
        let path = self.table(P::TABLE);
        self.give(P::TABLE, P::COLUMNS, |batch| {
            P::give(batch, &mut each).map_err(|name| {
                let found =
                    batch.column_by_name(name).map_or("none".to_string(), |c| c.data_type().to_string());
                ResultsError::column(&path, name, found)
            })
        })
    }

    /// Passes a table with some of its columns in batches, from memory or from its file.
    fn give(
        &self,
        table: &str,
        columns: &[&'static str],
        mut give: impl FnMut(&RecordBatch) -> Result<(), ResultsError>,
    ) -> Result<bool, ResultsError> {
        match self.memory.get(table) {
            Some(kept) => kept.iter().try_for_each(|batch| give(&batch.rows())).map(|()| true),
            None if self.has_files => {
                let path = self.table(table);
                let is_there = batches(&path, columns, declared(table), (&self.room, false), give)?;
                Ok(self.empty_table(table)?.is_some() || is_there)
            }
            None => Ok(false),
        }
    }

    /// Whether some input of the run could not be used, as its table `health` says.
    ///
    /// # Errors
    /// When the table is damaged.
    pub fn has_loss(&self) -> Result<bool, ResultsError> {
        let mut has_loss = false;
        let lost = [Severity::Lost, Severity::Fatal].map(Severity::name);
        self.read::<Defect>(|defect| has_loss |= lost.contains(&defect.severity))?;
        Ok(has_loss)
    }

    /// Passes all rows of a table in order to `each`, with columns by their names. Returns `false` if there
    /// is no such table.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub(crate) fn read_columns(
        &self,
        spec: &'static TableSpec,
        names: &[&'static str],
        mut each: impl FnMut(&[Column<'_>], usize),
    ) -> Result<bool, ResultsError> {
        let (path, schema) = (self.table(spec.name), spec.schema());
        self.give(spec.name, names, |batch| {
            let mut columns = Vec::with_capacity(names.len());
            for name in names {
                let array = batch.column_by_name(name);
                let found = array.map_or("none".to_string(), |a| a.data_type().to_string());
                let declared = schema.field_with_name(name).ok();
                let fits = array.filter(|a| declared.is_some_and(|f| f.data_type() == a.data_type()));
                columns.push(
                    fits.and_then(Column::new).ok_or_else(|| ResultsError::column(&path, name, found))?,
                );
            }
            (0..batch.num_rows()).for_each(|row| each(&columns, row));
            Ok(())
        })
    }

    /// A whole table with all of its columns. `None` if there is no such table.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub fn batches(&self, spec: &'static TableSpec) -> Result<Option<Vec<Batch>>, ResultsError> {
        if let Some(kept) = self.memory.get(spec.name) {
            return Ok(Some(kept.clone()));
        }
        if !self.has_files {
            return Ok(None);
        }
        let path = self.table(spec.name);
        let names: Vec<&'static str> = spec.columns.iter().map(|c| c.name).collect();
        let mut out = Vec::new();
        let there = batches(&path, &names, Some(spec), (&self.room, true), |batch| {
            let schema = spec.schema();
            let mut columns = Vec::with_capacity(names.len());
            for (name, field) in names.iter().zip(schema.fields()) {
                let array =
                    batch.column_by_name(name).ok_or_else(|| ResultsError::column(&path, name, "none"))?;
                if array.data_type() != field.data_type() || (!field.is_nullable() && array.null_count() > 0)
                {
                    return Err(ResultsError::column(&path, name, array.data_type()));
                }
                columns.push(ArrayRef::clone(array));
            }
            let rows = RecordBatch::try_new(schema, columns)
                .map_err(|e| ResultsError::damaged(&path, "the columns that `hta explain` declares", e))?;
            out.push(Batch::new(spec, rows));
            Ok(())
        })?;
        Ok((self.empty_table(spec.name)?.is_some() || there).then_some(out))
    }

    /// Passes the events of a rank in order to `each`, some columns of them. Returns `false` if the results
    /// have no events of the rank.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub(crate) fn read_events(
        &self,
        rank: u32,
        columns: &[&'static str],
        mut each: impl FnMut(&RecordBatch),
    ) -> Result<bool, ResultsError> {
        let path = self.folder.join(EVENTS).join(format!("rank={rank:05}.parquet"));
        batches(&path, columns, None, (&self.room, false), |batch| {
            each(batch);
            Ok(())
        })
    }
}
