//! Parquet files, written column by column.
//!
//! Integers are delta-encoded, floats and flags are written plainly, and texts with a dictionary. A column of
//! a row group is one page, so its bytes depend only on its rows and not on how they were divided into
//! batches.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use hta_base::table::schema::{Batch, TableSpec};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{
    DeltaBinaryPackedEncoderOptions, EnabledStatistics, WriterProperties, WriterPropertiesPtr,
};
use parquet::file::writer::SerializedFileWriter;
use std::io;
use std::sync::Arc;

/// Number of rows passed to an encoder at a time, because it makes lists of positions for them.
const AT_ONCE: usize = 1 << 16;

/// Size of a column from which it is compressed, bytes. The contexts of the library take longer to be made
/// than a smaller column to be compressed.
const COMPRESSED_FROM: usize = 1024;

/// A Parquet file to which row groups are appended.
///
/// Only one column's encoder and compressor are in memory at a time: with a hundred columns, those of a whole
/// row group would take many times the data.
pub(crate) struct RowGroups<W: io::Write + Send> {
    file: SerializedFileWriter<W>,
    schema: SchemaRef,
}

impl<W: io::Write + Send> RowGroups<W> {
    /// # Errors
    /// When the file's header cannot be written.
    pub(crate) fn new(out: W, schema: SchemaRef) -> io::Result<Self> {
        let properties = common().build();
        let file = file_writer(out, &schema, Arc::new(properties)).map_err(io_error)?;
        Ok(Self { file, schema })
    }

    /// Writes one row group. `column` returns the consecutive arrays of the column at an index.
    ///
    /// # Errors
    /// When the row group cannot be written.
    pub fn write(&mut self, mut column: impl FnMut(usize) -> Vec<ArrayRef>) -> io::Result<()> {
        let mut write = || {
            let mut group = self.file.next_row_group()?;
            for (i, field) in self.schema.fields().iter().enumerate() {
                encode(field, &column(i))?.append_to_row_group(&mut group)?;
            }
            group.close().map(|_| ())
        };
        write().map_err(io_error)
    }

    /// Completes the file, with the schema of its rows.
    ///
    /// # Errors
    /// When the file's footer cannot be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        let schema = SchemaRef::clone(&self.schema);
        self.finish_noted(&schema)
    }

    /// Completes the file with a schema that has metadata in addition to the schema of the rows.
    ///
    /// # Errors
    /// When the file's footer cannot be written.
    pub(crate) fn finish_noted(mut self, schema: &Schema) -> io::Result<()> {
        let note = KeyValue::new(ARROW_SCHEMA_META_KEY.to_string(), encode_arrow_schema(schema));
        self.file.append_key_value_metadata(note);
        self.file.close().map(|_| ()).map_err(io_error)
    }
}

/// Writes one table to any sink, with a row group per batch.
///
/// # Errors
/// When the table cannot be written.
pub fn write_to<W: io::Write + Send>(out: W, spec: &TableSpec, batches: &[Batch]) -> io::Result<()> {
    let rows: Vec<RecordBatch> = batches.iter().map(Batch::rows).collect();
    groups(out, spec.schema(), &rows)?.finish_noted(&spec.noted_schema())
}

/// Like [`write_to`], for rows of a table without a declaration.
///
/// # Errors
/// When the rows cannot be written.
pub(crate) fn write_rows<'a, W: io::Write + Send>(
    out: W,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> io::Result<()> {
    groups(out, schema, batches)?.finish()
}

fn groups<'a, W: io::Write + Send>(
    out: W,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> io::Result<RowGroups<W>> {
    let mut file = RowGroups::new(out, schema)?;
    for rows in batches.into_iter().filter(|b| b.num_rows() > 0) {
        file.write(|i| vec![ArrayRef::clone(rows.column(i))])?;
    }
    Ok(file)
}

fn file_writer<W: io::Write + Send>(
    out: W,
    schema: &Schema,
    properties: WriterPropertiesPtr,
) -> Result<SerializedFileWriter<W>> {
    let columns = ArrowSchemaConverter::new().convert(schema)?;
    SerializedFileWriter::new(out, columns.root_schema_ptr(), properties)
}

/// Encodes a column of a row group. The library creates the encoders of all columns of a file at once. To get
/// a single encoder, this function creates it for a file that has only this column and is never written.
fn encode(field: &FieldRef, arrays: &[ArrayRef]) -> Result<ArrowColumnChunk> {
    let schema = Arc::new(Schema::new(vec![FieldRef::clone(field)]));
    let file = file_writer(io::sink(), &schema, Arc::new(properties(field.data_type(), arrays)?))?;
    let columns = ArrowRowGroupWriterFactory::new(&file, schema).create_column_writers(0)?;
    let no_column = || ParquetError::General(format!("`{}` is not one column", field.name()));
    let mut column = columns.into_iter().next().ok_or_else(no_column)?;
    for array in arrays {
        for at in (0..array.len()).step_by(AT_ONCE) {
            let rows = array.slice(at, AT_ONCE.min(array.len() - at));
            compute_leaves(field, &rows)?.iter().try_for_each(|leaf| column.write(leaf))?;
        }
    }
    column.close()
}

