//! The keys of arguments that have a column.

use hta_trace::args::{ARGS, Arg};
use std::sync::LazyLock;

/// Finds an argument by its key, with one probe of a small hash table.
pub(super) struct KeyTable {
    slots: Vec<Option<(&'static [u8], Arg)>>,
}

const KEY_SLOTS: usize = 2048;

impl KeyTable {
    fn new() -> Self {
        let mut slots = vec![None; KEY_SLOTS];
        for spec in ARGS {
            for key in spec.keys {
                let mut i = Self::hash(key.as_bytes());
                while slots[i].is_some() {
                    i = (i + 1) % KEY_SLOTS;
                }
                slots[i] = Some((key.as_bytes(), spec.id));
            }
        }
        Self { slots }
    }

    #[inline]
    fn hash(key: &[u8]) -> usize {
        let (Some(first), Some(last)) = (key.first(), key.last()) else { return 0 };
        let middle = key[key.len() / 2];
        let mix = key.len() * 0x9e5
            + usize::from(*first) * 0x1f3
            + usize::from(*last) * 0x2b
            + usize::from(middle) * 0x71;
        mix % KEY_SLOTS
    }

    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<Arg> {
        let mut i = Self::hash(key);
        while let Some((name, arg)) = self.slots[i] {
            if name == key {
                return Some(arg);
            }
            i = (i + 1) % KEY_SLOTS;
        }
        None
    }
}

pub(super) static KEYS: LazyLock<KeyTable> = LazyLock::new(KeyTable::new);
