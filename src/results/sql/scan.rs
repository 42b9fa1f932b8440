//! A table of a results folder as a source of Polars, which says when it runs a statement which columns and
//! rows it needs.
//!
//! Row groups are read in parallel, and of each only the columns that the statement needs there. A row group
//! whose statistics exclude all of its rows (`rank = 7` in the file of another rank) is not read at all.

use crate::results::parquet_file::{contained, is_text, no_parquet, opened, rows_at_once, width};
use crate::results::room::TableRoom;
use crate::sql::QueryError;
use crate::sql::codes::{TextCodes, code_name, is_code, stored_name};
use crate::sql::condition::{Condition, Conditions, batch, columns};
use crate::sql::load::{GrowingFrame, size};
use crate::sql::statement::plain;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType as Kind, Schema};
use arrow_select::filter::filter_record_batch;
use hta_read::files::Location;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use polars::prelude::{
    AnonymousScan, AnonymousScanArgs, Column, DataFrame, DataType, IntoLazy, LazyFrame, PolarsError,
    PolarsResult, ScanArgsAnonymous, Schema as PolarsSchema, SchemaRef,
};
use rayon::prelude::*;
use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, OnceLock};

/// Rows that are decoded at a time, and become a chunk of a column: those of a row group, as `hta analyze`
/// writes them.
const AT_ONCE: usize = 1 << 20;
/// The same where the pages of a row group are too large to be unpacked together.
const FEW_AT_ONCE: usize = 1 << 15;

/// A table of a results folder.
#[derive(Clone)]
pub(crate) struct TableScan {
    pub(crate) files: Vec<TableFile>,
    /// The columns that the statement names, with their types in memory.
    pub(crate) columns: Vec<(String, Kind)>,
    /// Whether the statement names no column of the table: then only the number of rows matters, and the one
    /// column that Polars asks for has no values.
    pub(crate) is_only_counted: bool,
    pub(crate) room: Arc<TableRoom>,
    pub(crate) codes: Arc<TextCodes>,
    /// The same table with columns of codes, from when a statement first needs them: one source for all parts
    /// of the statement, so that Polars recognizes equal parts.
    pub(crate) with_codes: OnceLock<Option<LazyFrame>>,
}

/// A file of a table, with what its footer says.
#[derive(Clone)]
pub(crate) struct TableFile {
    pub(crate) path: Location,
    pub(crate) known: ArrowReaderMetadata,
}

/// What Polars asks of a table.
struct ScanRequest {
    conditions: Vec<Condition>,
    /// The columns of the rows that satisfy the conditions, still without any.
    frame: GrowingFrame,
    /// Their names.
    columns: Vec<String>,
    /// How many rows suffice.
    rows: usize,
}

impl TableScan {
    /// Reads the wanted columns of the rows that satisfy all conditions.
    fn read(&self, args: &AnonymousScanArgs) -> Result<DataFrame, QueryError> {
        let conditions = Conditions::new(args.predicate.as_ref());
        let named: Vec<String> = match (&args.with_columns, &args.output_schema) {
            (_, Some(schema)) => schema.iter_names().map(|n| n.to_string()).collect(),
            (Some(names), None) => names.iter().map(|n| n.to_string()).collect(),
            (None, None) => self.columns.iter().map(|c| c.0.clone()).collect(),
        };
        let of_table: BTreeSet<String> = conditions.of_table.iter().flat_map(columns).collect();
        let wanted = named.iter().cloned().chain(of_table.into_iter().filter(|c| !named.contains(c)));
        let rows = if args.predicate.is_some() { usize::MAX } else { args.n_rows.unwrap_or(usize::MAX) };
        let mut frame = self.rows(conditions.of_row, wanted.collect(), rows)?.lazy();
        for condition in conditions.of_table {
            frame = frame.filter(condition);
        }
        let whole = frame.collect().and_then(|f| f.select(named));
        let whole = whole.map_err(|e| QueryError::Sql { reason: plain(&e) })?;
        Ok(args.n_rows.map_or(whole.clone(), |n| whole.head(Some(n))))
    }

