//! The tables that a statement reads, from a results folder: within a memory limit, and with the columns that
//! the statement needs.

use crate::results::parquet_file::{contained, footer, no_parquet, opened};
use crate::results::{EVENTS, Results};
use crate::sql::QueryError;
use crate::sql::load::{GrowingFrame, NUMBER_BYTES, TEXT_BYTES, is_text};
use crate::sql::nearest::nearest;
use crate::sql::pages::{Unpacked, unpacked};
use crate::sql::statement::Statement;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use hta_base::units::MemoryLimit;
use hta_read::files::Location;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;
use polars::prelude::DataFrame;
use std::sync::Arc;

/// Rows that are decoded at a time, and become a chunk of a column: those of a row group, as `hta analyze`
/// writes them.
const AT_ONCE: usize = 1 << 20;
/// The same where the pages of a row group are too large to be unpacked together.
const FEW_AT_ONCE: usize = 1 << 15;

/// Part of a memory limit that is reserved for the program, bytes.
const OWN_BYTES: u64 = 64 << 20;

/// Memory for running a statement, as a multiple of its tables.
const TIMES_TABLES: u64 = 2;

/// The tables that a statement names, with the columns that it needs.
///
/// # Errors
/// When a table does not exist, cannot be read, or needs more memory than the limit.
pub fn load(
    results: &Results,
    statement: &Statement,
    limit: Option<MemoryLimit>,
) -> Result<Vec<(String, DataFrame)>, QueryError> {
    let mut room =
        limit.map(|l| MemoryLimit { bytes: l.bytes.saturating_sub(OWN_BYTES) / TIMES_TABLES, ..l });
    let mut tables = Vec::new();
    for name in &statement.tables {
        let (bytes, table) = table(results, name, statement, room).map_err(|e| with_whole(e, limit))?;
        room = room.map(|r| MemoryLimit { bytes: r.bytes.saturating_sub(bytes), ..r });
        tables.push((name.clone(), table));
    }
    Ok(tables)
}

/// The schema of a table and the number of its rows.
///
/// # Errors
/// When the table does not exist or cannot be read.
pub fn schema(results: &Results, table: &str) -> Result<(SchemaRef, u64), QueryError> {
    results.schema(table)?.map_or_else(|| Err(missing(results, table)), Ok)
}

/// The error for a table that results do not have.
fn missing(results: &Results, table: &str) -> QueryError {
    let place = results.folder().display().to_string();
    match table {
        EVENTS => QueryError::NoEvents { place },
        _ => no_table(table, place, results.names().unwrap_or_default()),
    }
}

/// A table, and its size in memory, bytes.
fn table(
    results: &Results,
    name: &str,
    statement: &Statement,
    room: Option<MemoryLimit>,
) -> Result<(u64, DataFrame), QueryError> {
    let mut table: Option<GrowingFrame> = None;
    let files = results.files()?.iter().find(|t| t.0 == name).map_or(&[][..], |(_, files)| files);
    for file in files {
        let known = footer(file)?;
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
    let table = match table {
        Some(table) => table,
        None => {
            let spec = results.empty_table(name).ok_or_else(|| missing(results, name))?;
            let schema = spec.schema();
            let all: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            let needed = statement.columns(&all);
            let kinds = schema.fields().iter().filter(|f| needed.contains(&f.name().as_str()));
            GrowingFrame::new(name, kinds.map(|f| (f.name().as_str(), f.data_type())))?
        }
    };
    Ok((table.bytes(), table.finish()?))
}

/// Replaces the remaining limit in an error by the limit that the user knows.
fn with_whole(error: QueryError, limit: Option<MemoryLimit>) -> QueryError {
    match (error, limit) {
        (QueryError::TooLarge { path, .. }, Some(limit)) => QueryError::TooLarge { path, limit },
        (error, _) => error,
    }
}

/// Number of rows of a file that can be decoded at a time within `room`. The file's own sizes cannot be
/// trusted to be small: a few bytes can stand for a billion rows, or decompress to gigabytes.
fn rows_at_once(
    path: &Location,
    known: &ArrowReaderMetadata,
    needed: &[&str],
    room: MemoryLimit,
) -> Result<usize, QueryError> {
    let too_large = || QueryError::TooLarge { path: path.display().to_string(), limit: room };
    let fields = known.schema().fields().iter().filter(|f| needed.contains(&f.name().as_str()));
    let width: u64 =
        fields.clone().map(|f| if is_text(f.data_type()) { TEXT_BYTES } else { NUMBER_BYTES }).sum();
    let groups = known.metadata().row_groups();
    let rows = groups.iter().fold(0u64, |sum, g| sum.saturating_add(g.num_rows().unsigned_abs()));
    if rows.saturating_mul(width) > room.bytes {
        return Err(too_large());
    }
    let file = opened(path)?;
    let of_group = |group: &RowGroupMetaData| {
        let columns = group.columns().iter().filter(|c| needed.contains(&c.column_descr().name()));
        columns
            .map(|c| {
                let (start, length) = c.byte_range();
                unpacked(&file, start, start.saturating_add(length)).map_err(|e| no_parquet(path, e).into())
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

/// A schema whose texts are decoded to views into the pages, which Polars takes as they are.
fn with_views(schema: &Schema) -> SchemaRef {
    let viewed = |field: &FieldRef| match field.data_type() {
        DataType::Utf8 => true,
        DataType::Dictionary(_, words) => **words == DataType::Utf8,
        _ => false,
    };
    let field = |f: &FieldRef| {
        if viewed(f) {
            Arc::new(f.as_ref().clone().with_data_type(DataType::Utf8View))
        } else {
            Arc::clone(f)
        }
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
    let file = opened(path)?;
    contained(path, || {
        let options = ArrowReaderOptions::new().with_schema(with_views(known.schema()));
        let known = ArrowReaderMetadata::try_new(Arc::clone(known.metadata()), options)
            .map_err(|e| no_parquet(path, e))?;
        let mask = ProjectionMask::columns(known.parquet_schema(), needed.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, known).with_projection(mask);
        let reader = builder.with_batch_size(at_once).build().map_err(|e| no_parquet(path, e))?;
        for rows in reader {
            into.push(&rows.map_err(|e| no_parquet(path, e))?)?;
        }
        Ok(())
    })
}
