//! The end of a Parquet file: its schema, and where each column of each row group is.
//!
//! It is kept as the bytes that it will be, some seventy for a column of a row group, and written once the file is
//! whole. As objects of a Parquet library the same notes take ten times as much, and a large job has tens of thousands.

use crate::output::chunk::Chunk;
use crate::output::thrift::Struct;
use arrow::datatypes::{DataType, Field, SchemaRef};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};

/// Physical types, as the format numbers them.
const BOOLEAN: i32 = 0;
const INT32: i32 = 1;
const INT64: i32 = 2;
const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;

/// Types that the physical ones stand for, for old readers.
const UTF8: i32 = 0;
const UINT_32: i32 = 13;
const UINT_64: i32 = 14;

/// Version of the format.
const VERSION: i32 = 1;

/// Row groups of a file, as its end tells of them.
#[derive(Default)]
pub struct Footer {
    groups: Vec<u8>,
    count: usize,
    rows: i64,
}

/// A column in the file.
struct Placed<'a> {
    field: &'a Field,
    /// Where it begins, bytes.
    at: u64,
    chunk: &'a Chunk,
}

fn physical(kind: &DataType) -> i32 {
    match kind {
        DataType::Boolean => BOOLEAN,
        DataType::UInt32 => INT32,
        DataType::Int64 | DataType::UInt64 => INT64,
        DataType::Float64 => DOUBLE,
        _ => BYTE_ARRAY,
    }
}

impl Footer {
    /// Notes a row group whose columns follow each other from `at` on. Their bytes are not needed.
    pub fn push(&mut self, schema: &SchemaRef, mut at: u64, chunks: &[Chunk]) {
        let start = at;
        let rows = chunks.first().map_or(0, |c| i64::from(c.rows));
        let (unpacked, packed) = chunks.iter().fold((0, 0), |(u, p), c| (u + c.unpacked, p + c.packed));
        let ordinal = i16::try_from(self.count);
        Struct::write(&mut self.groups, |s| {
            s.structs(1, chunks.len(), |out| {
                for (field, chunk) in schema.fields().iter().zip(chunks) {
                    column(out, &Placed { field, at, chunk });
                    at += chunk.packed;
                }
            });
            s.i64(2, unpacked as i64);
            s.i64(3, rows);
            s.i64(5, start as i64);
            s.i64(6, packed as i64);
            if let Ok(n) = ordinal {
                s.i16(7, n);
            }
        });
        self.count += 1;
        self.rows += rows;
    }

    /// The end of the file, but for its length and the magic bytes.
    pub fn finish(self, schema: &SchemaRef) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.groups.len() + 256 * (schema.fields().len() + 1));
        Struct::write(&mut out, |s| {
            s.i32(1, VERSION);
            s.structs(2, schema.fields().len() + 1, |out| {
                Struct::write(out, |s| {
                    s.bytes(4, b"arrow_schema");
                    s.i32(5, schema.fields().len() as i32);
                });
                schema.fields().iter().for_each(|f| element(out, f));
            });
            s.i64(3, self.rows);
            s.structs(4, self.count, |out| out.extend_from_slice(&self.groups));
            s.structs(5, 1, |out| {
                Struct::write(out, |s| {
                    s.bytes(1, ARROW_SCHEMA_META_KEY.as_bytes());
                    s.bytes(2, encode_arrow_schema(schema).as_bytes());
                });
            });
            s.bytes(6, concat!("hta ", env!("CARGO_PKG_VERSION")).as_bytes());
            s.structs(7, schema.fields().len(), |out| {
                // how bounds compare: floats in total order, all others as their type does
                let order = |f: &Field| if *f.data_type() == DataType::Float64 { 2 } else { 1 };
                schema.fields().iter().for_each(|f| Struct::write(out, |s| s.of(order(f), |_| ())));
            });
        });
        out
    }
}

/// A column of the schema.
fn element(out: &mut Vec<u8>, field: &Field) {
    let kind = field.data_type();
    let (old, bits) = match kind {
        DataType::UInt32 => (Some(UINT_32), Some(32)),
        DataType::UInt64 => (Some(UINT_64), Some(64)),
        DataType::Dictionary(..) => (Some(UTF8), None),
        _ => (None, None),
    };
    Struct::write(out, |s| {
        s.i32(1, physical(kind));
        s.i32(3, i32::from(field.is_nullable()));
        s.bytes(4, field.name().as_bytes());
        if let Some(old) = old {
            s.i32(6, old);
            s.of(10, |s| match bits {
                // unsigned
                Some(bits) => s.of(10, |s| {
                    s.byte(1, bits);
                    s.flag(2, false);
                }),
                None => s.of(1, |_| ()),
            });
        }
    });
}

fn column(out: &mut Vec<u8>, placed: &Placed) {
    let Placed { field, at, chunk } = placed;
    let b = &chunk.bounds;
    Struct::write(out, |s| {
        s.i64(2, 0);
        s.of(3, |s| {
            s.i32(1, physical(field.data_type()));
            s.i32s(2, &chunk.encodings);
            s.texts(3, &[field.name()]);
            s.i32(4, chunk.codec);
            s.i64(5, i64::from(chunk.rows));
            s.i64(6, chunk.unpacked as i64);
            s.i64(7, chunk.packed as i64);
            s.i64(9, (at + chunk.values_at) as i64);
            if chunk.values_at > 0 {
                s.i64(11, *at as i64);
            }
            s.of(12, |s| {
                s.i64(3, b.nulls as i64);
                if let Some((min, max)) = &b.ends {
                    s.bytes(5, max);
                    s.bytes(6, min);
                }
                s.flag(7, b.ends.is_some());
                s.flag(8, b.ends.is_some());
            });
        });
    });
}
