//! Tables of a results folder as `hta analyze` writes it: `tables/<name>.parquet`, `events/rank=N.parquet`.

use crate::sql::QueryError;
use crate::sql::load::{GrowingFrame, NUMBER_BYTES, TEXT_BYTES, is_text};
use crate::sql::nearest::nearest;
use crate::sql::pages::{Unpacked, unpacked};
use crate::sql::statement::Statement;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use hta_base::units::MemoryLimit;
use hta_read::files::{Fault, Location, Stored};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;
use polars::prelude::DataFrame;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// The table that consists of several files.
pub(crate) const EVENTS: &str = "events";

/// The file that is written last.
const PROOF: &str = "summary.json";

/// Rows that are decoded at a time, and become a chunk of a column: those of a row group, as `hta analyze` writes them.
const AT_ONCE: usize = 1 << 20;
/// The same where the pages of a row group are too large to be unpacked together.
const FEW_AT_ONCE: usize = 1 << 15;

/// Part of a memory limit that is reserved for the program, bytes.
const OWN_BYTES: u64 = 64 << 20;

/// Memory for running a statement, as a multiple of its tables.
const TIMES_TABLES: u64 = 2;

#[derive(Debug)]
pub struct ResultTables {
    folder: Location,
    /// Sorted names of the tables, with their files.
    tables: Vec<(String, Vec<Location>)>,
}

impl ResultTables {
    /// Whether a folder is a results folder.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub fn is_one(folder: &Location) -> Result<bool, QueryError> {
        folder.join("tables").is_folder().map_err(|e| unread(folder, e))
    }

    /// # Errors
    /// When the folder holds no tables or cannot be listed.
    pub fn open(folder: impl Into<Location>) -> Result<Self, QueryError> {
        let folder = folder.into();
        if !Self::is_one(&folder)? {
            let is_folder = folder.is_folder().map_err(|e| unread(&folder, e))?;
            let found = if is_folder { "a folder without" } else { "no folder" };
            return Err(QueryError::NoResults { found: format!("{found} at {}", folder.display()) });
        }
        // In a store, a folder without the file that is written last is one that is being written, or was given up.
        if folder.is_remote() && !folder.join(PROOF).is_file().map_err(|e| unread(&folder, e))? {
            return Err(unreadable(&folder, format!("expected complete results, found no {PROOF}")));
        }
        let mut tables: Vec<(String, Vec<Location>)> = Vec::new();
        for path in listed(&folder.join("tables"))? {
            if let Some(name) = path.file_stem().and_then(|n| n.to_str()) {
                tables.push((name.to_string(), vec![path.clone()]));
            }
        }
        let events = folder.join(EVENTS);
        let has_events = events.is_folder().map_err(|e| unread(&events, e))?;
        let files = if has_events { listed(&events)? } else { Vec::new() };
        if !files.is_empty() {
            tables.push((EVENTS.to_string(), files));
        }
        tables.sort_by(|a, b| a.0.cmp(&b.0));
        if tables.is_empty() {
            return Err(QueryError::NoResults { found: format!("no table in {}", folder.display()) });
        }
        Ok(Self { folder, tables })
    }

    pub fn names(&self) -> Vec<String> {
        self.tables.iter().map(|t| t.0.clone()).collect()
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn columns(&self, table: &str) -> Result<Vec<String>, QueryError> {
        let schema = self.files(table)?.first().map(metadata).transpose()?.map(|m| SchemaRef::clone(m.schema()));
        Ok(schema.iter().flat_map(|s| s.fields().iter().map(|f| f.name().clone())).collect())
    }

    /// The schema of a table, with the meanings of its columns, and the number of its rows.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn schema(&self, table: &str) -> Result<(SchemaRef, u64), QueryError> {
        let files = self.files(table)?;
        let all = files.iter().map(metadata).collect::<Result<Vec<_>, _>>()?;
        let rows = all.iter().map(|m| u64::try_from(m.metadata().file_metadata().num_rows()).unwrap_or(0));
        let rows = rows.fold(0u64, u64::saturating_add);
        // Every known table has a file.
        let schema = all.first().map(|m| SchemaRef::clone(m.schema()));
        Ok((schema.ok_or_else(|| unreadable(&self.folder, "no file"))?, rows))
    }

    /// The tables that a statement names, with the columns that it needs.
    ///
    /// # Errors
    /// When a table does not exist or cannot be read.
    pub fn load(&self, statement: &Statement) -> Result<Vec<(String, DataFrame)>, QueryError> {
        self.load_within(statement, None)
    }

    /// Like [`ResultTables::load`], within a memory limit.
    ///
    /// # Errors
    /// When the tables need more memory.
    pub fn load_within(
        &self,
        statement: &Statement,
        limit: Option<MemoryLimit>,
    ) -> Result<Vec<(String, DataFrame)>, QueryError> {
        let mut room = limit.map(|l| MemoryLimit { bytes: l.bytes.saturating_sub(OWN_BYTES) / TIMES_TABLES, ..l });
        let mut tables = Vec::new();
        for name in &statement.tables {
            let (bytes, table) = self.table(name, statement, room).map_err(|e| with_whole(e, limit))?;
            room = room.map(|r| MemoryLimit { bytes: r.bytes.saturating_sub(bytes), ..r });
            tables.push((name.clone(), table));
        }
        Ok(tables)
    }

    fn files(&self, table: &str) -> Result<&[Location], QueryError> {
        let place = self.folder.display().to_string();
        match self.tables.iter().find(|t| t.0 == table) {
            Some((_, files)) => Ok(files),
            None if table == EVENTS => Err(QueryError::NoEvents { place }),
            None => Err(no_table(table, place, self.names())),
        }
    }

    /// A table, and its size in memory, bytes.
    fn table(
        &self,
        name: &str,
        statement: &Statement,
        room: Option<MemoryLimit>,
    ) -> Result<(u64, DataFrame), QueryError> {
        let mut table: Option<GrowingFrame> = None;
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
                    none.insert(GrowingFrame::new(&file.display().to_string(), kinds)?.within(room))
                }
            };
            let at_once = match room {
                Some(room) => {
                    let left = MemoryLimit { bytes: room.bytes.saturating_sub(growing.bytes()), ..room };
                    rows_at_once(file, &known, &needed, left)?
                }
                None => AT_ONCE,
            };
            read(file, known, &needed, at_once, growing)?;
        }
        // Every known table has a file.
        let table = table.ok_or_else(|| unreadable(&self.folder, "no file"))?;
        Ok((table.bytes(), table.finish()?))
    }
}

