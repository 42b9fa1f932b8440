//! One column of a row group, encoded as Parquet from an Arrow array.
//!
//! The general writer hashes every value of every row to build dictionaries. Here integers are written as
//! differences (`DELTA_BINARY_PACKED`), floats and flags plainly, and texts with the dictionary that the Arrow
//! array already has, so that a row costs a few instructions. A column is one page, after its dictionary.
//! What is less than `PACKED_FROM` bytes is not compressed: starting a frame would cost more than it saves.

use super::bits::{delta_packed, hybrid};
use crate::model::varint;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::io;

/// Bytes from which a column is compressed.
const PACKED_FROM: usize = 256;

/// Longest text that a column's least and greatest value are told for.
const BOUND_MAX: usize = 64;

/// Encodes columns, one after the other.
pub struct Encoder {
    zstd: zstd::bulk::Compressor<'static>,
    ints: Vec<i64>,
    keys: Vec<u32>,
}

/// The values of a page, encoded.
struct Values {
    bytes: Vec<u8>,
    encoding: Encoding,
    dictionary: Option<Dictionary>,
    statistics: Statistics,
}

struct Dictionary {
    bytes: Vec<u8>,
    len: u32,
}

impl Encoder {
    /// # Errors
    /// When the compressor cannot be made.
    pub fn new() -> io::Result<Self> {
        Ok(Self { zstd: zstd::bulk::Compressor::new(1)?, ints: Vec::new(), keys: Vec::new() })
    }