    fn rows(
        &self,
        conditions: Vec<Condition>,
        columns: Vec<String>,
        rows: usize,
    ) -> Result<DataFrame, QueryError> {
        let place = self.files.first().map_or(String::new(), TableFile::place);
        let kinds = columns.iter().filter_map(|name| self.columns.iter().find(|c| c.0 == *name));
        let frame =
            GrowingFrame::new(&place, kinds.map(|(name, kind)| (name.as_str(), kind)))?.keeping_unsigned();
        let mut wanted = ScanRequest { conditions, frame, columns: columns.clone(), rows };
        let mut groups = Vec::new();
        let mut before = 0;
        for file in &self.files {
            for (index, group) in file.known.metadata().row_groups().iter().enumerate() {
                if before < rows && group.num_rows() > 0 {
                    groups.push((file, index));
                }
                before = before.saturating_add(usize::try_from(group.num_rows()).unwrap_or(0));
            }
        }
        let read = |&(file, group): &(&TableFile, usize)| self.group(file, group, &wanted);
        // All are read before the first error is told, so that it is always the same one.
        let parts: Vec<_> = groups.par_iter().map(read).collect();
        for arrays in parts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            let coded = columns.iter().zip(arrays).map(|(name, array)| match is_code(name) {
                true => self.codes.codes(&place, &array),
                false => Ok(array),
            });
            wanted.frame.add(coded.collect::<Result<_, _>>()?);
        }
        wanted.frame.finish()
    }

    /// The wanted rows of a row group.
    fn group(
        &self,
        file: &TableFile,
        index: usize,
        wanted: &ScanRequest,
    ) -> Result<Vec<Vec<ArrayRef>>, QueryError> {
        let (place, group) = (file.place(), file.known.metadata().row_group(index));
        let mut open = Vec::new();
        for condition in &wanted.conditions {
            match known(condition, file.known.schema(), group) {
                Some(row) if condition.met(&place, &row)?.value(0) => {}
                Some(_) => return Ok(Vec::new()),
                None => open.push(condition),
            }
        }
        let mut needed: BTreeSet<&str> = wanted.columns.iter().map(|c| stored_name(c)).collect();
        needed.extend(open.iter().flat_map(|c| c.columns()));
        let is_needed = |name: &str| needed.contains(name);
        let values = group.num_rows().unsigned_abs().saturating_mul(width(file.known.schema(), is_needed));
        if self.room.left().is_some_and(|left| values > left) {
            return Err(self.room.exceeded(&file.path).into());
        }
        let most = [AT_ONCE, FEW_AT_ONCE];
        let at_once = rows_at_once(&file.path, &file.known, group, is_needed, &self.room, most)?;
        let mut parts = Vec::new();
        file.decode(index, &needed, at_once, wanted.rows, |rows| {
            let mut met = None;
            for condition in &open {
                let also = condition.met(&place, &rows)?;
                met = Some(met.map_or(also.clone(), |met: BooleanBuffer| &met & &also));
            }
            let rows = match met.map(|met| BooleanArray::new(met, None)) {
                Some(met) => filter_record_batch(&rows, &met).map_err(|e| no_parquet(&file.path, e))?,
                None => rows,
            };
            if rows.num_rows() > 0 {
                let arrays = wanted.frame.converted(&place, &rows)?;
                self.room.take(&file.path, arrays.iter().map(size).fold(0, u64::saturating_add))?;
                parts.push(arrays);
            }
            Ok(())
        })?;
        Ok(parts)
    }

    fn count(&self) -> usize {
        let rows =
            |f: &TableFile| usize::try_from(f.known.metadata().file_metadata().num_rows()).unwrap_or(0);
        self.files.iter().map(rows).fold(0, usize::saturating_add)
    }
}

impl TableScan {
    /// The table with the codes of its columns of texts, if this column has codes: a dictionary in all files.
    pub(crate) fn with_codes(&self, column: &str) -> Option<LazyFrame> {
        let is_coded = |(name, kind): &&(String, Kind)| {
            let field = |file: &TableFile| file.known.schema().field_with_name(name).cloned();
            let covered = |file| field(file).is_ok_and(|f| TextCodes::cover(f.data_type()));
            is_text(kind) && self.files.iter().all(covered)
        };
        let make = || {
            let mut table = self.clone();
            let texts = self.columns.iter().filter(is_coded);
            table.columns.extend(texts.map(|(name, _)| (code_name(name), Kind::UInt32)));
            LazyFrame::anonymous_scan(Arc::new(table), ScanArgsAnonymous::default()).ok()
        };
        self.columns.iter().filter(is_coded).find(|(name, _)| name == column)?;
        self.with_codes.get_or_init(make).clone()
    }
}

impl TableFile {
    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// Decodes at most `most` rows of a row group.
    fn decode(
        &self,
        group: usize,
        columns: &BTreeSet<&str>,
        at_once: usize,
        most: usize,
        mut give: impl FnMut(RecordBatch) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let file = opened(&self.path)?;
        let damaged = |e: &dyn std::fmt::Display| QueryError::from(no_parquet(&self.path, e));
        let mut reader = contained(&self.path, || {
            let mask = ProjectionMask::columns(self.known.parquet_schema(), columns.iter().copied());
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.known.clone())
                .with_row_groups(vec![group])
                .with_projection(mask)
                .with_batch_size(at_once)
                .with_limit(most)
                .build()
                .map_err(|e| damaged(&e))
        })?;
        let mut next = || contained(&self.path, || reader.next().transpose().map_err(|e| damaged(&e)));
        while let Some(rows) = next()? {
            give(rows)?;
        }
        Ok(())
    }
}

