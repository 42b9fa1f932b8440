//! Encodes one table of the ranks' partials as the bytes of a Parquet file, and decodes it.
//!
//! Nothing is compressed, and every row begins with its rank as four plain bytes. So a small file cannot
//! contain many rows, and reading needs memory in proportion to the size of the file. Before a value is
//! decoded, every length in the file is checked against the bytes that are present.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::ArrowError;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use hta_base::table::schema::TableSpec;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Version of the format of partials. Every change of their content or encoding increases it.
pub const VERSION: u64 = 6;

/// Version of this program.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Name of the column with the rank of each row. It precedes the table's own columns.
pub const RANK: &str = "of_rank";
/// Number of rows that are decoded at a time.
const AT_ONCE: usize = 1 << 16;

/// A table over several ranks.
#[derive(Debug, Clone)]
pub struct StateTable {
    /// What the table belongs to: the stem of an analysis, `inventory`, `part` or `set`.
    pub of: &'static str,
    pub spec: &'static TableSpec,
    /// Rank of each row.
    pub ranks: Vec<u32>,
    pub rows: RecordBatch,
}

/// Rows of a table, with the rank of each row.
#[derive(Debug, Clone)]
pub struct RankRows {
    pub(crate) ranks: Vec<u32>,
    pub(crate) rows: RecordBatch,
}

/// Looks up a table by owner and name. Returns both the static owner and the declaration, or `None` if there
/// is no such table.
pub type FindTable<'a> = &'a dyn Fn(&str, &str) -> Option<(&'static str, &'static TableSpec)>;

/// The reason why bytes are not a valid table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct Damage {
    pub expected: String,
    pub(crate) found: String,
}

impl Damage {
    pub(crate) fn new(expected: impl ToString, found: impl ToString) -> Self {
        Self { expected: expected.to_string(), found: found.to_string() }
    }
}

impl From<ParquetError> for Damage {
    fn from(e: ParquetError) -> Self {
        Damage::new("a Parquet file", e)
    }
}

impl From<ArrowError> for Damage {
    fn from(e: ArrowError) -> Self {
        Damage::new("a Parquet file", e)
    }
}

fn schema(spec: &TableSpec) -> SchemaRef {
    let own = spec.noted_schema();
    let rank = Arc::new(Field::new(RANK, DataType::UInt32, false));
    let fields: Vec<_> = std::iter::once(rank).chain(own.fields().iter().cloned()).collect();
    Arc::new(Schema::new_with_metadata(fields, own.metadata().clone()))
}

/// Encodes a table.
///
/// # Errors
/// When rows cannot be encoded.
pub fn bytes(of: &str, spec: &TableSpec, rows: &[RankRows]) -> Result<Vec<u8>, ParquetError> {
    let schema = schema(spec);
    let note = |key: &str, value: &str| KeyValue::new(key.to_string(), value.to_string());
    let version = VERSION.to_string();
    let notes = [
        ("hta.partial", version.as_str()),
        ("hta.version", PROGRAM),
        ("hta.of", of),
        ("hta.table", spec.name),
    ];
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false)
        .set_created_by(format!("hta {PROGRAM}"))
        .set_key_value_metadata(Some(notes.map(|(k, v)| note(k, v)).to_vec()));
    for c in spec.columns.iter().filter(|c| c.kind == "text") {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(c.name), true);
    }
    let mut writer = ArrowWriter::try_new(Vec::new(), SchemaRef::clone(&schema), Some(properties.build()))?;
    for RankRows { ranks, rows } in rows {
        let ranks: ArrayRef = Arc::new(UInt32Array::from(ranks.clone()));
        let columns = std::iter::once(ranks).chain(rows.columns().iter().cloned()).collect();
        writer.write(&RecordBatch::try_new(SchemaRef::clone(&schema), columns)?)?;
    }
    writer.into_inner()
}

/// Decodes one table from any bytes.
///
/// # Errors
/// When the bytes are not such a table, or it has another version.
pub fn read(bytes: Vec<u8>, known: FindTable) -> Result<StateTable, Damage> {
    contained(|| table(bytes, known))
}

/// Runs a Parquet decoder and turns a panic into [`Damage`], because decoders may panic on invalid files.
pub fn contained<T>(read: impl FnOnce() -> Result<T, Damage>) -> Result<T, Damage> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Damage::new("a Parquet file", "pages that cannot be decoded")))
}