    /// A column's bytes, and what the row group says about them.
    ///
    /// # Errors
    /// When the array has no type of a table, or is too long for a page.
    pub fn column(
        &mut self,
        column: &ColumnDescPtr,
        array: &ArrayRef,
    ) -> io::Result<(impl ChunkReader + use<>, ColumnCloseResult)> {
        let rows = u32::try_from(array.len()).map_err(io::Error::other)?;
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        let values = self.values(array, nulls)?;
        let mut page = Vec::with_capacity(values.bytes.len() + array.len() / 8 + 16);
        if column.max_def_level() > 0 {
            levels(array.len(), nulls, &mut page);
        }
        page.extend_from_slice(&values.bytes);
        let Values { encoding, dictionary, statistics, bytes } = values;
        drop(bytes);
        let plain = page.len() + dictionary.as_ref().map_or(0, |d| d.bytes.len());
        let is_packed = plain >= PACKED_FROM;
        let mut sink = TrackedWrite::new(Vec::with_capacity(plain / 2 + 64));
        let mut out = SerializedPageWriter::new(&mut sink);
        let mut unpacked = 0;
        let mut encodings = vec![Encoding::RLE, encoding];
        let mut dictionary_at = None;
        if let Some(d) = dictionary {
            let size = d.bytes.len();
            let buf = self.pack(d.bytes, is_packed)?.into();
            let page = Page::DictionaryPage { buf, num_values: d.len, encoding: Encoding::PLAIN, is_sorted: false };
            let spec = out.write_page(CompressedPage::new(page, size)).map_err(io::Error::other)?;
            encodings.push(Encoding::PLAIN);
            unpacked += spec.uncompressed_size;
            dictionary_at = Some(spec.offset as i64);
        }
        let size = page.len();
        let page = Page::DataPage {
            buf: self.pack(page, is_packed)?.into(),
            num_values: rows,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let spec = out.write_page(CompressedPage::new(page, size)).map_err(io::Error::other)?;
        unpacked += spec.uncompressed_size;
        let written = sink.bytes_written();
        let packing = if is_packed { Compression::ZSTD(ZstdLevel::default()) } else { Compression::UNCOMPRESSED };
        let metadata = ColumnChunkMetaData::builder(ColumnDescPtr::clone(column))
            .set_compression(packing)
            .set_encodings(encodings)
            .set_total_compressed_size(written as i64)
            .set_total_uncompressed_size(unpacked as i64)
            .set_num_values(i64::from(rows))
            .set_dictionary_page_offset(dictionary_at)
            .set_data_page_offset(spec.offset as i64)
            .set_statistics(statistics)
            .build()
            .map_err(io::Error::other)?;
        let close = ColumnCloseResult {
            bytes_written: written as u64,
            rows_written: u64::from(rows),
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let bytes = sink.into_inner().map_err(io::Error::other)?;
        Ok((readable(bytes), close))
    }

    fn pack(&mut self, bytes: Vec<u8>, is_packed: bool) -> io::Result<Vec<u8>> {
        if is_packed { self.zstd.compress(&bytes) } else { Ok(bytes) }
    }

    /// The values that are not null.
    fn values(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>) -> io::Result<Values> {
        let missing = nulls.map_or(0, |n| n.null_count() as u64);
        let count = Some(missing);
        if missing == array.len() as u64 {
            let statistics = none(array.data_type(), count)?;
            return Ok(Values { bytes: Vec::new(), encoding: Encoding::PLAIN, dictionary: None, statistics });
        }
        let integers =
            |bytes, statistics| Values { bytes, encoding: Encoding::DELTA_BINARY_PACKED, dictionary: None, statistics };
        let plain = |bytes, statistics| Values { bytes, encoding: Encoding::PLAIN, dictionary: None, statistics };
        self.ints.clear();
        match array.data_type() {
            DataType::Int64 => {
                let a = array.as_primitive::<Int64Type>().values();
                valid(a, nulls, |v| self.ints.push(v));
                let (min, max) = (self.ints.iter().copied().min(), self.ints.iter().copied().max());
                Ok(integers(delta_packed::<false>(&self.ints), Statistics::int64(min, max, None, count, false)))
            }
            DataType::UInt64 => {
                let a = array.as_primitive::<UInt64Type>().values();
                valid(a, nulls, |v| self.ints.push(v as i64));
                let of = || self.ints.iter().map(|v| *v as u64);
                let (min, max) = (of().min().map(|v| v as i64), of().max().map(|v| v as i64));
                Ok(integers(delta_packed::<false>(&self.ints), Statistics::int64(min, max, None, count, false)))
            }
            DataType::UInt32 => {
                let a = array.as_primitive::<UInt32Type>().values();
                valid(a, nulls, |v| self.ints.push(i64::from(v)));
                let (min, max) = (self.ints.iter().copied().min(), self.ints.iter().copied().max());
                let statistics = Statistics::int32(min.map(|v| v as i32), max.map(|v| v as i32), None, count, false);
                Ok(integers(delta_packed::<true>(&self.ints), statistics))
            }
            DataType::Float64 => {
                let a = array.as_primitive::<Float64Type>().values();
                let mut bytes = Vec::with_capacity(8 * a.len());
                let mut bounds = Some((f64::INFINITY, f64::NEG_INFINITY));
                valid(a, nulls, |v| {
                    bytes.extend_from_slice(&v.to_le_bytes());
                    bounds = bounds.filter(|_| !v.is_nan()).map(|(min, max)| (v.min(min), v.max(max)));
                });
                // either zero may stand for both
                let (min, max) = bounds.map(|(a, b)| (if a == 0.0 { -0.0 } else { a }, b + 0.0)).unzip();
                Ok(plain(bytes, Statistics::double(min, max, None, count, false)))
            }
            DataType::Boolean => {
                let a = array.as_boolean();
                self.keys.clear();
                let set = (0..a.len()).filter(|&i| nulls.is_none_or(|n| n.is_valid(i)));
                self.keys.extend(set.map(|i| u32::from(a.value(i))));
                let (min, max) = (self.keys.contains(&0), self.keys.contains(&1));
                let mut bytes = vec![0u8; self.keys.len().div_ceil(8)];
                self.keys.iter().enumerate().for_each(|(i, v)| bytes[i / 8] |= (*v as u8) << (i % 8));
                Ok(plain(bytes, Statistics::boolean(Some(!min), Some(max), None, count, false)))
            }
            _ => self.texts(array, nulls, count),
        }
    }

    fn texts(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>, count: Option<u64>) -> io::Result<Values> {
        let odd = || io::Error::other(format!("no table has a column of type {}", array.data_type()));
        let texts = array.as_dictionary_opt::<Int32Type>().ok_or_else(odd)?;
        let words = texts.values().as_string_opt::<i32>().ok_or_else(odd)?;
        self.keys.clear();
        let keys = &mut self.keys;
        valid(texts.keys().values(), nulls, |k| keys.push(k as u32));
        let mut bytes = Vec::with_capacity(words.value_data().len() + 4 * words.len());
        let (mut min, mut max) = (None::<&str>, None::<&str>);
        for i in 0..words.len() {
            let word = words.value(i);
            bytes.extend_from_slice(&(word.len() as u32).to_le_bytes());
            bytes.extend_from_slice(word.as_bytes());
            min = Some(min.map_or(word, |m| m.min(word)));
            max = Some(max.map_or(word, |m| m.max(word)));
        }
        let bound = |w: Option<&str>| w.filter(|w| w.len() <= BOUND_MAX).map(ByteArray::from);
        let (min, max) = bound(min).zip(bound(max)).unzip();
        let dictionary = Dictionary { bytes, len: words.len() as u32 };
        let width = (u32::BITS - (dictionary.len.saturating_sub(1)).leading_zeros()) as u8;
        let mut bytes = Vec::with_capacity(self.keys.len() * usize::from(width) / 8 + 16);
        bytes.push(width);
        hybrid(&self.keys, width, &mut bytes);
        Ok(Values {
            bytes,
            encoding: Encoding::RLE_DICTIONARY,
            dictionary: Some(dictionary),
            statistics: Statistics::byte_array(min, max, None, count, false),
        })
    }
}

/// Bytes as what a row group copies from.
fn readable(bytes: Vec<u8>) -> impl ChunkReader + use<> {
    // the reader's own type of bytes is named by a page only
    let page = Page::DictionaryPage { buf: bytes.into(), num_values: 0, encoding: Encoding::PLAIN, is_sorted: false };
    page.buffer().clone()
}

fn valid<T: Copy>(values: &[T], nulls: Option<&NullBuffer>, mut take: impl FnMut(T)) {
    match nulls {
        None => values.iter().for_each(|v| take(*v)),
        Some(n) => n.valid_indices().for_each(|i| take(values[i])),
    }
}

/// Statistics of a column without values.
fn none(ty: &DataType, nulls: Option<u64>) -> io::Result<Statistics> {
    Ok(match ty {
        DataType::Int64 | DataType::UInt64 => Statistics::int64(None, None, None, nulls, false),
        DataType::UInt32 => Statistics::int32(None, None, None, nulls, false),
        DataType::Float64 => Statistics::double(None, None, None, nulls, false),
        DataType::Boolean => Statistics::boolean(None, None, None, nulls, false),
        _ => Statistics::byte_array(None, None, None, nulls, false),
    })
}

/// Which rows have a value: one run, or the bitmap as it stands; behind its length.
fn levels(rows: usize, nulls: Option<&NullBuffer>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match nulls {
        Some(n) if n.null_count() < rows => {
            varint::write(out, ((rows.div_ceil(8) as u64) << 1) | 1);
            let bitmap = n.inner().sliced();
            let (whole, rest) = (rows / 8, rows % 8);
            out.extend_from_slice(&bitmap.as_slice()[..whole]);
            if rest > 0 {
                out.push(bitmap.as_slice()[whole] & ((1u8 << rest) - 1));
            }
        }
        some => {
            varint::write(out, (rows as u64) << 1);
            out.push(u8::from(some.is_none()));
        }
    }
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}
