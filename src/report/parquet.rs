//! Parquet writing: one file per table, a row group for each large rank or for several small ones.
//!
//! A file keeps a few hundred bytes in memory for each column of each row group until it is closed. With a row group for
//! each rank that would be most of what a rank of a large job takes, and most of the file, so ranks with few rows share one.

use crate::model::schema::{Batch, TableSpec};
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Small and quick to start: tables of a few rows are most files.
    Light,
    /// For events, which are most bytes.
    Dense,
}

fn properties(packing: Packing) -> WriterProperties {
    let compression = match packing {
        Packing::Light => Compression::SNAPPY,
        Packing::Dense => Compression::ZSTD(ZstdLevel::default()),
    };
    WriterProperties::builder()
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("hta {}", env!("CARGO_PKG_VERSION")))
        .build()
}

/// A Parquet file whose row groups are encoded column by column.
///
/// `ArrowWriter` keeps an encoder and a compressor per column until a row group ends; with a hundred
/// columns that is many times the data. Here each column is made, encoded and dropped before the next.
pub struct RowGroups<W: io::Write + Send> {
    file: SerializedFileWriter<W>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    groups: usize,
}

impl<W: io::Write + Send> RowGroups<W> {
    /// # Errors
    /// When the file's head cannot be written.
    pub fn new(out: W, schema: SchemaRef, packing: Packing) -> io::Result<Self> {
        let writer = ArrowWriter::try_new(out, SchemaRef::clone(&schema), Some(properties(packing)))
            .map_err(io::Error::other)?;
        let (file, factory) = writer.into_serialized_writer().map_err(io::Error::other)?;
        Ok(Self { file, factory, schema, groups: 0 })
    }

    /// Writes one row group; `column` makes the array of each position.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, mut column: impl FnMut(usize) -> ArrayRef) -> io::Result<()> {
        let writers = self.factory.create_column_writers(self.groups).map_err(io::Error::other)?;
        let mut group = self.file.next_row_group().map_err(io::Error::other)?;
        // no column is nested, so each has exactly one leaf
        for (i, mut writer) in writers.into_iter().enumerate() {
            let array = column(i);
            for leaf in compute_leaves(self.schema.field(i), &array).map_err(io::Error::other)? {
                writer.write(&leaf).map_err(io::Error::other)?;
            }
            writer.close().and_then(|chunk| chunk.append_to_row_group(&mut group)).map_err(io::Error::other)?;
        }
        group.close().map_err(io::Error::other)?;
        self.groups += 1;
        Ok(())
    }

    /// # Errors
    /// When the file's end cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.file.close().map_err(io::Error::other)?;
        Ok(())
    }
}

/// Writes one table to any sink, a row group per batch.
///
/// # Errors
/// When it cannot be written.
pub fn write_to<W: io::Write + Send>(out: W, spec: &TableSpec, batches: &[Batch]) -> io::Result<()> {
    let mut file = RowGroups::new(out, spec.schema(), Packing::Light)?;
    for batch in batches.iter().filter(|b| !b.is_empty()) {
        file.write(|i| ArrayRef::clone(batch.rows.column(i)))?;
    }
    file.finish()
}

/// Weight of the rows from which a row group is written, at first.
const GROUP_BYTES: usize = 256 << 10;

/// Groups get larger as the table does, so that their number grows with its logarithm: each is this part of it.
const GROUP_PART: usize = 128;

/// What a column of a batch weighs besides its values.
const COLUMN_BYTES: usize = 256;

/// One table that grows rank by rank.
struct Growing {
    file: RowGroups<File>,
    /// Batches of the next row group. Each is all that a rank has for the table, so that no rank is divided.
    held: Vec<Batch>,
    held_bytes: usize,
    written_bytes: usize,
}

impl Growing {
    fn push(&mut self, batch: &Batch) -> io::Result<()> {
        let of_column = |c: &ArrayRef| COLUMN_BYTES + bytes_of_rows(c.data_type(), c.len());
        self.held_bytes += batch.rows.columns().iter().map(of_column).sum::<usize>();
        self.held.push(batch.clone());
        if self.held_bytes >= GROUP_BYTES.max(self.written_bytes / GROUP_PART) { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.written_bytes += std::mem::take(&mut self.held_bytes);
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Ok(());
        }
        let joined = |i: usize| {
            let pieces: Vec<&dyn Array> = held.iter().map(|b| &**b.rows.column(i)).collect();
            // pieces of one column of one table are of one type, and far fewer than a dictionary's keys can tell apart
            concat(&pieces).expect("batches of one table can be joined")
        };
        self.file.write(joined)
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.finish()
    }
}

/// What rows weigh in a row group. By type, not by what a buffer happens to hold, so that the same rows make the same
/// groups wherever they come from.
fn bytes_of_rows(kind: &DataType, rows: usize) -> usize {
    match kind {
        DataType::Boolean => rows / 8,
        DataType::Dictionary(_, _) | DataType::UInt32 => rows * 4,
        _ => rows * 8,
    }
}

/// A folder of tables that grow rank by rank.
pub struct Tables {
    folder: PathBuf,
    open: BTreeMap<&'static str, Growing>,
}

impl Tables {
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_path_buf(), open: BTreeMap::new() })
    }

    /// Appends rows. A rank is never divided between row groups.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let table = self.table(batch.spec)?;
        if batch.is_empty() { Ok(()) } else { table.push(batch) }
    }

    /// Makes sure that a table exists, with its schema, also without rows.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn declare(&mut self, spec: &'static TableSpec) -> io::Result<()> {
        self.table(spec).map(|_| ())
    }

    fn table(&mut self, spec: &'static TableSpec) -> io::Result<&mut Growing> {
        match self.open.entry(spec.name) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(slot) => {
                let file = File::create(self.folder.join(format!("{}.parquet", spec.name)))?;
                let file = RowGroups::new(file, spec.schema(), Packing::Light)?;
                Ok(slot.insert(Growing { file, held: Vec::new(), held_bytes: 0, written_bytes: 0 }))
            }
        }
    }

    /// Closes all files.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.open.into_values().try_for_each(Growing::finish)
    }
}
