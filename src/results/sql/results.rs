//! The tables that a statement reads, from a results folder: within a memory limit, and with the columns that
//! the statement needs.

use crate::results::parquet_file::{footer, no_parquet};
use crate::results::room::TableRoom;
use crate::results::{EVENTS, Results, ResultsError};
use crate::sql::QueryError;
use crate::sql::load::{kind_in_memory, odd};
use crate::sql::nearest::nearest;
use crate::sql::scan::{TableFile, TableScan};
use crate::sql::statement::{Statement, plain};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use hta_base::units::MemoryLimit;
use hta_base::wording::counts::counted;
use hta_read::files::Location;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use polars::prelude::{LazyFrame, ScanArgsAnonymous};
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};

/// The tables that a statement names, with the columns that it may need. Rows are read when it runs.
///
/// # Errors
/// When a table does not exist or cannot be read.
pub fn load(
    results: &Results,
    statement: &Statement,
    limit: Option<MemoryLimit>,
) -> Result<Vec<(String, LazyFrame)>, QueryError> {
    let room = Arc::new(TableRoom::new(limit));
    let table = |name: &String| {
        let source = Arc::new(table(results, name, statement, &room)?);
        let frame = LazyFrame::anonymous_scan(source, ScanArgsAnonymous::default());
        Ok((name.clone(), frame.map_err(|e| QueryError::Sql { reason: plain(&e) })?))
    };
    statement.tables.iter().map(table).collect()
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

fn table(
    results: &Results,
    name: &str,
    statement: &Statement,
    room: &Arc<TableRoom>,
) -> Result<TableScan, QueryError> {
    let files = results.files()?.iter().find(|t| t.0 == name).map_or(&[][..], |(_, files)| files);
    let files: Vec<_> = files.par_iter().map(file).collect();
    let files = files.into_iter().collect::<Result<Vec<_>, _>>()?;
    check_events(results, name, &files)?;
    // A table without rows has no file.
    let (schema, place) = match (files.first(), results.empty_table(name)?) {
        (Some(first), _) => (SchemaRef::clone(first.known.schema()), first.place()),
        (None, Some(spec)) => (spec.schema(), name.to_string()),
        (None, None) => return Err(missing(results, name)),
    };
    let all: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let needed = statement.columns(&all);
    let mut columns = Vec::new();
    for field in schema.fields().iter().filter(|f| needed.contains(&f.name().as_str())) {
        let (name, kind) = (field.name(), field.data_type());
        let kind = kind_in_memory(kind).ok_or_else(|| odd(&place, name, kind))?;
        columns.push((name.clone(), kind));
    }
    let is_only_counted = !statement.names_one_of(&all);
    let room = Arc::clone(room);
    let (codes, with_codes) = (Arc::default(), OnceLock::new());
    let mut table = TableScan { files, columns, is_only_counted, room, codes, with_codes };
    table.narrow()?;
    Ok(table)
}

/// Checks that the events of all ranks are there, of each of which there is a file.
fn check_events(results: &Results, name: &str, files: &[TableFile]) -> Result<(), QueryError> {
    let Some(expected) = results.summary()?.event_count.filter(|_| name == EVENTS && !files.is_empty())
    else {
        return Ok(());
    };
    let rows =
        |file: &TableFile| u64::try_from(file.known.metadata().file_metadata().num_rows()).unwrap_or(0);
    let found = files.iter().map(rows).fold(0, u64::saturating_add);
    if found == expected {
        return Ok(());
    }
    let reason = format!("{found} events in {}", counted(files.len() as u64, "file"));
    let wanted = format!("the {expected} events that summary.json counts");
    Err(ResultsError::damaged(&results.folder().join(EVENTS), &wanted, reason).into())
}

/// A file of a table. Texts without a dictionary are decoded to views into the pages, which Polars takes as
/// they are.
fn file(path: &Location) -> Result<TableFile, QueryError> {
    let known = footer(path)?;
    let is_viewed = |field: &FieldRef| match field.data_type() {
        DataType::Utf8 => true,
        DataType::Dictionary(key, words) => **words == DataType::Utf8 && **key != DataType::Int32,
        _ => false,
    };
    if !known.schema().fields().iter().any(is_viewed) {
        return Ok(TableFile { path: path.clone(), known });
    }
    let viewed = |f: &FieldRef| match is_viewed(f) {
        true => Arc::new(f.as_ref().clone().with_data_type(DataType::Utf8View)),
        false => Arc::clone(f),
    };
    let schema = Schema::new(known.schema().fields().iter().map(viewed).collect::<Vec<_>>());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    let known = ArrowReaderMetadata::try_new(Arc::clone(known.metadata()), options);
    Ok(TableFile { path: path.clone(), known: known.map_err(|e| no_parquet(path, e))? })
}

/// The error for a table that does not exist; lists those that do.
pub(crate) fn no_table(name: &str, place: String, known: Vec<String>) -> QueryError {
    let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_string);
    QueryError::NoTable { name: name.to_string(), place, known, nearest }
}
