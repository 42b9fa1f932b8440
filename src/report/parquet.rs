//! Parquet writing: one file per table, one row group per rank.

use crate::model::schema::{Batch, TableSpec};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Settings of every file: zstd, statistics per row group.
pub fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("hta {}", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Writes one table to any sink.
///
/// # Errors
/// When it cannot be written.
pub fn write_to<W: io::Write + Send>(out: W, spec: &TableSpec, batches: &[Batch]) -> io::Result<()> {
    let mut writer = ArrowWriter::try_new(out, spec.schema(), Some(properties())).map_err(io::Error::other)?;
    for batch in batches {
        writer.write(&batch.rows).map_err(io::Error::other)?;
        writer.flush().map_err(io::Error::other)?;
    }
    writer.close().map_err(io::Error::other)?;
    Ok(())
}

/// A folder of tables that grow rank by rank.
pub struct Tables {
    folder: PathBuf,
    open: BTreeMap<&'static str, ArrowWriter<File>>,
}

impl Tables {
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_path_buf(), open: BTreeMap::new() })
    }

    /// Appends rows as row groups of their own.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let writer = self.writer(batch.spec)?;
        if !batch.is_empty() {
            writer.write(&batch.rows).map_err(io::Error::other)?;
            writer.flush().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Makes sure that a table exists, with its schema, also without rows.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn declare(&mut self, spec: &'static TableSpec) -> io::Result<()> {
        self.writer(spec).map(|_| ())
    }

    fn writer(&mut self, spec: &'static TableSpec) -> io::Result<&mut ArrowWriter<File>> {
        if !self.open.contains_key(spec.name) {
            let file = File::create(self.folder.join(format!("{}.parquet", spec.name)))?;
            let writer = ArrowWriter::try_new(file, spec.schema(), Some(properties())).map_err(io::Error::other)?;
            self.open.insert(spec.name, writer);
        }
        self.open.get_mut(spec.name).ok_or_else(|| io::Error::other("table is not open"))
    }

    /// Closes all files.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub fn finish(self) -> io::Result<()> {
        for writer in self.open.into_values() {
            writer.close().map_err(io::Error::other)?;
        }
        Ok(())
    }
}
