//! Values of a pickle as JSON, for the keys that nothing here knows.
//!
//! A text of a pickle is written once and may be used a million times, so the JSON of all values together is
//! held to the size of the file: [`Budget`].

use super::container::{Containers, DEEPEST, Object, Value};
use hta_trace::strings::{Interner, StrId};
use std::fmt::Write;

/// Longest JSON text that is kept of the unknown keys of one dict.
const LONGEST: usize = 16 << 10;

/// JSON written for each byte of the file that was read, and what is always allowed, bytes.
const PER_BYTE: u64 = 16;
const ALWAYS: u64 = 64 << 10;

/// What stands for a value that is not written.
const LEFT_OUT: &str = "\"...\"";

/// How much JSON may still be written.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    written: u64,
}

impl Budget {
    /// A writer for one dict, once `read` bytes of the file are read.
    pub(crate) fn writer<'a>(&self, c: &'a Containers, texts: &'a Interner, read: u64) -> Json<'a> {
        let left = read.saturating_mul(PER_BYTE).saturating_add(ALWAYS).saturating_sub(self.written);
        Json { c, texts, out: String::new(), most: usize::try_from(left).unwrap_or(LONGEST).min(LONGEST) }
    }

    /// Counts what a writer wrote.
    pub(crate) fn spend(&mut self, text: &str) {
        self.written += text.len() as u64;
    }
}

/// The JSON of one dict, cut where it is long.
pub(crate) struct Json<'a> {
    c: &'a Containers,
    texts: &'a Interner,
    pub(crate) out: String,
    most: usize,
}

impl Json<'_> {
    pub(crate) fn is_full(&self) -> bool {
        self.out.len() >= self.most
    }

    /// A text in quotes, of which no more than fits.
    pub(crate) fn text(&mut self, id: StrId) {
        let text = self.texts.get(id);
        let left = self.most.saturating_sub(self.out.len());
        let _ = match text.len() <= left {
            true => write!(self.out, "{}", serde_json::Value::from(text)),
            false => {
                let end = (0..=left).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
                let begin = text.get(..end).unwrap_or_default();
                write!(self.out, "{}", serde_json::Value::from(format!("{begin}...")))
            }
        };
    }

    pub(crate) fn value(&mut self, value: Value) {
        self.nested(value, 0);
    }

    fn nested(&mut self, value: Value, depth: u8) {
        if self.is_full() || depth > DEEPEST {
            self.out.push_str(LEFT_OUT);
            return;
        }
        let out = &mut self.out;
        let _ = match value {
            Value::None => write!(out, "null"),
            Value::Bool(v) => write!(out, "{v}"),
            Value::Int(v) => write!(out, "{v}"),
            Value::Big(v) => write!(out, "{v}"),
            Value::Float(v) => write!(out, "{}", serde_json::Value::from(v)),
            Value::Text(id) => {
                self.text(id);
                Ok(())
            }
            Value::Frame(_) | Value::Rows { .. } => write!(out, "{LEFT_OUT}"),
            Value::Object(_) => {
                self.object(value, depth);
                Ok(())
            }
        };
    }

    fn object(&mut self, value: Value, depth: u8) {
        match self.c.object(value) {
            Some(Object::EmptyDict) => self.out.push_str("{}"),
            Some(Object::EmptyList) => self.out.push_str("[]"),
            Some(Object::Pair(place)) => {
                let (a, b) = self.c.pairs.get(place as usize).copied().unwrap_or_default();
                let _ = write!(self.out, "[{a},{b}]");
            }
            Some(Object::Map(place)) => {
                let pairs = self.c.maps.get(place as usize).map(|m| m.pairs.as_slice()).unwrap_or_default();
                self.out.push('{');
                for (i, (key, value)) in pairs.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    self.key(*key);
                    self.out.push(':');
                    self.nested(*value, depth + 1);
                    if self.is_full() {
                        break;
                    }
                }
                self.out.push('}');
            }
            Some(Object::Items(place)) => {
                let values =
                    self.c.items.get(place as usize).map(|l| l.values.as_slice()).unwrap_or_default();
                self.out.push('[');
                for (i, value) in values.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    self.nested(*value, depth + 1);
                    if self.is_full() {
                        break;
                    }
                }
                self.out.push(']');
            }
            _ => self.out.push_str(LEFT_OUT),
        }
    }

    /// A key, which JSON has as text.
    fn key(&mut self, key: Value) {
        let name = match key {
            Value::Text(id) => return self.text(id),
            Value::None => "null".to_string(),
            Value::Bool(v) => v.to_string(),
            Value::Int(v) => v.to_string(),
            Value::Big(v) => v.to_string(),
            Value::Float(v) => v.to_string(),
            Value::Object(_) | Value::Frame(_) | Value::Rows { .. } => "...".to_string(),
        };
        let _ = write!(self.out, "{}", serde_json::Value::from(name));
    }
}
