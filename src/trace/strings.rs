//! The texts of a trace: each is stored once and identified by a small id.
//!
//! Kernel and operator names repeat thousands of times, so events contain a [`StrId`] and the bytes are
//! stored once. The reader collects texts in an [`Interner`], which becomes [`TraceTexts`]: an Arrow array of
//! strings, which the dictionary columns of events share. Texts are stored unescaped and as valid UTF-8,
//! which the reader ensures. Ids are in order of first appearance, so they do not depend on how a file was
//! cut into pieces.

use arrow_array::{Array, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use hashbrown::{DefaultHashBuilder, HashTable};
use hta_base::table::stored::{CellOf, UnfitCell};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Id of a text in an [`Interner`] and in its [`TraceTexts`]. Id 0 is the empty text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StrId(pub u32);

impl StrId {
    /// The empty text, which every interner contains.
    pub const EMPTY: StrId = StrId(0);
}

impl CellOf<u32> for StrId {
    fn cell(&self) -> u32 {
        self.0
    }

    fn of_cell(cell: u32) -> Result<Self, UnfitCell> {
        Ok(StrId(cell))
    }
}

/// Collects texts; see the module documentation.
pub struct Interner {
    bytes: String,
    /// Text `i` begins at offset `i` and ends at offset `i + 1`.
    offsets: Vec<i32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for Interner {
    fn default() -> Self {
        let mut me = Self {
            bytes: String::new(),
            offsets: vec![0],
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        };
        me.intern("");
        me
    }
}

impl Interner {
    /// The id of `text`, which is added if it is new.
    ///
    /// As in Arrow, offsets address 2 GiB of distinct text. Further texts are stored as the empty text.
    pub fn intern(&mut self, text: &str) -> StrId {
        let hash = self.hasher.hash_one(text.as_bytes());
        let (bytes, offsets) = (&self.bytes, &self.offsets);
        if let Some(&id) = self.table.find(hash, |&i| slot(bytes, offsets, i) == text) {
            return StrId(id);
        }
        let Ok(end) = i32::try_from(self.bytes.len() + text.len()) else {
            return StrId::EMPTY;
        };
        let id = self.len() as u32;
        self.bytes.push_str(text);
        self.offsets.push(end);
        let (bytes, offsets, hasher) = (&self.bytes, &self.offsets, &self.hasher);
        self.table.insert_unique(hash, id, |&i| hasher.hash_one(slot(bytes, offsets, i).as_bytes()));
        StrId(id)
    }

    /// The id of a text given as bytes; `None` if the text is unknown or not UTF-8.
    pub fn lookup(&self, bytes: &[u8]) -> Option<StrId> {
        let hash = self.hasher.hash_one(bytes);
        let (all, offsets) = (&self.bytes, &self.offsets);
        self.table.find(hash, |&i| slot(all, offsets, i).as_bytes() == bytes).map(|&i| StrId(i))
    }

    /// The text of `id`, or the empty text if the id is out of range.
    pub fn get(&self, id: StrId) -> &str {
        if (id.0 as usize) < self.len() { slot(&self.bytes, &self.offsets, id.0) } else { "" }
    }

    /// Number of distinct texts, the empty one included.
    #[allow(clippy::len_without_is_empty, reason = "the empty text is always there")]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Memory of the texts and of the index to find them, bytes.
    pub fn held_bytes(&self) -> u64 {
        // One offset and one slot of the hash table per text.
        (self.bytes.len() + self.offsets.len() * 2 * size_of::<u32>()) as u64
    }

    /// All texts with their ids, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (StrId, &str)> {
        (0..self.len() as u32).map(|i| (StrId(i), slot(&self.bytes, &self.offsets, i)))
    }

    /// The texts as an Arrow array, which reuses the memory of the interner.
    pub fn finish(self) -> TraceTexts {
        let bytes = Buffer::from_vec(self.bytes.into_bytes());
        let array = StringArray::new(OffsetBuffer::new(self.offsets.into()), bytes, None);
        TraceTexts { array: Arc::new(array), table: self.table, hasher: self.hasher }
    }
}

fn slot<'a>(bytes: &'a str, offsets: &[i32], i: u32) -> &'a str {
    let i = i as usize;
    &bytes[offsets[i] as usize..offsets[i + 1] as usize]
}

