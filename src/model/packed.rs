//! Batches at rest: small, for the time between a rank's map and the reduce of all ranks.
//!
//! An Arrow column costs some hundred bytes before its first value, and a rank leaves some hundred columns with a few rows
//! each. A job of a thousand ranks would hold little but that. Packed, a batch is its values alone:
//!
//! ```text
//!   batch    rows, then each column
//!   column   0, or 1 and a byte per row that says whether it has a value; then
//!            integers   differences to the row before (the first to 0), zigzag, 7 bits a byte
//!            floats     8 bytes each, as they are
//!            texts      number of distinct texts, each with its length; then each row's index, as integers
//! ```
//!
//! All of it is compressed once more by zstd. What is opened is what was packed, value by value; it lives in memory only,
//! so there is no version and no check.

use super::schema::{Batch, TableSpec, assemble};
use super::strings::Interner;
use super::varint::{self, unfolded, zigzag};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use std::sync::Arc;

/// Tables of one rank, packed.
#[derive(Debug, Clone, Default)]
pub struct Packed {
    specs: Box<[&'static TableSpec]>,
    bytes: Bytes,
}

impl Packed {
    pub fn new(batches: &[Batch]) -> Self {
        let mut raw = Vec::new();
        for b in batches {
            varint::write(&mut raw, b.len() as u64);
            b.rows.columns().iter().for_each(|c| write_column(&mut raw, c));
        }
        Self { specs: batches.iter().map(|b| b.spec).collect(), bytes: Bytes::new(raw) }
    }

    /// The batches as they were.
    pub fn open(&self) -> Vec<Batch> {
        let raw = self.bytes.open();
        let mut from = Reader { raw: &raw };
        let batch = |spec: &&'static TableSpec| {
            let rows = from.number() as usize;
            let schema = spec.schema();
            assemble(spec, schema.fields().iter().map(|f| from.column(f.data_type(), rows)).collect())
        };
        self.specs.iter().map(batch).collect()
    }

    /// Memory that it takes, bytes.
    pub fn size(&self) -> usize {
        self.bytes.packed.len() + size_of_val(&*self.specs)
    }
}

/// Texts of an interner, packed.
#[derive(Debug, Clone, Default)]
pub struct PackedTexts(Bytes);

impl PackedTexts {
    pub fn new(texts: &Interner) -> Self {
        let mut raw = Vec::new();
        for (_, text) in texts.iter() {
            varint::write(&mut raw, text.len() as u64);
            raw.extend(text.as_bytes());
        }
        Self(Bytes::new(raw))
    }

    /// The texts, by id.
    pub fn open(&self) -> Vec<String> {
        let raw = self.0.open();
        let mut from = Reader { raw: &raw };
        let mut texts = Vec::new();
        while !from.raw.is_empty() {
            let length = from.number() as usize;
            texts.push(String::from_utf8_lossy(from.take(length)).into_owned());
        }
        texts
    }
}

/// Bytes, compressed where that gains something.
#[derive(Debug, Clone, Default)]
struct Bytes {
    packed: Box<[u8]>,
    /// Bytes before compression; 0: they are not compressed.
    unpacked: u32,
}

/// Below this many bytes compression gains nothing.
const SMALL: usize = 128;

impl Bytes {
    fn new(raw: Vec<u8>) -> Self {
        if let (true, Ok(unpacked)) = (raw.len() > SMALL, u32::try_from(raw.len()))
            && let Ok(packed) = zstd::bulk::compress(&raw, 1)
        {
            return Self { packed: packed.into_boxed_slice(), unpacked };
        }
        Self { packed: raw.into_boxed_slice(), unpacked: 0 }
    }

    fn open(&self) -> Vec<u8> {
        match self.unpacked {
            0 => self.packed.to_vec(),
            // written above by this process: no input can make it fail
            n => zstd::bulk::decompress(&self.packed, n as usize).expect("what was compressed can be decompressed"),
        }
    }
}

fn write_integers(out: &mut Vec<u8>, values: impl Iterator<Item = i64>) {
    let mut before = 0_i64;
    for v in values {
        let d = v.wrapping_sub(before);
        varint::write(out, zigzag(d));
        before = v;
    }
}

fn write_column(out: &mut Vec<u8>, column: &ArrayRef) {
    match column.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            out.push(1);
            out.extend(nulls.iter().map(u8::from));
        }
        _ => out.push(0),
    }
    match column.data_type() {
        DataType::Int64 => write_integers(out, column.as_primitive::<Int64Type>().values().iter().copied()),
        DataType::UInt32 => {
            write_integers(out, column.as_primitive::<UInt32Type>().values().iter().map(|v| i64::from(*v)));
        }
        DataType::UInt64 => {
            write_integers(out, column.as_primitive::<UInt64Type>().values().iter().map(|v| v.cast_signed()));
        }
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().values().iter().for_each(|v| out.extend(v.to_bits().to_le_bytes()));
        }
        DataType::Boolean => out.extend(column.as_boolean().values().iter().map(u8::from)),
        _ => {
            let texts = column.as_dictionary::<Int32Type>();
            let values = texts.values().as_string::<i32>();
            varint::write(out, values.len() as u64);
            for text in values.iter().map(Option::unwrap_or_default) {
                varint::write(out, text.len() as u64);
                out.extend(text.as_bytes());
            }
            write_integers(out, texts.keys().values().iter().map(|k| i64::from(*k)));
        }
    }
}

