//! Parquet writing: one file per table, a row group for each large rank or for several small ones.
//!
//! A file keeps a few hundred bytes in memory for each column of each row group until it is closed. With a row group for
//! each rank that would be most of what a rank of a large job takes, and most of the file, so ranks with few rows share one.

use super::chunk::Encoder;
use crate::model::cells::joined;
use crate::model::schema::{Batch, TableSpec};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_offset_index_disabled(true)
        .set_created_by(format!("hta {}", env!("CARGO_PKG_VERSION")))
        .build()
}

/// A Parquet file whose row groups are encoded column by column.
///
/// `ArrowWriter` keeps an encoder and a compressor per column until a row group ends; with a hundred
/// columns that is many times the data. Here each column is made, encoded and dropped before the next.
pub struct RowGroups<W: io::Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: io::Write + Send> RowGroups<W> {
    /// # Errors
    /// When the file's head cannot be written.
    pub fn new(out: W, schema: SchemaRef) -> io::Result<Self> {
        // made by this one for the Arrow schema in the file's notes
        let writer = ArrowWriter::try_new(out, schema, Some(properties())).map_err(io::Error::other)?;
        let (file, _) = writer.into_serialized_writer().map_err(io::Error::other)?;
        Ok(Self { file })
    }

    /// Writes one row group; `column` makes the array of each position.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, encoder: &mut Encoder, mut column: impl FnMut(usize) -> ArrayRef) -> io::Result<()> {
        // no column is nested, so each is one leaf
        let columns = self.file.schema_descr().columns().to_vec();
        let mut group = self.file.next_row_group().map_err(io::Error::other)?;
        for (i, leaf) in columns.iter().enumerate() {
            let (bytes, close) = encoder.column(leaf, &column(i))?;
            group.append_column(&bytes, close).map_err(io::Error::other)?;
        }
        group.close().map_err(io::Error::other)?;
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
    write_rows(out, spec.schema(), batches.iter().map(|b| &b.rows))
}

/// The same of rows without a declaration; their columns are of the types that tables have.
///
/// # Errors
/// When it cannot be written.
pub fn write_rows<'a, W: io::Write + Send>(
    out: W,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> io::Result<()> {
    let mut file = RowGroups::new(out, schema)?;
    let mut encoder = Encoder::new()?;
    for rows in batches.into_iter().filter(|b| b.num_rows() > 0) {
        file.write(&mut encoder, |i| ArrayRef::clone(rows.column(i)))?;
    }
    file.finish()
}

/// Weight of the rows from which a row group is written, at first.
const GROUP_BYTES: usize = 256 << 10;

/// Groups get larger as the table does, so that their number grows with its logarithm: each is this part of it.
const GROUP_PART: usize = 128;

/// What a column of a batch weighs besides its values.
const COLUMN_BYTES: usize = 256;

/// What a row group of a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// One rank.
    ByRank,
    /// One large rank, or several small ones.
    ByWeight,
}

/// One table that grows rank by rank.
struct Growing {
    file: RowGroups<File>,
    /// Batches of the next row group. Each is all that a rank has for the table, so that no rank is divided.
    held: Vec<Batch>,
    held_bytes: usize,
    written_bytes: usize,
}

impl Growing {
    fn push(&mut self, batch: &Batch, groups: Groups, encoder: &mut Encoder) -> io::Result<()> {
        let of_column = |c: &ArrayRef| COLUMN_BYTES + bytes_of_rows(c.data_type(), c.len());
        self.held_bytes += batch.rows.columns().iter().map(of_column).sum::<usize>();
        self.held.push(batch.clone());
        let is_full = self.held_bytes >= GROUP_BYTES.max(self.written_bytes / GROUP_PART);
        if is_full || groups == Groups::ByRank { self.flush(encoder) } else { Ok(()) }
    }

    fn flush(&mut self, encoder: &mut Encoder) -> io::Result<()> {
        self.written_bytes += std::mem::take(&mut self.held_bytes);
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Ok(());
        }
        let joined = |i: usize| {
            let pieces: Vec<&ArrayRef> = held.iter().map(|b| b.rows.column(i)).collect();
            match pieces.as_slice() {
                [one] => ArrayRef::clone(one),
                many => join(many),
            }
        };
        self.file.write(encoder, joined)
    }

    fn finish(mut self, encoder: &mut Encoder) -> io::Result<()> {
        self.flush(encoder)?;
        self.file.finish()
    }
}

/// A column of several batches of one table.
fn join(pieces: &[&ArrayRef]) -> ArrayRef {
    joined(pieces).unwrap_or_else(|| {
        let pieces: Vec<&dyn Array> = pieces.iter().map(|p| &***p).collect();
        concat(&pieces).expect("batches of one table are of one type")
    })
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

/// A folder of tables that grow rank by rank. Several threads may write different tables at once.
pub struct Tables {
    folder: PathBuf,
    open: Mutex<BTreeMap<&'static str, Arc<Mutex<Growing>>>>,
    groups: Groups,
    /// Those that nobody uses now: there are as many as threads that write at once.
    encoders: Mutex<Vec<Encoder>>,
}

impl Tables {
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(folder: &Path, groups: Groups) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_path_buf(), open: Mutex::default(), groups, encoders: Mutex::default() })
    }

    /// Appends rows. A rank is never divided between row groups.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&self, batch: &Batch) -> io::Result<()> {
        let table = self.table(batch.spec)?;
        if batch.is_empty() {
            return Ok(());
        }
        self.encode(|encoder| table.lock().map_err(|_| failed())?.push(batch, self.groups, encoder))
    }

    /// Makes sure that a table exists, with its schema, also without rows.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn declare(&self, spec: &'static TableSpec) -> io::Result<()> {
        self.table(spec).map(|_| ())
    }

    fn table(&self, spec: &'static TableSpec) -> io::Result<Arc<Mutex<Growing>>> {
        let mut open = self.open.lock().map_err(|_| failed())?;
        match open.entry(spec.name) {
            Entry::Occupied(open) => Ok(Arc::clone(open.get())),
            Entry::Vacant(slot) => {
                let file = File::create(self.folder.join(format!("{}.parquet", spec.name)))?;
                let file = RowGroups::new(file, spec.schema())?;
                let table = Growing { file, held: Vec::new(), held_bytes: 0, written_bytes: 0 };
                Ok(Arc::clone(slot.insert(Arc::new(Mutex::new(table)))))
            }
        }
    }

    fn encode(&self, write: impl FnOnce(&mut Encoder) -> io::Result<()>) -> io::Result<()> {
        let free = self.encoders.lock().map_err(|_| failed())?.pop();
        let mut encoder = free.map_or_else(Encoder::new, Ok)?;
        let written = write(&mut encoder);
        self.encoders.lock().map_err(|_| failed())?.push(encoder);
        written
    }

    /// Closes all files.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub fn finish(&self) -> io::Result<()> {
        let open = std::mem::take(&mut *self.open.lock().map_err(|_| failed())?);
        open.into_values().collect::<Vec<_>>().into_par_iter().with_max_len(1).try_for_each(|table| {
            let table = Arc::into_inner(table).and_then(|t| t.into_inner().ok()).ok_or_else(failed)?;
            self.encode(|encoder| table.finish(encoder))
        })
    }
}

/// Another thread has failed while it held a lock.
pub(super) fn failed() -> io::Error {
    io::Error::other("another thread failed while writing tables")
}
