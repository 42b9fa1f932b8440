//! Builders of columns: numbers, flags and texts, with or without nulls.
//!
//! A table can have a row for every launch or gap, so a push must be cheap: it stores a validity bit and a
//! number. For a text the number is a key into a dictionary, which lists the distinct texts in order of first
//! appearance.

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Numbers or flags, some of them null.
#[derive(Debug)]
pub struct Nullable<T> {
    pub values: Vec<T>,
    pub valid: NullBufferBuilder,
}

impl<T> Default for Nullable<T> {
    fn default() -> Self {
        Self { values: Vec::new(), valid: NullBufferBuilder::new(0) }
    }
}

impl<T: Default> Nullable<T> {
    #[inline]
    pub fn push(&mut self, value: Option<T>) {
        self.valid.append(value.is_some());
        self.values.push(value.unwrap_or_default());
    }
}

/// Number of distinct texts above which `TextCells::recent` is used, its size as a power of two, and the
/// factor that spreads addresses over it (Fibonacci hashing: 2^64 / golden ratio).
const FEW: usize = 4;
const PLACE_BITS: u32 = 8;
const PLACE_MIX: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;

/// Texts, some of them null; each distinct text is stored once.
#[derive(Debug, Default)]
pub struct TextCells {
    keys: Nullable<i32>,
    bytes: String,
    /// End of each distinct text in `bytes`.
    ends: Vec<i32>,
    /// Cache of keys by the address of the text, which is checked before `table`.
    recent: Vec<i32>,
    table: HashTable<i32>,
    hasher: DefaultHashBuilder,
}

impl TextCells {
    #[inline]
    pub fn push(&mut self, value: Option<&str>) {
        let key = match (value, self.keys.values.last()) {
            (None, _) => None,
            // Most rows of a table repeat the text of the row above.
            (Some(text), Some(&above)) if self.is(above, text) => Some(above),
            (Some(text), _) => Some(self.key(text)),
        };
        self.keys.push(key);
    }

    /// Whether a key is that of a text. Bytes are compared: taking a part of a text would look for the borders
    /// of its characters.
    #[inline]
    fn is(&self, key: i32, text: &str) -> bool {
        let key = key as usize;
        let Some(&end) = self.ends.get(key) else { return false };
        let start = if key == 0 { 0 } else { self.ends[key - 1] };
        self.bytes.as_bytes().get(start as usize..end as usize) == Some(text.as_bytes())
    }

    /// The key of a text. Most texts are pushed repeatedly from the same address in an interner. If the
    /// address is in the cache, the text is only compared, not hashed.
    fn key(&mut self, text: &str) -> i32 {
        let place = (text.as_ptr() as usize).wrapping_mul(PLACE_MIX) >> (usize::BITS - PLACE_BITS);
        if let Some(&key) = self.recent.get(place)
            && self.is(key, text)
        {
            return key;
        }
        let key = self.find_or_add(text);
        if self.recent.is_empty() && self.ends.len() > FEW {
            self.recent = vec![0; 1 << PLACE_BITS];
        }
        if let Some(slot) = self.recent.get_mut(place) {
            *slot = key;
        }
        key
    }

    fn find_or_add(&mut self, text: &str) -> i32 {
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        let hash = hasher.hash_one(text.as_bytes());
        if let Some(&key) = self.table.find(hash, |&k| slot(bytes, ends, k) == text) {
            return key;
        }
        // An Arrow array addresses 2 GiB of distinct text. Further texts become empty, as in the interner.
        let Ok(end) = i32::try_from(self.bytes.len() + text.len()) else {
            return if text.is_empty() { 0 } else { self.find_or_add("") };
        };
        let key = self.ends.len() as i32;
        // The buffer doubles when it grows, except for a single long text.
        if text.len() > self.bytes.len() {
            self.bytes.reserve_exact(text.len());
        }
        self.bytes.push_str(text);
        self.ends.push(end);
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        self.table.insert_unique(hash, key, |&k| hasher.hash_one(slot(bytes, ends, k).as_bytes()));
        key
    }

    pub fn rows(&self) -> usize {
        self.keys.values.len()
    }

    /// Length of all distinct texts, bytes.
    pub fn text_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The finished column. Unused capacity is freed, because most tables of a rank have only a few rows.
    pub fn finish(mut self) -> ArrayRef {
        self.keys.values.shrink_to_fit();
        self.bytes.shrink_to_fit();
        let offsets: Vec<i32> = std::iter::once(0).chain(self.ends).collect();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let values = StringArray::new(offsets, Buffer::from_vec(self.bytes.into_bytes()), None);
        let keys = Int32Array::new(ScalarBuffer::from(self.keys.values), self.keys.valid.finish());
        // All keys were assigned by this dictionary, so they are valid.
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values)))
    }
}

fn slot<'a>(bytes: &'a str, ends: &[i32], key: i32) -> &'a str {
    let key = key as usize;
    let start = if key == 0 { 0 } else { ends[key - 1] as usize };
    &bytes[start..ends[key] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    #[test]
    fn texts_and_nulls_read_back_and_each_text_is_kept_once() {
        let rows =
            [None, Some("a"), Some("a"), None, Some(""), Some("b"), Some("a"), Some(""), None, Some("b")];
        let mut texts = TextCells::default();
        rows.iter().for_each(|r| texts.push(*r));
        let array = texts.finish();
        let array = array.as_dictionary::<Int32Type>();
        let words = array.values().as_string::<i32>();
        assert_eq!(words.iter().flatten().collect::<Vec<_>>(), ["a", "", "b"]);
        let got: Vec<_> = array.keys().iter().map(|k| k.map(|k| words.value(k as usize))).collect();
        assert_eq!(got, rows);
        assert_eq!(array.null_count(), 3);
    }
}
