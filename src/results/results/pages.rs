//! Decompressed size of the pages of a Parquet column, read from their headers.
//!
//! A page's header gives its decompressed size, and the decoder allocates that much before it decompresses. A
//! file of a few kilobytes could make it allocate gigabytes, so the headers are checked first. They are
//! structures in Thrift's compact protocol; two fields are used and the rest is skipped.

use hta_read::files::{Stored, StoredReader};
use std::io::{self, BufRead};

/// Field id in a page header: decompressed size of the page, bytes.
const UNPACKED: i64 = 2;
/// Field id in a page header: size of the page in the file without the header, bytes.
const PACKED: i64 = 3;
/// Nesting limit; real headers have fewer levels.
const DEEPEST: usize = 8;

/// Decompressed sizes of pages, bytes: the largest page, and all pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Unpacked {
    pub(crate) largest: u64,
    pub(crate) all: u64,
}

impl Unpacked {
    /// Combines columns that are decompressed at the same time.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { largest: self.largest.saturating_add(other.largest), all: self.all.saturating_add(other.all) }
    }
}

/// Decompressed sizes of the pages between two offsets of a file.
///
/// # Errors
/// Bytes that are not a page header, or pages that end beyond `end`.
pub(crate) fn unpacked(file: &Stored, start: u64, end: u64) -> io::Result<Unpacked> {
    let mut reader = Compact { input: file.at(start)?, at: start };
    let mut pages = Unpacked::default();
    while reader.at < end {
        let (unpacked, packed) = reader.page_header()?;
        pages.largest = pages.largest.max(unpacked);
        pages.all = pages.all.saturating_add(unpacked);
        let next = reader.at.checked_add(packed).filter(|next| *next <= end).ok_or_else(damaged)?;
        reader.input.skip(packed)?;
        reader.at = next;
    }
    Ok(pages)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a page without a header that can be read")
}

struct Compact {
    input: StoredReader,
    /// Offset in the file.
    at: u64,
}

impl Compact {
    /// Reads a page header, and returns the decompressed and compressed size of the page.
    fn page_header(&mut self) -> io::Result<(u64, u64)> {
        let (mut unpacked, mut packed) = (None, None);
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (UNPACKED, 5) => unpacked = Some(self.signed()?),
                (PACKED, 5) => packed = Some(self.signed()?),
                _ => self.skip(kind, 0)?,
            }
        }
        let size = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok()).ok_or_else(damaged);
        Ok((size(unpacked)?, size(packed)?))
    }

    /// Reads the type of the next field, and stores its field id in `id`. Returns `None` at the end of the
    /// structure.
    fn field(&mut self, id: &mut i64) -> io::Result<Option<u8>> {
        let head = self.byte()?;
        let kind = head & 0x0f;
        if kind == 0 {
            return Ok(None);
        }
        *id = match head >> 4 {
            0 => self.signed()?,
            more => id.checked_add(i64::from(more)).ok_or_else(damaged)?,
        };
        Ok(Some(kind))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(damaged());
        }
        match kind {
            // Booleans are encoded in the field header.
            1 | 2 => Ok(()),
            3 => self.byte().map(|_| ()),
            4..=6 => self.signed().map(|_| ()),
            7 => self.pass(8),
            8 => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
                (0..count).try_for_each(|_| self.skip_element(head & 0x0f, depth))
            }
            11 => {
                let count = self.unsigned()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0x0f, depth)
                })
            }
            12 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(damaged()),
        }
    }

    /// Skips an element of a list. In a list, booleans take a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if kind == 1 || kind == 2 { self.byte().map(|_| ()) } else { self.skip(kind, depth + 1) }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let byte = *self.input.fill_buf()?.first().ok_or_else(damaged)?;
        self.input.consume(1);
        self.at += 1;
        Ok(byte)
    }

    fn pass(&mut self, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let there = self.input.fill_buf()?.len() as u64;
            if there == 0 {
                return Err(damaged());
            }
            let step = there.min(bytes);
            self.input.consume(usize::try_from(step).map_err(|_| damaged())?);
            self.at += step;
            bytes -= step;
        }
        Ok(())
    }

    fn unsigned(&mut self) -> io::Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    /// Zigzag encoding: the sign is the lowest bit.
    fn signed(&mut self) -> io::Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use std::sync::Arc;

    #[test]
    fn sizes_of_pages_are_found_without_unpacking_them() {
        let rows = 200_000;
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("{:->90}", i % 7919))));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_from_iter([("text", texts), ("number", numbers)]).unwrap();
        let file = tempfile::tempfile().unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(100_000)
            .build();
        let mut writer =
            ArrowWriter::try_new(file.try_clone().unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let stored = Stored::File(file.try_clone().unwrap());
        let reader = SerializedFileReader::new(file).unwrap();
        for (c, column) in reader.metadata().row_group(0).columns().iter().enumerate() {
            let (start, length) = column.byte_range();
            let told = unpacked(&stored, start, start + length).unwrap();
            let pages = reader.get_row_group(0).unwrap().get_column_page_reader(c).unwrap();
            let found: Vec<u64> = pages.map(|p| p.unwrap().buffer().len() as u64).collect();
            assert_eq!((told.largest, told.all), (*found.iter().max().unwrap(), found.iter().sum()));
            assert!(unpacked(&stored, start + 1, start + length).is_err() || c > 0);
            assert!(unpacked(&stored, start, start + length - 1).is_err());
        }
    }

    #[test]
    fn any_bytes_give_a_size_or_an_error() {
        let mut bytes = vec![0xffu8; 4096];
        for i in 0..2000u64 {
            let at = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % bytes.len();
            bytes[at] = (i.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8;
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &bytes).unwrap();
            let _ = unpacked(&Stored::File(file), 0, bytes.len() as u64);
        }
    }
}
