//! Reads the tables of a results folder: only the needed columns, a few thousand rows at a time, so that memory does
//! not depend on the size of the job.

use arrow_array::{Array, ArrayRef, RecordBatch};
use hta_base::table::schema::{Batch, ColumnType, TableSpec};
use hta_base::table::typed::Values;
use hta_read::files::{Location, Stored};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Number of rows decoded at a time.
const AT_ONCE: usize = 1 << 13;

#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error("cannot read {path}: expected {expected}, found {found}")]
    Damaged { path: String, expected: String, found: String },
    /// A column is missing or of another type: the table is of another version, or damaged.
    #[error("cannot read {path}: expected a column `{column}` as `hta explain` declares it, found {found}")]
    Column { path: String, column: String, found: String },
    #[error("cannot read {path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
}

impl ResultsError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ResultsError::Damaged { .. } | ResultsError::Column { .. } | ResultsError::Io { .. } => {
                Some("give a folder that `hta analyze` or `hta merge` has left, or run it again")
            }
            ResultsError::Write { .. } => None,
        }
    }
}

/// A results folder.
pub struct Results {
    folder: Location,
}

impl Results {
    pub fn new(folder: impl Into<Location>) -> Self {
        Self { folder: folder.into() }
    }

    pub(crate) fn folder(&self) -> &Location {
        &self.folder
    }

    /// Passes all rows of a table in order to `each`, with the declared columns. Returns `false` if there is no such
    /// table.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub fn read<P: Picked>(&self, mut each: impl FnMut(P::Row<'_>)) -> Result<bool, ResultsError> {
        let path = self.folder.join("tables").join(format!("{}.parquet", P::TABLE));
        batches(&path, P::COLUMNS, |batch| {
            P::give(batch, &mut each).map_err(|name| {
                let found = batch.column_by_name(name).map_or("none".to_string(), |c| c.data_type().to_string());
                no_column(&path, name, found)
            })
        })
    }

    /// A whole table with all of its columns. `None` if there is no such table.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub(crate) fn batches(&self, spec: &'static TableSpec) -> Result<Option<Vec<Batch>>, ResultsError> {
        let path = self.folder.join("tables").join(format!("{}.parquet", spec.name));
        let names: Vec<&'static str> = spec.columns.iter().map(|c| c.name).collect();
        let mut out = Vec::new();
        let there = batches(&path, &names, |batch| {
            let schema = spec.schema();
            let mut columns = Vec::with_capacity(names.len());
            for (name, field) in names.iter().zip(schema.fields()) {
                let array = batch.column_by_name(name).ok_or_else(|| no_column(&path, name, "none".to_string()))?;
                if array.data_type() != field.data_type() || (!field.is_nullable() && array.null_count() > 0) {
                    return Err(no_column(&path, name, array.data_type().to_string()));
                }
                columns.push(ArrayRef::clone(array));
            }
            let rows = RecordBatch::try_new(schema, columns)
                .map_err(|e| damaged(&path, "the columns that `hta explain` declares", e.to_string()))?;
            out.push(Batch { spec, rows });
            Ok(())
        })?;
        Ok(there.then_some(out))
    }

    /// Passes the events of a rank in order to `each`, some columns of them. Returns `false` if the results have no
    /// events of the rank.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub(crate) fn read_events(
        &self,
        rank: u32,
        columns: &[&'static str],
        mut each: impl FnMut(&RecordBatch),
    ) -> Result<bool, ResultsError> {
        let path = self.folder.join("events").join(format!("rank={rank:05}.parquet"));
        batches(&path, columns, |batch| {
            each(batch);
            Ok(())
        })
    }
}

fn no_column(path: &Path, name: &str, found: String) -> ResultsError {
    ResultsError::Column { path: path.display().to_string(), column: name.to_string(), found }
}

fn damaged(path: &Path, expected: &str, found: String) -> ResultsError {
    ResultsError::Damaged { path: path.display().to_string(), expected: expected.to_string(), found }
}

/// Passes a file's rows in batches to `give`, with these columns. Returns `false` if there is no such file.
fn batches(
    path: &Location,
    columns: &[&'static str],
    mut give: impl FnMut(&RecordBatch) -> Result<(), ResultsError>,
) -> Result<bool, ResultsError> {
    let file = match Stored::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(ResultsError::Io { path: path.display().to_string(), source }),
    };
    let no_parquet = |e: String| damaged(path, "a Parquet file", e);
    // Decoders do not expect malicious files: their panics are reported as damage.
    let read = || -> Result<(), ResultsError> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| no_parquet(e.to_string()))?;
        let mut wanted = Vec::new();
        for name in columns {
            let at = builder.schema().index_of(name);
            wanted.push(at.map_err(|_| no_column(path, name, "none".to_string()))?);
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let reader = builder.with_projection(mask).with_batch_size(AT_ONCE).build();
        for batch in reader.map_err(|e| no_parquet(e.to_string()))? {
            give(&batch.map_err(|e| no_parquet(e.to_string()))?)?;
        }
        Ok(())
    };
    let answer = catch_unwind(AssertUnwindSafe(read));
    answer.unwrap_or_else(|_| Err(no_parquet("pages that cannot be decoded".to_string()))).map(|()| true)
}

/// Columns of a table that a section reads. [`columns!`] declares them.
pub trait Picked {
    const TABLE: &'static str;
    const COLUMNS: &'static [&'static str];
    /// One cell of each column.
    type Row<'a>;
    /// Passes the rows of a batch to `each`.
    ///
    /// # Errors
    /// The name of a column that is missing or does not match the table's declaration.
    fn give(batch: &RecordBatch, each: &mut impl FnMut(Self::Row<'_>)) -> Result<(), &'static str>;
}

/// A column by its name and declared type.
pub(crate) fn column<'a, C: ColumnType>(
    batch: &'a RecordBatch,
    name: &'static str,
) -> Result<C::Column<'a>, &'static str> {
    let array = batch.column_by_name(name).filter(|c| C::NULLABLE || c.null_count() == 0);
    array.and_then(C::Column::of).ok_or(name)
}

/// Declares which columns of a table a section reads, as a row with these cells. The types are those of the table; they
/// are left out for key columns.
macro_rules! columns {
    ($row:ident of $table:ty { $($col:ident $(: $ty:ty)?),+ $(,)? }) => {
        #[derive(Clone, Copy)]
        pub struct $row<'a> { $($col: <hta_base::column!(ty $col $(: $ty)?) as hta_base::table::schema::ColumnType>::In<'a>,)+ }

        impl $crate::output::html::results::Picked for $row<'static> {
            const TABLE: &'static str = <$table>::SPEC.name;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($col),)+];
            type Row<'a> = $row<'a>;

            fn give(
                batch: &arrow_array::RecordBatch,
                each: &mut impl FnMut(Self::Row<'_>),
            ) -> Result<(), &'static str> {
                use hta_base::table::typed::Values;
                $(let $col = $crate::output::html::results::column::<hta_base::column!(ty $col $(: $ty)?)>(batch, stringify!($col))?;)+
                for row in 0..batch.num_rows() {
                    each($row { $($col: $col.at(row),)+ });
                }
                Ok(())
            }
        }

        // This compiles only if the table declares these columns with these types.
        const _: for<'a> fn(hta_base::table::schema::ColumnsOf<'a, $table>) = |table| {
            $(let _: <hta_base::column!(ty $col $(: $ty)?) as hta_base::table::schema::ColumnType>::Column<'_> = table.$col;)+
        };
    };
}
pub(crate) use columns;
