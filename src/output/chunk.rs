//! One column of a row group, encoded as Parquet from an Arrow array.
//!
//! The general writer hashes every value of every row to build dictionaries. Here integers are written as
//! differences (`DELTA_BINARY_PACKED`), floats and flags plainly, and texts with the dictionary that the Arrow
//! array already has, so that a row costs a few instructions. A column is one page, after its dictionary.
//! What is less than `PACKED_FROM` bytes is not compressed: starting a frame would cost more than it saves.

use crate::output::bits::{delta_packed, hybrid};
use crate::output::thrift::Struct;
use crate::trace::varint;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use std::io;

/// Bytes from which a column is compressed.
const PACKED_FROM: usize = 256;

/// Memory that a buffer keeps between tables, bytes.
const RESTING: usize = 64 << 10;

/// Longest text that a column's least and greatest value are told for.
const BOUND_MAX: usize = 64;

/// Encodings, codecs and kinds of pages, as the format numbers them.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA_BINARY_PACKED: i32 = 5;
const RLE_DICTIONARY: i32 = 8;
const UNCOMPRESSED: i32 = 0;
const ZSTD: i32 = 6;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// Encodes columns, one after the other.
pub struct Encoder {
    zstd: zstd::bulk::Compressor<'static>,
    // memory that each column uses again
    ints: Vec<i64>,
    keys: Vec<u32>,
    page: Vec<u8>,
    packed: Vec<u8>,
    /// Columns that are encoded and not yet written.
    pub out: Vec<u8>,
}

/// What a file says about a column of a row group.
pub struct Chunk {
    pub rows: u32,
    /// Encodings that occur, by number.
    pub encodings: Vec<i32>,
    pub codec: i32,
    /// Length with the heads of its pages, bytes.
    pub packed: u64,
    /// The same before compression, bytes.
    pub unpacked: u64,
    /// Where the page with the values begins, behind the dictionary, bytes.
    pub values_at: u64,
    pub bounds: Bounds,
}

/// The least and the greatest value, in their own bytes, and how many there are not.
pub struct Bounds {
    pub nulls: u64,
    pub ends: Option<(Vec<u8>, Vec<u8>)>,
}

/// What the values of a page are encoded as.
struct Values {
    encoding: i32,
    dictionary: Option<Dictionary>,
    bounds: Bounds,
}

struct Dictionary {
    bytes: Vec<u8>,
    len: u32,
}