struct Reader<'a> {
    raw: &'a [u8],
}

impl Reader<'_> {
    fn take(&mut self, n: usize) -> &[u8] {
        let (head, rest) = self.raw.split_at(n);
        self.raw = rest;
        head
    }

    fn number(&mut self) -> u64 {
        let mut rest = self.raw.iter();
        let n = varint::read(&mut rest).expect("a number that was written");
        self.raw = rest.as_slice();
        n
    }

    fn integers<T>(&mut self, rows: usize, to: impl Fn(i64) -> T) -> Vec<T> {
        let mut before = 0_i64;
        let next = |_| {
            before = before.wrapping_add(unfolded(self.number()));
            to(before)
        };
        (0..rows).map(next).collect()
    }

    fn column(&mut self, kind: &DataType, rows: usize) -> ArrayRef {
        let nulls = match self.take(1)[0] {
            0 => None,
            _ => Some(NullBuffer::from_iter(self.take(rows).iter().map(|b| *b == 1))),
        };
        match kind {
            DataType::Int64 => Arc::new(Int64Array::new(self.integers(rows, |v| v).into(), nulls)),
            DataType::UInt32 => Arc::new(UInt32Array::new(self.integers(rows, |v| v as u32).into(), nulls)),
            DataType::UInt64 => Arc::new(UInt64Array::new(self.integers(rows, i64::cast_unsigned).into(), nulls)),
            DataType::Float64 => {
                let (eight, _) = self.take(rows * 8).as_chunks::<8>();
                let values: Vec<f64> = eight.iter().map(|b| f64::from_bits(u64::from_le_bytes(*b))).collect();
                Arc::new(Float64Array::new(values.into(), nulls))
            }
            DataType::Boolean => Arc::new(BooleanArray::new(self.take(rows).iter().map(|b| *b == 1).collect(), nulls)),
            _ => {
                let distinct = self.number() as usize;
                let (mut text, mut ends) = (Vec::new(), vec![0_i32]);
                for _ in 0..distinct {
                    let length = self.number() as usize;
                    text.extend_from_slice(self.take(length));
                    ends.push(text.len() as i32);
                }
                let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
                let values = StringArray::new(ends, text.into(), None);
                let keys = Int32Array::new(self.integers(rows, |v| v as i32).into(), nulls);
                Arc::new(DictionaryArray::new(keys, Arc::new(values)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schema::Text;
    use crate::table;
    use proptest::prelude::*;

    table! {
        /// One row of every kind of column.
        struct Every, EveryRow = "every" by "rank" {
            rank: u32, "", "A cell.";
            ts_ns: i64, "ns", "A cell.";
            at_ns: Option<i64>, "ns", "A cell.";
            size: Option<u64>, "bytes", "A cell.";
            ratio: f64, "", "A cell.";
            share: Option<f64>, "", "A cell.";
            is_it: bool, "", "A cell.";
            was_it: Option<bool>, "", "A cell.";
            name: Text, "", "A cell.";
            host: Option<Text>, "", "A cell.";
        }
    }

    type Row = ((u32, i64, Option<i64>, Option<u64>, f64), (Option<f64>, bool, Option<bool>, String, Option<String>));

    fn batch(rows: &[Row]) -> Batch {
        let mut table = Every::default();
        for ((rank, ts_ns, at_ns, size, ratio), (share, is_it, was_it, name, host)) in rows {
            table.push(EveryRow {
                rank: *rank,
                ts_ns: *ts_ns,
                at_ns: *at_ns,
                size: *size,
                ratio: *ratio,
                share: *share,
                is_it: *is_it,
                was_it: *was_it,
                name,
                host: host.as_deref(),
            });
        }
        table.finish()
    }

    proptest! {
        #[test]
        fn what_is_opened_is_what_was_packed(rows in proptest::collection::vec(any::<Row>(), 0..40)) {
            let batches = [batch(&rows), batch(&[]), batch(&rows[rows.len() / 2..])];
            let opened = Packed::new(&batches).open();
            prop_assert_eq!(opened.len(), 3);
            for (a, b) in batches.iter().zip(&opened) {
                prop_assert_eq!(a.spec.name, b.spec.name);
                prop_assert_eq!(&a.rows, &b.rows);
            }
        }
    }

    #[test]
    fn texts_are_opened_by_their_ids() {
        let mut texts = Interner::default();
        let names: Vec<String> = (0..200).map(|i| format!("gemm_{}", i * i)).collect();
        for name in &names {
            texts.intern(name);
        }
        let opened = PackedTexts::new(&texts).open();
        assert_eq!((opened.len(), opened[0].as_str(), &opened[1..]), (201, "", &names[..]));
        assert_eq!(PackedTexts::default().open(), Vec::<String>::new());
    }

    #[test]
    fn a_few_rows_are_packed_in_far_less_than_arrow_takes() {
        let rows: Vec<Row> =
            (0..4).map(|i| ((7, i, None, None, 0.5), (None, true, None, "gemm".into(), None))).collect();
        let one = batch(&rows);
        assert!(Packed::new(std::slice::from_ref(&one)).size() * 10 < one.rows.get_array_memory_size());
    }
}
