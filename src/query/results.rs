//! The tables of a results folder, as `hta analyze` leaves it: `tables/<name>.parquet`, `events/rank=N.parquet`.

use super::QueryError;
use super::load::Growing;
use super::nearest::nearest;
use super::statement::Statement;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use polars::prelude::DataFrame;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The table that is several files.
pub const EVENTS: &str = "events";

/// Rows that are decoded at a time.
const AT_ONCE: usize = 1 << 15;

/// A folder of results.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    /// Names of the tables, sorted, and the files of each.
    tables: Vec<(String, Vec<PathBuf>)>,
}

impl Results {
    /// Whether a folder is one of results.
    pub fn is_one(folder: &Path) -> bool {
        folder.join("tables").is_dir()
    }

    /// # Errors
    /// A folder that holds no tables, or that cannot be listed.
    pub fn open(folder: &Path) -> Result<Self, QueryError> {
        if !Self::is_one(folder) {
            let found = if folder.is_dir() { "a folder without" } else { "no folder" };
            return Err(QueryError::NoResults { found: format!("{found} at {}", folder.display()) });
        }
        let mut tables: Vec<(String, Vec<PathBuf>)> = Vec::new();
        for path in listed(&folder.join("tables"))? {
            if let Some(name) = path.file_stem().and_then(|n| n.to_str()) {
                tables.push((name.to_string(), vec![path.clone()]));
            }
        }
        let events = folder.join(EVENTS);
        let files = if events.is_dir() { listed(&events)? } else { Vec::new() };
        if !files.is_empty() {
            tables.push((EVENTS.to_string(), files));
        }
        tables.sort();
        if tables.is_empty() {
            return Err(QueryError::NoResults { found: format!("no table in {}", folder.display()) });
        }
        Ok(Self { folder: folder.to_path_buf(), tables })
    }

    /// Names of the tables that it holds, sorted.
    pub fn names(&self) -> Vec<String> {
        self.tables.iter().map(|t| t.0.clone()).collect()
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn columns(&self, table: &str) -> Result<Vec<String>, QueryError> {
        let schema = self.files(table)?.first().map(|f| metadata(f)).transpose()?.map(|m| SchemaRef::clone(m.schema()));
        Ok(schema.iter().flat_map(|s| s.fields().iter().map(|f| f.name().clone())).collect())
    }

    /// The tables that a statement names, each with the columns that it needs.
    ///
    /// # Errors
    /// A table that is not there, or that cannot be read.
    pub fn load(&self, statement: &Statement) -> Result<Vec<(String, DataFrame)>, QueryError> {
        let one = |name: &String| Ok((name.clone(), self.table(name, statement)?));
        statement.tables.iter().map(one).collect()
    }

    fn files(&self, table: &str) -> Result<&[PathBuf], QueryError> {
        let place = self.folder.display().to_string();
        match self.tables.iter().find(|t| t.0 == table) {
            Some((_, files)) => Ok(files),
            None if table == EVENTS => Err(QueryError::NoEvents { place }),
            None => Err(no_table(table, place, self.names())),
        }
    }

    fn table(&self, name: &str, statement: &Statement) -> Result<DataFrame, QueryError> {
        let mut table: Option<Growing> = None;
        let files = self.files(name)?;
        for file in files {
            let known = metadata(file)?;
            let schema = SchemaRef::clone(known.schema());
            let all: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            let needed = statement.columns(&all);
            let growing = match &mut table {
                Some(t) => t,
                none => {
                    let kinds = schema.fields().iter().filter(|f| needed.contains(&f.name().as_str()));
                    let kinds = kinds.map(|f| (f.name().as_str(), f.data_type()));
                    none.insert(Growing::new(&file.display().to_string(), kinds)?)
                }
            };
            read(file, known, &needed, growing)?;
        }
        // every table that is known has a file
        table.ok_or_else(|| unreadable(&self.folder, "no file"))?.finish()
    }
}

/// That a table is not there, with what is.
pub fn no_table(name: &str, place: String, known: Vec<String>) -> QueryError {
    let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_string);
    QueryError::NoTable { name: name.to_string(), place, known, nearest }
}

fn unreadable(path: &Path, reason: impl ToString) -> QueryError {
    QueryError::Unreadable { path: path.display().to_string(), reason: reason.to_string() }
}

/// The Parquet files of a folder, sorted by name.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, QueryError> {
    let entries = fs::read_dir(folder).map_err(|e| unreadable(folder, e))?;
    let paths = entries.map(|e| e.map(|e| e.path()).map_err(|e| unreadable(folder, e)));
    let mut files = paths.collect::<Result<Vec<_>, _>>()?;
    files.retain(|p| p.extension().is_some_and(|e| e == "parquet"));
    files.sort();
    Ok(files)
}

fn metadata(path: &Path) -> Result<ArrowReaderMetadata, QueryError> {
    let file = File::open(path).map_err(|e| unreadable(path, e))?;
    contained(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|e| unreadable(path, e)))
}

fn read(path: &Path, known: ArrowReaderMetadata, needed: &[&str], into: &mut Growing) -> Result<(), QueryError> {
    let file = File::open(path).map_err(|e| unreadable(path, e))?;
    contained(path, || {
        let mask = ProjectionMask::columns(known.parquet_schema(), needed.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, known).with_projection(mask);
        let reader = builder.with_batch_size(AT_ONCE).build().map_err(|e| unreadable(path, e))?;
        for rows in reader {
            into.push(&rows.map_err(|e| unreadable(path, e))?)?;
        }
        Ok(())
    })
}

/// Parquet decoders are written for files that their writer meant; what they stumble over is damage too.
fn contained<T>(path: &Path, read: impl FnOnce() -> Result<T, QueryError>) -> Result<T, QueryError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(unreadable(path, "the file is damaged")))
}