impl Encoder {
    /// # Errors
    /// When the compressor cannot be made.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            zstd: zstd::bulk::Compressor::new(1)?,
            ints: Vec::new(),
            keys: Vec::new(),
            page: Vec::new(),
            packed: Vec::new(),
            out: Vec::new(),
        })
    }

    /// Gives back what a long column has left: the next may come much later.
    pub fn rest(&mut self) {
        self.ints.clear();
        self.keys.clear();
        self.ints.shrink_to(RESTING / size_of::<i64>());
        self.keys.shrink_to(RESTING / size_of::<u32>());
        [&mut self.page, &mut self.packed, &mut self.out].into_iter().for_each(|buffer| {
            buffer.clear();
            buffer.shrink_to(RESTING);
        });
    }

    /// Appends a column's pages to `out`.
    ///
    /// # Errors
    /// When the array has no type of a table, or is too long for a page.
    pub fn column(&mut self, is_nullable: bool, array: &ArrayRef) -> io::Result<Chunk> {
        let rows = u32::try_from(array.len()).map_err(io::Error::other)?;
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        if is_nullable {
            levels(array.len(), nulls, &mut page);
        }
        let Values { encoding, dictionary, bounds } = self.values(array, nulls, &mut page)?;
        let plain = page.len() + dictionary.as_ref().map_or(0, |d| d.bytes.len());
        let is_packed = plain >= PACKED_FROM;
        let codec = if is_packed { ZSTD } else { UNCOMPRESSED };
        let (start, mut unpacked) = (self.out.len(), 0);
        let mut encodings = vec![RLE, encoding];
        if let Some(d) = dictionary {
            unpacked += self.page(DICTIONARY_PAGE, &d.bytes, codec, |s| {
                s.of(7, |s| {
                    s.i32(1, d.len as i32);
                    s.i32(2, PLAIN);
                    s.flag(3, false);
                });
            })?;
            encodings.push(PLAIN);
        }
        let values_at = (self.out.len() - start) as u64;
        unpacked += self.page(DATA_PAGE, &page, codec, |s| {
            s.of(5, |s| {
                s.i32(1, rows as i32);
                s.i32(2, encoding);
                s.i32(3, RLE);
                s.i32(4, RLE);
            });
        })?;
        self.page = page;
        encodings.sort_unstable();
        let packed = (self.out.len() - start) as u64;
        Ok(Chunk { rows, encodings, codec, packed, unpacked, values_at, bounds })
    }

    /// Appends a page; gives its length before compression.
    fn page(&mut self, kind: i32, bytes: &[u8], codec: i32, own: impl FnOnce(&mut Struct)) -> io::Result<u64> {
        let size = |bytes: &[u8]| i32::try_from(bytes.len()).map_err(io::Error::other);
        let written = if codec == ZSTD {
            self.packed.clear();
            self.packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
            self.zstd.compress_to_buffer(bytes, &mut self.packed)?;
            &self.packed
        } else {
            bytes
        };
        let (before, after, start) = (size(bytes)?, size(written)?, self.out.len());
        Struct::write(&mut self.out, |s| {
            s.i32(1, kind);
            s.i32(2, before);
            s.i32(3, after);
            own(s);
        });
        let head = self.out.len() - start;
        self.out.extend_from_slice(written);
        Ok((head + bytes.len()) as u64)
    }

    /// Appends the values that are not null.
    fn values(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>, out: &mut Vec<u8>) -> io::Result<Values> {
        let missing = nulls.map_or(0, |n| n.null_count() as u64);
        let of = |encoding, ends| Values { encoding, dictionary: None, bounds: Bounds { nulls: missing, ends } };
        if missing == array.len() as u64 {
            return Ok(of(PLAIN, None));
        }
        self.ints.clear();
        let ends = match array.data_type() {
            DataType::Int64 => {
                let all = array.as_primitive::<Int64Type>().values();
                let some = match nulls {
                    None => &all[..],
                    Some(_) => {
                        valid(all, nulls, |v| self.ints.push(v));
                        &self.ints[..]
                    }
                };
                delta_packed::<false>(some, out);
                ends(some.iter().copied()).map(|e| e.map(|v| v.to_le_bytes().to_vec()))
            }
            DataType::UInt64 => {
                let all = array.as_primitive::<UInt64Type>().values();
                valid(all, nulls, |v| self.ints.push(v as i64));
                delta_packed::<false>(&self.ints, out);
                ends(self.ints.iter().map(|v| *v as u64)).map(|e| e.map(|v| v.to_le_bytes().to_vec()))
            }
            DataType::UInt32 => {
                let all = array.as_primitive::<UInt32Type>().values();
                valid(all, nulls, |v| self.ints.push(i64::from(v)));
                delta_packed::<true>(&self.ints, out);
                ends(self.ints.iter().map(|v| *v as u32)).map(|e| e.map(|v| v.to_le_bytes().to_vec()))
            }
            DataType::Float64 => {
                let all = array.as_primitive::<Float64Type>().values();
                out.reserve(8 * (all.len() - missing as usize));
                let mut found = Some((f64::INFINITY, f64::NEG_INFINITY));
                valid(all, nulls, |v| {
                    out.extend_from_slice(&v.to_le_bytes());
                    found = found.filter(|_| !v.is_nan()).map(|(min, max)| (v.min(min), v.max(max)));
                });
                // either zero may stand for both
                let found = found.map(|(a, b)| [if a == 0.0 { -0.0 } else { a }, b + 0.0]);
                return Ok(of(PLAIN, found.map(|e| e.map(|v| v.to_le_bytes().to_vec()).into())));
            }
            DataType::Boolean => {
                let a = array.as_boolean();
                self.keys.clear();
                let set = (0..a.len()).filter(|&i| nulls.is_none_or(|n| n.is_valid(i)));
                self.keys.extend(set.map(|i| u32::from(a.value(i))));
                let (no, yes) = (self.keys.contains(&0), self.keys.contains(&1));
                let bits = |eight: &[u32]| (0..).zip(eight).fold(0, |all, (k, v)| all | (*v as u8) << k);
                out.extend(self.keys.chunks(8).map(bits));
                return Ok(of(PLAIN, Some((vec![u8::from(!no)], vec![u8::from(yes)]))));
            }
            _ => return self.texts(array, nulls, missing, out),
        };
        Ok(of(DELTA_BINARY_PACKED, ends.map(Into::into)))
    }

    fn texts(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        missing: u64,
        out: &mut Vec<u8>,
    ) -> io::Result<Values> {
        let odd = || io::Error::other(format!("no table has a column of type {}", array.data_type()));
        let texts = array.as_dictionary_opt::<Int32Type>().ok_or_else(odd)?;
        let words = texts.values().as_string_opt::<i32>().ok_or_else(odd)?;
        // a column may be a part of a longer one: the dictionary has the texts that occur here, in their order
        let (mut position, mut order) = (vec![u32::MAX; words.len()], Vec::new());
        self.keys.clear();
        valid(texts.keys().values(), nulls, |k| {
            let own = &mut position[k as usize];
            if *own == u32::MAX {
                *own = order.len() as u32;
                order.push(k as usize);
            }
            self.keys.push(*own);
        });
        let length: usize = order.iter().map(|i| 4 + words.value_length(*i) as usize).sum();
        let mut bytes = Vec::with_capacity(length);
        let (mut min, mut max) = (None::<&str>, None::<&str>);
        for word in order.iter().map(|i| words.value(*i)) {
            bytes.extend_from_slice(&(word.len() as u32).to_le_bytes());
            bytes.extend_from_slice(word.as_bytes());
            min = Some(min.map_or(word, |m| m.min(word)));
            max = Some(max.map_or(word, |m| m.max(word)));
        }
        let bound = |w: Option<&str>| w.filter(|w| w.len() <= BOUND_MAX).map(|w| w.as_bytes().to_vec());
        let dictionary = Dictionary { bytes, len: order.len() as u32 };
        let width = (u32::BITS - (dictionary.len.saturating_sub(1)).leading_zeros()) as u8;
        out.push(width);
        hybrid(&self.keys, width, out);
        let bounds = Bounds { nulls: missing, ends: bound(min).zip(bound(max)) };
        Ok(Values { encoding: RLE_DICTIONARY, dictionary: Some(dictionary), bounds })
    }
}

/// The least and the greatest value.
fn ends<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<[T; 2]> {
    values.fold(None, |e: Option<[T; 2]>, v| Some(e.map_or([v, v], |[a, b]| [a.min(v), b.max(v)])))
}

fn valid<T: Copy>(values: &[T], nulls: Option<&NullBuffer>, mut take: impl FnMut(T)) {
    match nulls {
        None => values.iter().for_each(|v| take(*v)),
        Some(n) => n.valid_indices().for_each(|i| take(values[i])),
    }
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
