//! Reads the tables of a results folder: only the needed columns, a few thousand rows at a time, so that memory does
//! not depend on the size of the job.

use crate::table::column::Column;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Number of rows decoded at a time.
const AT_ONCE: usize = 1 << 13;

#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error("cannot read {path}: expected {expected}, found {found}")]
    Damaged { path: String, expected: String, found: String },
    #[error("cannot read {path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
}

impl ResultsError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ResultsError::Damaged { .. } | ResultsError::Io { .. } => {
                Some("give a folder that `hta analyze` or `hta merge` has left, or run it again")
            }
            ResultsError::Write { .. } => None,
        }
    }
}

/// A results folder.
pub struct Results {
    folder: PathBuf,
}

impl Results {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Calls `each` with all rows of the given columns of a table, in order. Returns `false` if there is no such table.
    ///
    /// # Errors
    /// When the file is not a Parquet table, or lacks a column.
    pub fn read(&self, table: &str, columns: &[&str], mut each: impl FnMut(&Rows)) -> Result<bool, ResultsError> {
        let path = self.folder.join("tables").join(format!("{table}.parquet"));
        let damaged = |expected: &str, found: String| ResultsError::Damaged {
            path: path.display().to_string(),
            expected: expected.to_string(),
            found,
        };
        let mut give = |batch: &RecordBatch| {
            let rows = Rows::new(batch, columns).map_err(|(name, found)| {
                damaged(&format!("a column `{name}` of numbers or texts"), found.to_string())
            })?;
            each(&rows);
            Ok(())
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(ResultsError::Io { path: path.display().to_string(), source }),
        };
        let no_parquet = |e: String| damaged("a Parquet file", e);
        // Decoders do not expect malicious files: their panics are reported as damage.
        let read = || -> Result<(), ResultsError> {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| no_parquet(e.to_string()))?;
            let mut wanted = Vec::new();
            for name in columns {
                let at = builder.schema().index_of(name);
                wanted.push(at.map_err(|_| damaged(&format!("a column `{name}`"), "none".to_string()))?);
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
}

/// Some rows of a table. Columns are numbered in the order of the request.
pub struct Rows<'a> {
    columns: Vec<Column<'a>>,
    len: usize,
}

impl<'a> Rows<'a> {
    fn new(batch: &'a RecordBatch, names: &[&'a str]) -> Result<Self, (&'a str, &'a DataType)> {
        let of = |name: &&'a str| {
            let array = batch.column_by_name(name).ok_or((*name, &DataType::Null))?;
            Column::new(array).ok_or((*name, array.data_type()))
        };
        Ok(Self { columns: names.iter().map(of).collect::<Result<_, _>>()?, len: batch.num_rows() })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// An integer, `None` for null. A boolean is 0 or 1.
    pub fn int(&self, column: usize, row: usize) -> Option<i64> {
        self.columns.get(column)?.int(row)
    }

    /// An integer, 0 for null.
    pub fn sum(&self, column: usize, row: usize) -> i64 {
        self.int(column, row).unwrap_or(0)
    }

    pub fn rank(&self, column: usize, row: usize) -> u32 {
        u32::try_from(self.sum(column, row)).unwrap_or(u32::MAX)
    }

    /// A floating-point number; integers are converted.
    pub fn float(&self, column: usize, row: usize) -> Option<f64> {
        self.columns.get(column)?.float(row).filter(|v| v.is_finite())
    }

    pub fn text(&self, column: usize, row: usize) -> Option<&'a str> {
        self.columns.get(column)?.text(row)
    }
}