/// Makes a `bytes::Bytes`, which Parquet reads from memory. The type is inferred from `File::get_bytes`, so
/// that the crate `bytes` is not a dependency.
fn memory<B: From<Vec<u8>>>(_: impl Fn(&File, u64, usize) -> Result<B, ParquetError>, bytes: Vec<u8>) -> B {
    B::from(bytes)
}

fn table(bytes: Vec<u8>, known: FindTable) -> Result<StateTable, Damage> {
    let length = bytes.len();
    let input = memory(<File as ChunkReader>::get_bytes, bytes);
    let builder = ParquetRecordBatchReaderBuilder::try_new(input.clone())?;
    let metadata = builder.metadata();
    let notes = metadata.file_metadata().key_value_metadata();
    let note = |key: &str| {
        let found = notes.into_iter().flatten().find(|n| n.key == key).and_then(|n| n.value.clone());
        found.ok_or_else(|| Damage::new(format!("a table of a partial, with `{key}`"), "none"))
    };
    let (version, program) = (note("hta.partial")?, note("hta.version")?);
    if version != VERSION.to_string() || program != PROGRAM {
        let found = format!("version {version} of hta {program}");
        return Err(Damage::new(format!("format version {VERSION} of hta {PROGRAM}"), found));
    }
    let (of, name) = (note("hta.of")?, note("hta.table")?);
    let (of, spec) =
        known(&of, &name).ok_or_else(|| Damage::new("a known table", format!("`{of}` `{name}`")))?;
    let declared = schema(spec);
    if builder.schema().fields() != declared.fields() {
        return Err(Damage::new(format!("the columns of `{name}`"), "others"));
    }
    sound(metadata, length as u64)?;
    let rows = metadata.row_groups().iter().map(|g| g.num_rows()).try_fold(0i64, i64::checked_add);
    let rows = rows.and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= length / 4);
    let rows = rows.ok_or_else(|| Damage::new("as many rows as the file has room for", "more"))?;
    pages(&SerializedFileReader::new(input)?)?;
    let reader = builder.with_batch_size(rows.clamp(1, AT_ONCE)).build()?;
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    let all = match batches.as_slice() {
        [one] => one.clone(),
        many => concat_batches(&SchemaRef::clone(&declared), many)?,
    };
    if all.num_rows() != rows {
        return Err(Damage::new(format!("{rows} rows"), all.num_rows()));
    }
    let ranks = all.column_by_name(RANK).and_then(|a| a.as_primitive_opt::<UInt32Type>().cloned());
    let ranks = ranks.ok_or_else(|| Damage::new(format!("a column `{RANK}`"), "none"))?;
    // This checks types and nulls against the declaration.
    let own = RecordBatch::try_new(spec.schema(), all.columns().get(1..).unwrap_or_default().to_vec())?;
    Ok(StateTable { of, spec, ranks: ranks.values().to_vec(), rows: own })
}

/// Checks that all row groups and columns in the footer are inside the file.
pub fn sound(metadata: &ParquetMetaData, len: u64) -> Result<(), Damage> {
    let outside = || Damage::new("columns inside the file", "one outside of it");
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return Err(Damage::new("a number of rows", group.num_rows()));
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let numbers =
                [start, column.data_page_offset(), column.compressed_size(), column.uncompressed_size()];
            if numbers.iter().any(|n| *n < 0) || column.num_values() < 0 {
                return Err(outside());
            }
            let end = start.checked_add(column.compressed_size()).ok_or_else(outside)?;
            if end.unsigned_abs() > len || column.data_page_offset() > end {
                return Err(outside());
            }
        }
    }
    Ok(())
}

/// Checks all pages: each column has as many values as rows, and a dictionary has at most as many values as
/// bytes.
fn pages(file: &SerializedFileReader<impl ChunkReader + 'static>) -> Result<(), Damage> {
    for (g, group) in file.metadata().row_groups().iter().enumerate() {
        let reader = file.get_row_group(g)?;
        for (c, column) in group.columns().iter().enumerate() {
            if column.compression() != Compression::UNCOMPRESSED {
                return Err(Damage::new("columns that are not compressed", column.compression()));
            }
            let mut values = 0i64;
            for page in reader.get_column_page_reader(c)? {
                match page? {
                    Page::DictionaryPage { buf, num_values, .. } if num_values as usize > buf.len() => {
                        return Err(Damage::new(
                            "a dictionary of as many texts as it has room for",
                            num_values,
                        ));
                    }
                    Page::DictionaryPage { .. } => {}
                    page => values += i64::from(page.num_values()),
                }
            }
            if values != group.num_rows() {
                return Err(Damage::new(format!("{} values in a column", group.num_rows()), values));
            }
        }
    }
    Ok(())
}