/// The one value of each column of a condition, as a row, if the statistics of the row group say that its
/// rows have no other.
fn known(condition: &Condition, schema: &Schema, group: &RowGroupMetaData) -> Option<RecordBatch> {
    let value = |name: &str| {
        let field = schema.field_with_name(name).ok()?;
        let column = group.columns().iter().find(|c| c.column_descr().name() == name)?;
        Some((
            field.name().as_str(),
            only_value(field.data_type(), column.statistics()?, column.num_values())?,
        ))
    };
    batch(condition.columns().map(value).collect::<Option<_>>()?).ok()
}

/// The value of a column that has only one.
fn only_value(kind: &Kind, statistics: &Statistics, values: i64) -> Option<ArrayRef> {
    let nulls = statistics.null_count_opt()?;
    if i64::try_from(nulls).ok()? == values {
        return Some(new_null_array(kind, 1));
    }
    let (least, most) = match statistics {
        Statistics::Int32(s) => (i64::from(*s.min_opt()?), i64::from(*s.max_opt()?)),
        Statistics::Int64(s) => (*s.min_opt()?, *s.max_opt()?),
        _ => return None,
    };
    let one = |array| Some(array).filter(|_| nulls == 0 && least == most);
    match kind {
        Kind::Int32 => one(number::<Int32Type>(least as i32)),
        Kind::UInt32 => one(number::<UInt32Type>(least as u32)),
        Kind::Int64 => one(number::<Int64Type>(least)),
        Kind::UInt64 => one(number::<UInt64Type>(least as u64)),
        _ => None,
    }
}

fn number<T: ArrowPrimitiveType>(value: T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(value, 1))
}

impl AnonymousScan for TableScan {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn scan(&self, args: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        if let ([(name, kind)], true, None) = (self.columns.as_slice(), self.is_only_counted, &args.predicate)
        {
            let rows = args.n_rows.map_or(self.count(), |n| n.min(self.count()));
            let column = Column::full_null(name.as_str().into(), rows, &polars_kind(kind));
            return DataFrame::new(rows, vec![column]);
        }
        self.read(&args).map_err(|e| PolarsError::from(io::Error::other(e)))
    }

    fn schema(&self, _: Option<usize>) -> PolarsResult<SchemaRef> {
        let fields = self.columns.iter().map(|(name, kind)| (name.as_str().into(), polars_kind(kind)));
        Ok(Arc::new(PolarsSchema::from_iter(fields)))
    }

    fn allows_predicate_pushdown(&self) -> bool {
        true
    }

    fn allows_projection_pushdown(&self) -> bool {
        true
    }
}

fn polars_kind(kind: &Kind) -> DataType {
    match kind {
        Kind::Int64 => DataType::Int64,
        Kind::UInt64 => DataType::UInt64,
        Kind::Float64 => DataType::Float64,
        Kind::Boolean => DataType::Boolean,
        Kind::UInt32 => DataType::UInt32,
        _ => DataType::String,
    }
}

/// Whether all values of an unsigned column are below 2^63, as the statistics of all row groups say; `None`
/// if one has none.
fn fits_signed(file: &TableFile, name: &str) -> Option<bool> {
    let mut fits = true;
    for group in file.known.metadata().row_groups().iter().filter(|g| g.num_rows() > 0) {
        let column = group.columns().iter().find(|c| c.column_descr().name() == name)?;
        let Statistics::Int64(numbers) = column.statistics()? else { return None };
        let is_empty = i64::try_from(numbers.null_count_opt()?).ok()? == column.num_values();
        if !is_empty {
            // The bits of an unsigned number: those from 2^63 on look negative.
            fits &= *numbers.min_opt()? >= 0 && *numbers.max_opt()? >= 0;
        }
    }
    Some(fits)
}

impl TableScan {
    /// Makes unsigned columns signed whose values are all below 2^63, so that `a - b` can be negative.
    ///
    /// # Errors
    /// When a column without statistics cannot be read.
    pub(crate) fn narrow(&mut self) -> Result<(), QueryError> {
        for at in 0..self.columns.len() {
            let (name, kind) = &self.columns[at];
            if *kind != Kind::UInt64 {
                continue;
            }
            let known: Option<Vec<bool>> = self.files.iter().map(|file| fits_signed(file, name)).collect();
            let fits = match known {
                Some(fits) => fits.into_iter().all(|fits| fits),
                None => self.reads_signed(name)?,
            };
            if fits {
                self.columns[at].1 = Kind::Int64;
            }
        }
        Ok(())
    }

    /// Whether all values of an unsigned column are below 2^63, by reading it.
    fn reads_signed(&self, name: &str) -> Result<bool, QueryError> {
        let frame = self.rows(Vec::new(), vec![name.to_string()], usize::MAX)?;
        let column = frame.column(name).and_then(|c| c.u64().cloned());
        let numbers = column.map_err(|e| QueryError::Sql { reason: plain(&e) })?;
        Ok(numbers.iter().flatten().all(|n| i64::try_from(n).is_ok()))
    }
}
