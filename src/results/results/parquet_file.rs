//! A Parquet file of results: what its footer says, and its rows in batches. Decoders do not expect malicious
//! files, so their panics are reported as damage.

use crate::results::ResultsError;
use arrow_array::RecordBatch;
use hta_read::files::{Location, Stored};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Number of rows decoded at a time.
const AT_ONCE: usize = 1 << 13;

/// # Errors
/// When it cannot be opened.
pub(crate) fn opened(path: &Location) -> Result<Stored, ResultsError> {
    Stored::open(path).map_err(|e| ResultsError::io(path, e))
}

/// The error of a decoder.
pub(crate) fn no_parquet(path: &Path, reason: impl Display) -> ResultsError {
    ResultsError::damaged(path, "a Parquet file", reason)
}

/// # Errors
/// When the file is damaged.
pub(crate) fn footer(path: &Location) -> Result<ArrowReaderMetadata, ResultsError> {
    let file = opened(path)?;
    contained(path, || {
        ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|e| no_parquet(path, e))
    })
}

/// Runs a decoder and reports its panics as damage.
pub(crate) fn contained<T, E: From<ResultsError>>(
    path: &Path,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(no_parquet(path, "pages that cannot be decoded").into()))
}

/// Passes a file's rows in batches to `give`, with these columns. Returns `false` if there is no such file.
pub(crate) fn batches(
    path: &Location,
    columns: &[&'static str],
    mut give: impl FnMut(&RecordBatch) -> Result<(), ResultsError>,
) -> Result<bool, ResultsError> {
    let file = match Stored::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(ResultsError::io(path, e)),
    };
    contained(path, || {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| no_parquet(path, e))?;
        let mut wanted = Vec::new();
        for name in columns {
            let at = builder.schema().index_of(name);
            wanted.push(at.map_err(|_| ResultsError::column(path, name, "none"))?);
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let reader = builder.with_projection(mask).with_batch_size(AT_ONCE).build();
        for batch in reader.map_err(|e| no_parquet(path, e))? {
            give(&batch.map_err(|e| no_parquet(path, e))?)?;
        }
        Ok(true)
    })
}