/// Replaces the remaining limit in an error by the limit that the user knows.
fn with_whole(error: QueryError, limit: Option<MemoryLimit>) -> QueryError {
    match (error, limit) {
        (QueryError::TooLarge { path, .. }, Some(limit)) => QueryError::TooLarge { path, limit },
        (error, _) => error,
    }
}

/// Number of rows of a file that can be decoded at a time within `room`. The file's own sizes cannot be trusted to be
/// small: a few bytes can stand for a billion rows, or decompress to gigabytes.
fn rows_at_once(
    path: &Location,
    known: &ArrowReaderMetadata,
    needed: &[&str],
    room: MemoryLimit,
) -> Result<usize, QueryError> {
    let too_large = || QueryError::TooLarge { path: path.display().to_string(), limit: room };
    let fields = known.schema().fields().iter().filter(|f| needed.contains(&f.name().as_str()));
    let width: u64 = fields.clone().map(|f| if is_text(f.data_type()) { TEXT_BYTES } else { NUMBER_BYTES }).sum();
    let groups = known.metadata().row_groups();
    let rows = groups.iter().fold(0u64, |sum, g| sum.saturating_add(g.num_rows().unsigned_abs()));
    if rows.saturating_mul(width) > room.bytes {
        return Err(too_large());
    }
    let file = Stored::open(path).map_err(|e| unread(path, e))?;
    let of_group = |group: &RowGroupMetaData| {
        let columns = group.columns().iter().filter(|c| needed.contains(&c.column_descr().name()));
        columns
            .map(|c| {
                let (start, length) = c.byte_range();
                unpacked(&file, start, start.saturating_add(length)).map_err(|e| unreadable(path, e))
            })
            .try_fold(Unpacked::default(), |sum, pages| pages.map(|pages| sum.and(pages)))
    };
    // all columns of a group are unpacked side by side
    let most = |most: Unpacked, group: Result<Unpacked, QueryError>| group.map(|group| most.or(group));
    let pages = contained(path, || groups.iter().map(of_group).try_fold(Unpacked::default(), most))?;
    if pages.largest.saturating_mul(TIMES_TABLES) > room.bytes {
        return Err(too_large());
    }
    let at_once = if pages.all.saturating_mul(TIMES_TABLES) > room.bytes { FEW_AT_ONCE } else { AT_ONCE };
    // a text that each row repeats is as long as a page at most
    let is_plain = fields.clone().any(|f| *f.data_type() == DataType::Utf8);
    let rows = if is_plain { room.bytes / pages.largest.max(1) } else { at_once as u64 };
    Ok(usize::try_from(rows).unwrap_or(at_once).clamp(1, at_once))
}