/// Properties of all columns: one page, minimum and maximum per row group (but of texts), no page index.
fn common() -> parquet::file::properties::WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("hta ", env!("CARGO_PKG_VERSION")).to_string())
        .set_data_page_size_limit(usize::MAX)
        .set_data_page_row_count_limit(usize::MAX)
        .set_dictionary_page_size_limit(usize::MAX)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
}

/// Encoding and compression of a column.
fn properties(kind: &DataType, arrays: &[ArrayRef]) -> Result<WriterProperties> {
    let mut how = common();
    if arrays.iter().any(|a| a.null_count() < a.len()) {
        how = match kind {
            DataType::Boolean | DataType::Float64 => how,
            DataType::Int64 | DataType::UInt64 | DataType::UInt32 => how
                .set_encoding(Encoding::DELTA_BINARY_PACKED)
                .set_delta_binary_packed_encoder_options(DeltaBinaryPackedEncoderOptions::try_new(128, 4)?),
            // The first and the last of some texts in the order of the alphabet help no query, and every row
            // would be compared with them.
            _ => how.set_dictionary_enabled(true).set_statistics_enabled(EnabledStatistics::None),
        };
        if is_long(arrays) {
            how = how.set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?));
        }
    }
    Ok(how.build())
}

/// Whether a column is large enough for compression. Every row counts by itself, so the result does not
/// depend on how rows were divided into arrays.
fn is_long(arrays: &[ArrayRef]) -> bool {
    let rows: usize = arrays.iter().map(|a| a.len()).sum();
    if rows * size_of::<u32>() >= COMPRESSED_FROM {
        return true;
    }
    let text_bytes = |array: &ArrayRef| -> usize {
        let Some(texts) = array
            .as_dictionary_opt::<Int32Type>()
            .and_then(|a| a.downcast_dict::<arrow_array::StringArray>())
        else {
            return array.len() * size_of::<u64>();
        };
        texts.into_iter().flatten().map(str::len).sum()
    };
    arrays.iter().map(text_bytes).sum::<usize>() >= COMPRESSED_FROM
}

/// Converts an error. An I/O error of the sink is returned unchanged.
fn io_error(e: ParquetError) -> io::Error {
    match e {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(own) => *own,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int64Type;
    use arrow_select::concat::concat_batches;
    use hta_testkit::every::{AllColumnTypes, AnyRow, batch};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::file::statistics::Statistics;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_reader_finds_schema_bounds_and_rows(
            lists in prop::collection::vec(prop::collection::vec(any::<AnyRow>(), 1..90), 0..4),
        ) {
            let batches: Vec<Batch> = lists.iter().map(|l| batch(l)).collect();
            let mut file = tempfile::tempfile().unwrap();
            write_to(&mut file, AllColumnTypes::SPEC, &batches).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            prop_assert_eq!(reader.schema(), &AllColumnTypes::SPEC.noted_schema());
            let metadata = Arc::clone(reader.metadata());
            prop_assert_eq!(metadata.num_row_groups(), batches.len());
            for (group, batch) in metadata.row_groups().iter().zip(&batches) {
                let rows = batch.rows();
                let times = rows.column(1).as_primitive::<Int64Type>();
                let Some(Statistics::Int64(found)) = group.column(1).statistics() else { panic!("no bounds") };
                prop_assert_eq!(found.null_count_opt(), Some(times.null_count() as u64));
                prop_assert_eq!((found.min_opt().copied(), found.max_opt().copied()), (times.iter().flatten().min(), times.iter().flatten().max()));
            }
            let read = reader.build().unwrap().collect::<std::result::Result<Vec<_>, _>>().unwrap();
            let (schema, rows) = (AllColumnTypes::SPEC.noted_schema(), batch(&lists.concat()).rows());
            let read = concat_batches(&schema, &read).unwrap();
            prop_assert_eq!(read.columns(), rows.columns());
        }

        #[test]
        fn bytes_depend_on_rows_and_not_on_batches(
            lists in prop::collection::vec(prop::collection::vec(any::<AnyRow>(), 1..90), 1..6),
        ) {
            let bytes = |batches: &[Batch]| {
                let mut bytes = Vec::new();
                let mut file = RowGroups::new(&mut bytes, AllColumnTypes::SPEC.schema()).unwrap();
                let column = |i| batches.iter().map(|b| ArrayRef::clone(b.rows().column(i))).collect();
                file.write(column).unwrap();
                file.finish().unwrap();
                bytes
            };
            let batches: Vec<Batch> = lists.iter().map(|l| batch(l)).collect();
            prop_assert_eq!(bytes(&batches), bytes(&[batch(&lists.concat())]));
        }
    }
}
