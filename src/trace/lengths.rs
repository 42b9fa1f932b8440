//! Lengths of time by row, in four bytes each.
//!
//! Hardly an event is longer than 4.29 s. Those that are, and what is negative, stand aside.

use crate::units::Ns;
use hashbrown::HashMap;

/// No length: an event that has not ended, or a row without one.
pub const NO_LENGTH: Ns = Ns::MIN;

/// What stands for it.
const NONE: u32 = u32::MAX;

/// What stands for a length that stands aside.
const ASIDE: u32 = u32::MAX - 1;

/// Lengths of rows, ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lengths {
    short: Vec<u32>,
    aside: HashMap<u32, Ns>,
}

impl Lengths {
    /// So many rows without a length.
    pub fn none(rows: usize) -> Self {
        Self { short: vec![NONE; rows], aside: HashMap::new() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.short.len()
    }

    pub fn is_empty(&self) -> bool {
        self.short.is_empty()
    }

    /// Memory of what is in it, bytes.
    pub fn held_bytes(&self) -> u64 {
        // an entry of the map: key, value and what the table keeps of it
        (size_of_val(self.short.as_slice()) + self.aside.len() * 24) as u64
    }

    /// The length of a row, which must be there.
    #[inline]
    pub fn at(&self, row: usize) -> Ns {
        match self.short[row] {
            NONE => NO_LENGTH,
            ASIDE => self.aside.get(&(row as u32)).copied().unwrap_or(NO_LENGTH),
            short => Ns::from(short),
        }
    }

    /// The length of a row; `None`: it has none, or is not there.
    pub fn get(&self, row: usize) -> Option<Ns> {
        (row < self.len()).then(|| self.at(row)).filter(|ns| *ns != NO_LENGTH)
    }

    fn shortened(&mut self, row: usize, ns: Ns) -> u32 {
        match u32::try_from(ns) {
            Ok(short) if short < ASIDE => short,
            _ if ns == NO_LENGTH => NONE,
            _ => {
                self.aside.insert(row as u32, ns);
                ASIDE
            }
        }
    }

    #[inline]
    pub fn push(&mut self, ns: Ns) {
        let short = self.shortened(self.short.len(), ns);
        self.short.push(short);
    }

    /// Changes the length of a row, which must be there.
    #[inline]
    pub fn set(&mut self, row: usize, ns: Ns) {
        if self.short[row] == ASIDE {
            self.aside.remove(&(row as u32));
        }
        self.short[row] = self.shortened(row, ns);
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Ns> {
        (0..self.len()).map(|row| self.at(row))
    }

    /// Adds the rows of another column.
    pub fn append(&mut self, other: &Lengths) {
        let base = self.len() as u32;
        self.short.extend_from_slice(&other.short);
        self.aside.extend(other.aside.iter().map(|(row, ns)| (row + base, *ns)));
    }
}

impl FromIterator<Ns> for Lengths {
    fn from_iter<I: IntoIterator<Item = Ns>>(lengths: I) -> Self {
        let mut made = Lengths::default();
        lengths.into_iter().for_each(|ns| made.push(ns));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lengths() -> impl Strategy<Value = Vec<Ns>> {
        let around = |v: u32| Ns::from(v) - 2..=Ns::from(v) + 2;
        let one = prop_oneof![0i64..1000, around(u32::MAX), any::<i64>(), Just(NO_LENGTH), -5i64..0];
        prop::collection::vec(one, 0..30)
    }

    proptest! {
        #[test]
        fn every_length_comes_back(a in lengths(), b in lengths(), changes in prop::collection::vec((0usize..60, lengths()), 0..4)) {
            let mut all: Vec<Ns> = a.iter().chain(&b).copied().collect();
            let mut joined: Lengths = a.into_iter().collect();
            joined.append(&b.into_iter().collect());
            let rows = all.len();
            for (row, ns) in changes.into_iter().filter(|(row, _)| *row < rows) {
                for ns in ns {
                    all[row] = ns;
                    joined.set(row, ns);
                }
            }
            prop_assert!(joined.iter().eq(all.iter().copied()));
            prop_assert_eq!(joined, all.into_iter().collect());
        }
    }

    #[test]
    fn four_bytes_a_row() {
        assert_eq!((0..100).collect::<Lengths>().held_bytes(), 400);
    }
}
