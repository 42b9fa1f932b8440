//! A Parquet file of results: what its footer says, and its rows in batches. Decoders do not expect malicious
//! files, so their panics are reported as damage.

use crate::results::ResultsError;
use crate::results::pages::{Unpacked, unpacked};
use crate::results::room::TableRoom;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema};
use hta_base::table::schema::TableSpec;
use hta_read::files::{Location, Stored};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Number of rows decoded at a time.
const AT_ONCE: usize = 1 << 13;

/// Opens a file of a folder of results, below the folder itself.
///
/// # Errors
/// When it is no file of theirs, or cannot be opened.
pub(crate) fn opened(path: &Location) -> Result<Stored, ResultsError> {
    let root = path.parent().and_then(Path::parent).unwrap_or(path);
    let open = || {
        path.check_file_below(root)?;
        Stored::open(path)
    };
    open().map_err(|e| ResultsError::io(path, e))
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

pub(crate) fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::Utf8View | DataType::Dictionary(_, _))
}

/// Size of a number, bytes.
pub(crate) const NUMBER_BYTES: u64 = 8;
/// Size of a text in addition to its characters, bytes.
pub(crate) const TEXT_BYTES: u64 = 16;

/// Size of the values of a row in memory, bytes, without the characters of texts.
pub(crate) fn width(schema: &Schema, is_needed: impl Fn(&str) -> bool) -> u64 {
    let fields = schema.fields().iter().filter(|f| is_needed(f.name()));
    fields.map(|f| if is_text(f.data_type()) { TEXT_BYTES } else { NUMBER_BYTES }).sum()
}

/// Number of rows of a row group that can be decoded at a time within the room: the first of `most`, or the
/// second where the pages are too large to be unpacked together. The file's own sizes cannot be trusted to be
/// small: a few bytes can decompress to gigabytes.
///
/// # Errors
/// When a page is too large, or damaged.
pub(crate) fn rows_at_once(
    path: &Location,
    known: &ArrowReaderMetadata,
    group: &RowGroupMetaData,
    is_needed: impl Fn(&str) -> bool,
    room: &TableRoom,
    most: [usize; 2],
) -> Result<usize, ResultsError> {
    let Some(left) = room.left() else { return Ok(most[0]) };
    let stored = opened(path)?;
    let of_column = |column: &ColumnChunkMetaData| {
        let (start, length) = column.byte_range();
        unpacked(&stored, start, start.saturating_add(length)).map_err(|e| no_parquet(path, e))
    };
    let columns = group.columns().iter().filter(|c| is_needed(c.column_descr().name()));
    // All columns of a group are unpacked side by side.
    let pages = contained(path, || {
        columns.map(of_column).try_fold(Unpacked::default(), |sum, pages| pages.map(|p| sum.and(p)))
    })?;
    if room.with_working_space(pages.largest) > left {
        return Err(room.exceeded(path));
    }
    let at_once = if room.with_working_space(pages.all) > left { most[1] } else { most[0] };
    // A text that each row repeats is as long as a page at most.
    let is_plain = |f: &FieldRef| matches!(f.data_type(), DataType::Utf8 | DataType::Utf8View);
    let has_plain = known.schema().fields().iter().any(|f| is_needed(f.name()) && is_plain(f));
    let rows = if has_plain { left / pages.largest.max(1) } else { at_once as u64 };
    Ok(usize::try_from(rows).unwrap_or(at_once).clamp(1, at_once))
}

/// Passes a file's rows in batches to `give`, with these columns of a declared table, within a room. Where
/// the rows are kept, they are accounted for. Returns `false` if there is no such file.
pub(crate) fn batches(
    path: &Location,
    columns: &[&'static str],
    declared: Option<&TableSpec>,
    room: (&TableRoom, bool),
    mut give: impl FnMut(&RecordBatch) -> Result<(), ResultsError>,
) -> Result<bool, ResultsError> {
    let known = match footer(path) {
        Ok(known) => known,
        Err(ResultsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let (room, are_kept) = room;
    let declared = declared.map(TableSpec::schema);
    let mut wanted = Vec::new();
    for name in columns {
        let at = known.schema().index_of(name).map_err(|_| ResultsError::column(path, name, "none"))?;
        let found = known.schema().field(at).data_type();
        // Before anything is unpacked: another type may need any memory.
        let expected = declared.as_ref().and_then(|schema| schema.field_with_name(name).ok());
        if expected.is_some_and(|f| f.data_type() != found) {
            return Err(ResultsError::column(path, name, found));
        }
        wanted.push(at);
    }
    let is_needed = |name: &str| columns.contains(&name);
    for (index, group) in known.metadata().row_groups().iter().enumerate() {
        if are_kept {
            let values = width(known.schema(), is_needed).saturating_mul(group.num_rows().unsigned_abs());
            room.take(path, values)?;
        }
        let at_once = rows_at_once(path, &known, group, is_needed, room, [AT_ONCE; 2])?;
        let file = opened(path)?;
        contained(path, || {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, known.clone());
            let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.iter().copied());
            let reader = builder.with_row_groups(vec![index]).with_projection(mask).with_batch_size(at_once);
            for batch in reader.build().map_err(|e| no_parquet(path, e))? {
                give(&batch.map_err(|e| no_parquet(path, e))?)?;
            }
            Ok::<_, ResultsError>(())
        })?;
    }
    Ok(true)
}