/// The error for a table that does not exist; lists those that do.
pub(crate) fn no_table(name: &str, place: String, known: Vec<String>) -> QueryError {
    let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_string);
    QueryError::NoTable { name: name.to_string(), place, known, nearest }
}

fn unreadable(path: &Path, reason: impl ToString) -> QueryError {
    QueryError::Unreadable { path: path.display().to_string(), reason: reason.to_string() }
}

/// The error of a file or store, with its advice.
fn unread(path: &Path, error: io::Error) -> QueryError {
    match Fault::of(&error) {
        Some(fault) => QueryError::Store { path: path.display().to_string(), fault: fault.clone() },
        None => unreadable(path, error),
    }
}

/// The Parquet files of a folder, sorted by name.
fn listed(folder: &Location) -> Result<Vec<Location>, QueryError> {
    let names = folder.names().map_err(|e| unread(folder, e))?;
    Ok(names.iter().filter(|name| name.ends_with(".parquet")).map(|name| folder.join(name)).collect())
}

fn metadata(path: &Location) -> Result<ArrowReaderMetadata, QueryError> {
    let file = Stored::open(path).map_err(|e| unread(path, e))?;
    contained(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|e| unreadable(path, e)))
}

/// A schema whose texts are decoded to views into the pages, which Polars takes as they are.
fn with_views(schema: &Schema) -> SchemaRef {
    let viewed = |field: &FieldRef| match field.data_type() {
        DataType::Utf8 => true,
        DataType::Dictionary(_, words) => **words == DataType::Utf8,
        _ => false,
    };
    let field = |f: &FieldRef| {
        if viewed(f) { Arc::new(f.as_ref().clone().with_data_type(DataType::Utf8View)) } else { Arc::clone(f) }
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

fn read(
    path: &Location,
    known: ArrowReaderMetadata,
    needed: &[&str],
    at_once: usize,
    into: &mut GrowingFrame,
) -> Result<(), QueryError> {
    let file = Stored::open(path).map_err(|e| unread(path, e))?;
    contained(path, || {
        let options = ArrowReaderOptions::new().with_schema(with_views(known.schema()));
        let known =
            ArrowReaderMetadata::try_new(Arc::clone(known.metadata()), options).map_err(|e| unreadable(path, e))?;
        let mask = ProjectionMask::columns(known.parquet_schema(), needed.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, known).with_projection(mask);
        let reader = builder.with_batch_size(at_once).build().map_err(|e| unreadable(path, e))?;
        for rows in reader {
            into.push(&rows.map_err(|e| unreadable(path, e))?)?;
        }
        Ok(())
    })
}

/// Runs a Parquet decoder and reports its panics as damage: decoders do not expect malicious files.
fn contained<T>(path: &Path, read: impl FnOnce() -> Result<T, QueryError>) -> Result<T, QueryError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(unreadable(path, "the file is damaged")))
}
