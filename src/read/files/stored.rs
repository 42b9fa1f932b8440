//! A file or object that is read at any place, as the Parquet reader needs it.

use super::location::Location;
use super::object::ObjectBlocks;
use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// A file or object that is read at any place.
#[derive(Debug)]
pub enum Stored {
    File(File),
    Object(ObjectBlocks),
}

impl Stored {
    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn open(at: &Location) -> io::Result<Self> {
        match at.is_remote() {
            true => Ok(Self::Object(ObjectBlocks::new(at.object()?))),
            false => Ok(Self::File(File::open(at)?)),
        }
    }

    /// A reader from some place on.
    ///
    /// # Errors
    /// When the place cannot be read.
    pub fn at(&self, start: u64) -> io::Result<StoredReader> {
        match self {
            Self::File(file) => {
                let mut reader = BufReader::new(file.try_clone()?);
                reader.seek(SeekFrom::Start(start))?;
                Ok(StoredReader::File(reader))
            }
            Self::Object(blocks) => {
                Ok(StoredReader::Object { blocks: blocks.clone(), at: start, left: Bytes::new() })
            }
        }
    }

    /// The same file or object again.
    ///
    /// # Errors
    /// When the process has no file handle left.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::File(file) => Ok(Self::File(file.try_clone()?)),
            Self::Object(blocks) => Ok(Self::Object(blocks.clone())),
        }
    }
}

impl Length for Stored {
    fn len(&self) -> u64 {
        match self {
            Self::File(file) => file.len(),
            Self::Object(blocks) => blocks.object.size(),
        }
    }
}

impl ChunkReader for Stored {
    type T = StoredReader;

    fn get_read(&self, start: u64) -> Result<StoredReader, ParquetError> {
        Ok(self.at(start)?)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Self::File(file) => file.get_bytes(start, length),
            Self::Object(blocks) => Ok(blocks.between(start, length).map_err(io::Error::from)?),
        }
    }
}

/// Reads on from some place.
pub enum StoredReader {
    File(BufReader<File>),
    Object { blocks: ObjectBlocks, at: u64, left: Bytes },
}

impl StoredReader {
    /// Leaves out some bytes.
    ///
    /// # Errors
    /// When the place cannot be reached.
    pub fn skip(&mut self, count: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.seek_relative(i64::try_from(count).map_err(io::Error::other)?),
            Self::Object { at, left, .. } => {
                left.advance(left.len().min(usize::try_from(count).unwrap_or(usize::MAX)));
                *at = at.saturating_add(count);
                Ok(())
            }
        }
    }
}

impl Read for StoredReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(out),
            Self::Object { .. } => {
                let n = self.fill_buf()?.read(out)?;
                self.consume(n);
                Ok(n)
            }
        }
    }
}

impl BufRead for StoredReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::File(file) => file.fill_buf(),
            Self::Object { blocks, at, left } => {
                if left.is_empty() {
                    *left = blocks.from(*at)?;
                }
                Ok(left)
            }
        }
    }

    fn consume(&mut self, count: usize) {
        match self {
            Self::File(file) => file.consume(count),
            Self::Object { at, left, .. } => {
                left.advance(count);
                *at += count as u64;
            }
        }
    }
}
