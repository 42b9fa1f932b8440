//! The string interner: every text of a trace once, addressed by a small id.
//!
//! Kernel and operator names repeat thousands of times, so events hold a [`StrId`] and the bytes are
//! kept once, in one arena. Texts are stored unescaped and as valid UTF-8 (the reader sees to it), ids
//! are given in order of first appearance, so that they do not depend on how a file was cut into pieces.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Id of a text in an [`Interner`]. Id 0 is the empty text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StrId(pub u32);

impl StrId {
    /// The empty text, in every interner.
    pub const EMPTY: StrId = StrId(0);
}

/// Texts by id; see the module's notes.
pub struct Interner {
    arena: String,
    /// End of text `i` in the arena; its start is the end of `i - 1`.
    ends: Vec<u32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for Interner {
    fn default() -> Self {
        let mut me = Self {
            arena: String::new(),
            ends: Vec::new(),
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        };
        me.intern("");
        me
    }
}

impl Interner {
    /// The id of `text`, adding it when it is new.
    ///
    /// The arena addresses 4 GiB of distinct text; what comes after that is kept as the empty text.
    pub fn intern(&mut self, text: &str) -> StrId {
        let hash = self.hasher.hash_one(text.as_bytes());
        let (arena, ends) = (&self.arena, &self.ends);
        if let Some(&id) = self.table.find(hash, |&i| slot(arena, ends, i) == text) {
            return StrId(id);
        }
        let Ok(end) = u32::try_from(self.arena.len() + text.len()) else {
            return StrId::EMPTY;
        };
        let id = self.ends.len() as u32;
        self.arena.push_str(text);
        self.ends.push(end);
        let (arena, ends, hasher) = (&self.arena, &self.ends, &self.hasher);
        self.table.insert_unique(hash, id, |&i| hasher.hash_one(slot(arena, ends, i).as_bytes()));
        StrId(id)
    }

    /// The id of a text given as bytes, when it is already known. Unknown or not UTF-8: `None`.
    pub fn lookup(&self, bytes: &[u8]) -> Option<StrId> {
        let hash = self.hasher.hash_one(bytes);
        let (arena, ends) = (&self.arena, &self.ends);
        self.table.find(hash, |&i| slot(arena, ends, i).as_bytes() == bytes).map(|&i| StrId(i))
    }

    /// The text of `id`; the empty text for an id of another interner.
    pub fn get(&self, id: StrId) -> &str {
        if (id.0 as usize) < self.ends.len() { slot(&self.arena, &self.ends, id.0) } else { "" }
    }

    /// Number of distinct texts, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Memory of the texts and of what finds them, bytes.
    pub fn held_bytes(&self) -> u64 {
        // an end and a slot of the table a text
        (self.arena.len() + self.ends.len() * 2 * size_of::<u32>()) as u64
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// All texts with their ids, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (StrId, &str)> {
        (0..self.ends.len() as u32).map(|i| (StrId(i), slot(&self.arena, &self.ends, i)))
    }
}

fn slot<'a>(arena: &'a str, ends: &[u32], i: u32) -> &'a str {
    let i = i as usize;
    let start = if i == 0 { 0 } else { ends[i - 1] as usize };
    &arena[start..ends[i] as usize]
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
        assert_eq!(s.lookup(b"aten::add"), Some(b));
        assert_eq!(s.lookup(b"nope"), None);
        assert_eq!(s.intern(""), StrId::EMPTY);
    }
}