/// All texts of a trace by id.
pub struct TraceTexts {
    array: Arc<StringArray>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for TraceTexts {
    fn default() -> Self {
        Interner::default().finish()
    }
}

impl TraceTexts {
    /// The texts as the values of dictionary columns: the id of a text is its index.
    pub fn array(&self) -> &Arc<StringArray> {
        &self.array
    }

    /// The id of a text given as bytes; `None` if the text is unknown or not UTF-8.
    pub fn lookup(&self, bytes: &[u8]) -> Option<StrId> {
        let hash = self.hasher.hash_one(bytes);
        self.table.find(hash, |&i| self.get(StrId(i)).as_bytes() == bytes).map(|&i| StrId(i))
    }

    /// The text of `id`, or the empty text if the id is out of range.
    pub fn get(&self, id: StrId) -> &str {
        if (id.0 as usize) < self.len() { self.array.value(id.0 as usize) } else { "" }
    }

    /// Number of distinct texts, the empty one included.
    #[allow(clippy::len_without_is_empty, reason = "the empty text is always there")]
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// All texts with their ids, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (StrId, &str)> {
        (0..self.len() as u32).map(|i| (StrId(i), self.get(StrId(i))))
    }

    /// Computes a value from each text, so that events with the same name do not each compute it.
    pub fn each<'a, T>(&'a self, mut of: impl FnMut(&'a str) -> T) -> ByText<T> {
        ByText(self.iter().map(|(_, text)| of(text)).collect())
    }
}

/// A value for each text of a trace.
#[derive(Debug, Clone)]
pub struct ByText<T>(Vec<T>);

impl<T> ByText<T> {
    /// The value of a text; `None` if the id is out of range.
    #[inline]
    pub fn get(&self, id: StrId) -> Option<&T> {
        self.0.get(id.0 as usize)
    }

    /// Whether a text has such a value.
    pub fn any(&self, is: impl FnMut(&T) -> bool) -> bool {
        self.0.iter().any(is)
    }
}

impl ByText<bool> {
    /// Whether it is so for a text.
    #[inline]
    pub fn holds(&self, id: StrId) -> bool {
        self.get(id) == Some(&true)
    }

    /// Whether it is so for some text.
    pub fn holds_any(&self) -> bool {
        self.any(|is| *is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_id_and_ids_follow_first_appearance() {
        let mut s = Interner::default();
        let a = s.intern("aten::mm");
        let b = s.intern("aten::add");
        assert_eq!(s.intern("aten::mm"), a);
        assert_eq!((a.0, b.0), (1, 2));
        assert_eq!(s.get(b), "aten::add");
        assert_eq!(s.intern(""), StrId::EMPTY);
        let s = s.finish();
        assert_eq!((s.get(a), s.get(StrId(9)), s.array().value(1)), ("aten::mm", "", "aten::mm"));
        assert_eq!(s.lookup(b"aten::add"), Some(b));
        assert_eq!(s.lookup(b"nope"), None);
        let is_add = s.each(|text| text.ends_with("add"));
        assert_eq!([b, a, StrId(9)].map(|id| is_add.holds(id)), [true, false, false]);
        assert!(is_add.holds_any() && !s.each(|text| text == "nope").holds_any());
        assert_eq!([a, StrId(9)].map(|id| s.each(str::len).get(id).copied()), [Some(8), None]);
        assert_eq!(s.iter().map(|(_, t)| t).collect::<Vec<_>>(), ["", "aten::mm", "aten::add"]);
    }
}
