//! Batches at rest: small, for the time between a rank's map and the reduce of all ranks.
//!
//! An Arrow column costs some hundred bytes before its first value, and a rank leaves some hundred columns with a few rows
//! each. A job of a thousand ranks would hold little but that. Packed, what a rank leaves is its values alone:
//!
//! ```text
//!   rank     number of tables, and of each which it is and its rows; then each table's columns
//!   column   0, or 1 and a byte per row that says whether it has a value; then
//!            integers   differences to the row before (the first to 0), zigzag, 7 bits a byte
//!            floats     8 bytes each, as they are
//!            texts      number of distinct texts, each with its length; then each row's index, as integers
//! ```
//!
//! Ranks of one job leave much the same, so several are compressed together, by zstd. Opened, all ranks' rows of a table
//! are one batch, of which each rank has a slice. What is opened is what was packed, value by value; it lives in memory
//! only, so there is no version and no check.

use crate::table::appended::Appended;
use crate::table::schema::{Batch, TableSpec, assemble};
use crate::trace::varint;
use crate::trace::varint::{unfolded, zigzag};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of ranks that are compressed together.
const BLOCK: usize = 64 << 10;

/// Strength of the compression.
const LEVEL: i32 = 3;

/// Tables of many ranks, packed.
#[derive(Debug, Default)]
pub struct Store(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Tables that occur.
    specs: Vec<&'static TableSpec>,
    blocks: Vec<Block>,
    /// All blocks, one behind the other: pieces of their own would lie scattered among what comes and goes.
    packed: Vec<u8>,
    /// Ranks of the next block.
    open: Vec<u8>,
    /// The block that was opened last: ranks are asked for in their order.
    last: Option<(usize, Vec<u8>)>,
}

#[derive(Debug)]
struct Block {
    /// Where in the packed bytes.
    range: Range<usize>,
    /// Length before compression, bytes.
    unpacked: usize,
}

/// Where a rank's tables are.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    block: usize,
    at: usize,
    len: usize,
}

impl Place {
    /// Length before compression, bytes.
    pub fn bytes(&self) -> usize {
        self.len
    }
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // a thread that panicked has ended the run anyway
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rank's tables.
    pub fn put(&self, tables: &[Batch]) -> Place {
        let mut inner = self.lock();
        let which: Vec<usize> = tables.iter().map(|b| inner.which(b.spec)).collect();
        let (block, at) = (inner.blocks.len(), inner.open.len());
        let out = &mut inner.open;
        varint::write(out, tables.len() as u64);
        for (b, which) in tables.iter().zip(which) {
            varint::write(out, which as u64);
            varint::write(out, b.len() as u64);
        }
        tables.iter().flat_map(|b| b.rows.columns()).for_each(|c| write_column(out, c));
        let len = out.len() - at;
        if out.len() >= BLOCK {
            inner.close();
        }
        Place { block, at, len }
    }

    /// The tables of ranks as they were, in the order of `places`.
    pub fn open(&self, places: &[Place]) -> Vec<Vec<Batch>> {
        let mut inner = self.lock();
        let heads: Vec<Vec<(usize, usize)>> = places.iter().map(|p| inner.at(*p).head()).collect();
        let mut rows = vec![0; inner.specs.len()];
        heads.iter().flatten().for_each(|(which, n)| rows[*which] += n);
        let new = |(spec, rows): (&&'static TableSpec, &usize)| -> Vec<Appended> {
            spec.schema().fields().iter().map(|f| Appended::with_capacity(f.data_type(), *rows)).collect()
        };
        let mut columns: Vec<Vec<Appended>> = inner.specs.iter().zip(&rows).map(new).collect();
        for (place, head) in places.iter().zip(&heads) {
            let mut from = inner.at(*place);
            from.head();
            head.iter().for_each(|(which, n)| columns[*which].iter_mut().for_each(|c| from.column(*n, c)));
        }
        let finish = |(&spec, columns): (&&'static TableSpec, Vec<Appended>)| {
            assemble(spec, columns.into_iter().map(Appended::finish).collect())
        };
        let whole: Vec<Batch> = inner.specs.iter().zip(columns).map(finish).collect();
        let mut taken = vec![0; whole.len()];
        let mut slice = |(which, n): (usize, usize)| {
            let at = taken[which];
            taken[which] += n;
            Batch { spec: whole[which].spec, rows: whole[which].rows.slice(at, n) }
        };
        heads.into_iter().map(|head| head.into_iter().map(&mut slice).collect()).collect()
    }
}

impl Inner {
    fn which(&mut self, spec: &'static TableSpec) -> usize {
        let known = self.specs.iter().position(|s| std::ptr::eq(*s, spec) || *s == spec);
        known.unwrap_or_else(|| {
            self.specs.push(spec);
            self.specs.len() - 1
        })
    }

    fn close(&mut self) {
        let packed = zstd::bulk::compress(&self.open, LEVEL).expect("bytes in memory can be compressed");
        let at = self.packed.len();
        self.packed.extend_from_slice(&packed);
        self.blocks.push(Block { range: at..self.packed.len(), unpacked: self.open.len() });
        self.open.clear();
    }

