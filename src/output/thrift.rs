//! Structures in Thrift's compact protocol, in which Parquet describes its pages and its files.
//!
//! ```text
//!   field    distance to the field before (4 bits), type (4 bits), value
//!   list     length (4 bits, or 15 and then the length), type of its elements (4 bits), elements
//!   struct   fields in ascending order, 0
//! ```

use crate::trace::varint;
use crate::trace::varint::zigzag;

/// Types as a field's head names them.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A structure that is being written, field by field in ascending order.
pub struct Struct<'a> {
    out: &'a mut Vec<u8>,
    last: u8,
}

impl<'a> Struct<'a> {
    /// Appends a structure that stands by itself or in a list.
    pub fn write(out: &'a mut Vec<u8>, fields: impl FnOnce(&mut Struct)) {
        let mut s = Struct { out, last: 0 };
        fields(&mut s);
        s.out.push(0);
    }

    /// A field that does not follow within 15 does not occur.
    fn head(&mut self, id: u8, kind: u8) {
        self.out.push((id - self.last) << 4 | kind);
        self.last = id;
    }

    fn number(&mut self, id: u8, kind: u8, v: i64) {
        self.head(id, kind);
        varint::write(self.out, zigzag(v));
    }

    pub fn flag(&mut self, id: u8, v: bool) {
        self.head(id, if v { TRUE } else { FALSE });
    }

    pub fn byte(&mut self, id: u8, v: u8) {
        self.head(id, BYTE);
        self.out.push(v);
    }

    pub fn i16(&mut self, id: u8, v: i16) {
        self.number(id, I16, i64::from(v));
    }

    pub fn i32(&mut self, id: u8, v: i32) {
        self.number(id, I32, i64::from(v));
    }

    pub fn i64(&mut self, id: u8, v: i64) {
        self.number(id, I64, v);
    }

    pub fn bytes(&mut self, id: u8, v: &[u8]) {
        self.head(id, BINARY);
        varint::write(self.out, v.len() as u64);
        self.out.extend_from_slice(v);
    }

    pub fn of(&mut self, id: u8, fields: impl FnOnce(&mut Struct)) {
        self.head(id, STRUCT);
        Struct::write(self.out, fields);
    }

    fn list(&mut self, id: u8, kind: u8, len: usize) {
        self.head(id, LIST);
        match len {
            0..15 => self.out.push((len as u8) << 4 | kind),
            _ => {
                self.out.push(0xf0 | kind);
                varint::write(self.out, len as u64);
            }
        }
    }

    pub fn i32s(&mut self, id: u8, values: &[i32]) {
        self.list(id, I32, values.len());
        values.iter().for_each(|v| varint::write(self.out, zigzag(i64::from(*v))));
    }

    pub fn texts(&mut self, id: u8, values: &[&str]) {
        self.list(id, BINARY, values.len());
        for text in values {
            varint::write(self.out, text.len() as u64);
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    /// A list of structures; `elements` appends as many as are announced, each by [`Struct::write`].
    pub fn structs(&mut self, id: u8, len: usize, elements: impl FnOnce(&mut Vec<u8>)) {
        self.list(id, STRUCT, len);
        elements(self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_is_written_as_the_protocol_has_it() {
        let mut out = Vec::new();
        Struct::write(&mut out, |s| {
            s.i32(1, -2);
            s.flag(3, false);
            s.of(4, |s| s.bytes(2, b"ab"));
            s.i32s(5, &[1; 15]);
        });
        let list = [&[0x19, 0xf5, 15][..], &[2; 15]].concat();
        assert_eq!(out, [&[0x15, 3, 0x22, 0x1c, 0x28, 2, b'a', b'b', 0][..], &list, &[0]].concat());
    }
}
