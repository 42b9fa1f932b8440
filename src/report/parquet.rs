//! Parquet writing: one file per table, one row group per rank.

use super::chunk::Encoder;
use crate::model::schema::{Batch, TableSpec};
use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

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
    let mut file = RowGroups::new(out, spec.schema())?;
    let mut encoder = Encoder::new()?;
    for batch in batches.iter().filter(|b| !b.is_empty()) {
        file.write(&mut encoder, |i| ArrayRef::clone(batch.rows.column(i)))?;
    }
    file.finish()
}

/// A folder of tables that grow rank by rank.
pub struct Tables {
    folder: PathBuf,
    open: BTreeMap<&'static str, RowGroups<File>>,
    encoder: Encoder,
}

impl Tables {
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_path_buf(), open: BTreeMap::new(), encoder: Encoder::new()? })
    }

    /// Appends rows as a row group of their own.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let file = open(&mut self.open, &self.folder, batch.spec)?;
        if batch.is_empty() {
            return Ok(());
        }
        file.write(&mut self.encoder, |i| ArrayRef::clone(batch.rows.column(i)))
    }

    /// Makes sure that a table exists, with its schema, also without rows.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn declare(&mut self, spec: &'static TableSpec) -> io::Result<()> {
        open(&mut self.open, &self.folder, spec).map(|_| ())
    }

    /// Closes all files.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.open.into_values().try_for_each(RowGroups::finish)
    }
}

fn open<'a>(
    files: &'a mut BTreeMap<&'static str, RowGroups<File>>,
    folder: &Path,
    spec: &'static TableSpec,
) -> io::Result<&'a mut RowGroups<File>> {
    match files.entry(spec.name) {
        Entry::Occupied(open) => Ok(open.into_mut()),
        Entry::Vacant(slot) => {
            let file = File::create(folder.join(format!("{}.parquet", spec.name)))?;
            Ok(slot.insert(RowGroups::new(file, spec.schema())?))
        }
    }
}