    fn at(&mut self, place: Place) -> Reader<'_> {
        let raw = match self.blocks.get(place.block) {
            None => &self.open,
            Some(block) => {
                if self.last.as_ref().is_none_or(|(b, _)| *b != place.block) {
                    // written above by this process: no input can make it fail
                    let raw = zstd::bulk::decompress(&self.packed[block.range.clone()], block.unpacked);
                    self.last = Some((place.block, raw.expect("what was compressed can be decompressed")));
                }
                self.last.as_ref().map_or(&self.open, |(_, raw)| raw)
            }
        };
        Reader { raw: &raw[place.at..place.at + place.len] }
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

impl<'a> Reader<'a> {
    /// Which tables, and the rows of each.
    fn head(&mut self) -> Vec<(usize, usize)> {
        let tables = self.number();
        (0..tables).map(|_| (self.number() as usize, self.number() as usize)).collect()
    }

    fn take(&mut self, n: usize) -> &'a [u8] {
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

    fn integers<T>(&mut self, rows: usize, to: impl Fn(i64) -> T) -> impl ExactSizeIterator<Item = T> {
        let mut before = 0_i64;
        (0..rows).map(move |_| {
            before = before.wrapping_add(unfolded(self.number()));
            to(before)
        })
    }

    /// Adds the next column, of so many rows.
    fn column(&mut self, rows: usize, to: &mut Appended) {
        let nulls = match self.take(1)[0] {
            0 => None,
            _ => Some(NullBuffer::from_iter(self.take(rows).iter().map(|b| *b == 1))),
        };
        let nulls = nulls.as_ref();
        match to {
            Appended::I64(to) => to.extend(self.integers(rows, |v| v), nulls),
            Appended::U32(to) => to.extend(self.integers(rows, |v| v as u32), nulls),
            Appended::U64(to) => to.extend(self.integers(rows, i64::cast_unsigned), nulls),
            Appended::F64(to) => {
                let (eight, _) = self.take(rows * 8).as_chunks::<8>();
                to.extend(eight.iter().map(|b| f64::from_bits(u64::from_le_bytes(*b))), nulls);
            }
            Appended::Flags(to) => to.extend(self.take(rows).iter().map(|b| *b == 1), nulls),
            Appended::Texts(to) => {
                let distinct = self.number();
                let mut words: Vec<&str> = Vec::with_capacity(distinct as usize);
                for _ in 0..distinct {
                    let length = self.number() as usize;
                    words.push(std::str::from_utf8(self.take(length)).unwrap_or_default());
                }
                to.extend(&words, self.integers(rows, |v| v as i32), nulls);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::table::schema::Text;
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
        fn what_is_opened_is_what_was_packed(ranks in proptest::collection::vec(proptest::collection::vec(any::<Row>(), 0..40), 1..5)) {
            let store = Store::default();
            let tables: Vec<[Batch; 3]> =
                ranks.iter().map(|r| [batch(r), batch(&[]), batch(&r[r.len() / 2..])]).collect();
            let places: Vec<Place> = tables.iter().map(|t| store.put(t)).collect();
            // whatever is asked for, in whatever order
            for places in [places.clone(), places.iter().rev().copied().collect()] {
                let opened = store.open(&places);
                prop_assert_eq!(opened.len(), tables.len());
                let is_first = places[0].at == 0 && places[0].block == 0;
                let expected: Vec<&[Batch; 3]> =
                    if is_first || tables.len() == 1 { tables.iter().collect() } else { tables.iter().rev().collect() };
                for (a, b) in expected.into_iter().zip(&opened) {
                    prop_assert_eq!(b.len(), 3);
                    for (a, b) in a.iter().zip(b) {
                        prop_assert_eq!(a.spec.name, b.spec.name);
                        prop_assert_eq!(&a.rows, &b.rows);
                    }
                }
            }
        }
    }

    fn few(rank: u32) -> Batch {
        let row = |i: i64| ((rank, i, None, None, 0.5), (None, true, None, format!("gemm_{}", i % 3), None));
        batch(&(0..4).map(row).collect::<Vec<Row>>())
    }

    #[test]
    fn ranks_of_several_blocks_are_opened_in_any_order() {
        let store = Store::default();
        let places: Vec<Place> = (0..3000).map(|rank| store.put(&[few(rank)])).collect();
        assert!(store.lock().blocks.len() > 1);
        let some = [2999, 0, 1500, 1].map(|i: usize| places[i]);
        let ranks: Vec<_> = store.open(&some).iter().map(|t| t[0].int("rank", 3)).collect();
        assert_eq!(ranks, [2999, 0, 1500, 1].map(Some));
    }

    #[test]
    fn a_few_rows_are_packed_in_far_less_than_arrow_takes() {
        let store = Store::default();
        (0..3000).for_each(|rank| {
            let _ = store.put(&[few(rank)]);
        });
        let packed = store.lock().packed.len();
        assert!(packed * 100 < few(0).rows.get_array_memory_size() * 3000);
    }
}
