//! Sparse columns, which store the rows that have a value, and the values in order of row.
//!
//! ```text
//!   row      0 1 2 3 4 5 6 7          few rows:   [1, 4, 5], with binary search
//!   value    . a . . b c . .          many rows:  01001100 and the number of ones before each word, without search
//!   values   a b c
//! ```
//!
//! The bits take 1.5 bits per row, and a list of rows takes four bytes per value. So the bits are smaller if
//! more than one row in 21 has a value.

use crate::narrow::Narrow;

/// One sparse column, in ascending order of row.
#[derive(Debug, Default, Clone)]
pub struct Sparse {
    rows: SparseRows,
    values: Narrow,
}

#[derive(Debug, Clone)]
enum SparseRows {
    Few(Vec<u32>),
    Many(Bits),
}

impl Default for SparseRows {
    fn default() -> Self {
        SparseRows::Few(Vec::new())
    }
}

/// Rows as bits.
#[derive(Debug, Default, Clone)]
struct Bits {
    words: Vec<u64>,
    /// Number of ones in all words before each word.
    before: Vec<u32>,
}

/// Rows are stored as bits if there are fewer rows per value than this.
const ROWS_PER_VALUE: usize = 21;

/// Number of values up to which rows are always stored as a list.
const FEW: usize = 64;

impl Bits {
    fn words_until(&mut self, word: usize) {
        if self.words.len() <= word {
            let last = self.before.last().zip(self.words.last());
            let ones = last.map_or(0, |(before, word)| before + word.count_ones());
            self.words.resize(word + 1, 0);
            self.before.resize(word + 1, ones);
        }
    }

    /// The last row. It is in the last word, because words are only added for rows.
    fn last(&self) -> Option<u32> {
        let word = self.words.last()?;
        Some(self.words.len() as u32 * 64 - 1 - word.leading_zeros())
    }

    /// Marks a row, which must be greater than all marked rows.
    #[inline]
    fn push(&mut self, row: u32) {
        let word = (row / 64) as usize;
        self.words_until(word);
        self.words[word] |= 1 << (row % 64);
    }

    /// Index of a row's value.
    #[inline]
    fn position(&self, row: u32) -> Option<usize> {
        let (word, bit) = ((row / 64) as usize, row % 64);
        let bits = *self.words.get(word)?;
        let below = bits & ((1 << bit) - 1);
        (bits >> bit & 1 == 1).then(|| (self.before[word] + below.count_ones()) as usize)
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().zip(0u32..).flat_map(|(&word, i)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(i * 64 + bit)
            })
        })
    }

    /// Marks all rows of `other`, each increased by `base`.
    fn append(&mut self, other: &Bits, base: u32) {
        let (skip, shift) = ((base / 64) as usize, base % 64);
        for (i, &word) in other.words.iter().enumerate().filter(|(_, w)| **w != 0) {
            for (at, part) in
                [(skip + i, word << shift), (skip + i + 1, word.checked_shr(64 - shift).unwrap_or(0))]
            {
                if part != 0 {
                    self.words_until(at);
                    self.words[at] |= part;
                }
            }
        }
    }
}

impl Sparse {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Memory of the contents, bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        let rows = match &self.rows {
            SparseRows::Few(rows) => size_of_val(rows.as_slice()),
            SparseRows::Many(bits) => {
                size_of_val(bits.words.as_slice()) + size_of_val(bits.before.as_slice())
            }
        };
        rows as u64 + self.values.held_bytes()
    }

    fn last_row(&self) -> Option<u32> {
        match &self.rows {
            SparseRows::Few(rows) => rows.last().copied(),
            SparseRows::Many(bits) => bits.last(),
        }
    }

    /// Adds a value. A second value for the same row (a repeated key) replaces the first, as in other JSON
    /// readers. Rows must not descend.
    #[inline]
    pub fn push(&mut self, row: u32, value: u64) {
        if self.last_row() == Some(row) {
            self.values.pop();
            return self.values.push(value);
        }
        match &mut self.rows {
            SparseRows::Few(rows) => {
                rows.push(row);
                if rows.len() > FEW && rows.len() * ROWS_PER_VALUE > row as usize {
                    self.rows = SparseRows::Many(bits(rows));
                }
            }
            SparseRows::Many(bits) => bits.push(row),
        }
        self.values.push(value);
    }

    /// The value of a row.
    #[inline]
    pub fn get(&self, row: u32) -> Option<u64> {
        self.values.get(match &self.rows {
            SparseRows::Few(rows) => rows.binary_search(&row).ok()?,
            SparseRows::Many(bits) => bits.position(row)?,
        })
    }

    /// A reader for ascending rows, which needs no search per row.
    pub fn cursor(&self) -> SparseCursor<'_> {
        SparseCursor { column: self, at: 0 }
    }

    /// Rows that have a value, ascending.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        let (few, many) = match &self.rows {
            SparseRows::Few(rows) => (Some(rows.iter().copied()), None),
            SparseRows::Many(bits) => (None, Some(bits.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// Rows with their values, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.rows().zip(self.values.iter())
    }

    /// Appends the rows of another column, each increased by `base`. They must be greater than all rows of
    /// this column.
    pub(crate) fn append(&mut self, other: &Sparse, base: u32) {
        if other.is_empty() {
            return;
        }
        match (&mut self.rows, &other.rows) {
            (SparseRows::Few(to), SparseRows::Few(from)) => to.extend(from.iter().map(|r| r + base)),
            (SparseRows::Many(to), SparseRows::Many(from)) => to.append(from, base),
            (SparseRows::Many(to), SparseRows::Few(from)) => from.iter().for_each(|r| to.push(r + base)),
            (SparseRows::Few(to), SparseRows::Many(from)) => {
                let mut joined = bits(to);
                joined.append(from, base);
                self.rows = SparseRows::Many(joined);
            }
        }
        self.values.append(&other.values);
    }
}

fn bits(rows: &[u32]) -> Bits {
    let mut bits = Bits::default();
    rows.iter().for_each(|r| bits.push(*r));
    bits
}

/// Collects pairs of row and value, in ascending order of row.
impl FromIterator<(u32, u64)> for Sparse {
    fn from_iter<I: IntoIterator<Item = (u32, u64)>>(pairs: I) -> Self {
        let mut made = Sparse::default();
        pairs.into_iter().for_each(|(row, value)| made.push(row, value));
        made
    }
}

/// Reads one column at ascending rows.
pub struct SparseCursor<'a> {
    column: &'a Sparse,
    at: usize,
}

impl SparseCursor<'_> {
    /// The value of `row`; rows must not descend between calls.
    #[inline]
    pub fn get(&mut self, row: u32) -> Option<u64> {
        match &self.column.rows {
            SparseRows::Few(rows) => {
                while self.at < rows.len() && rows[self.at] < row {
                    self.at += 1;
                }
                (rows.get(self.at) == Some(&row)).then(|| self.column.values.get(self.at)).flatten()
            }
            SparseRows::Many(_) => self.column.get(row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cursor_reads_ascending_rows_and_a_repeated_key_keeps_the_last() {
        let c: Sparse = [(2, 20), (5, 50), (5, 51)].into_iter().collect();
        let mut r = c.cursor();
        assert_eq!(
            [r.get(0), r.get(2), r.get(4), r.get(5), r.get(9)],
            [None, Some(20), None, Some(51), None]
        );
        assert_eq!(c.get(5), Some(51));
    }

    #[test]
    fn many_rows_take_a_bit_and_a_half_each() {
        let c: Sparse = (0..64_000).map(|row| (row, 1)).collect();
        assert_eq!(c.held_bytes(), 4 * 64_000 + 64_000 / 64 * 12);
        let c: Sparse = (0..1000).map(|i| (i * 1000, 1)).collect();
        assert_eq!(c.held_bytes(), 8000);
    }

    /// Gaps to the previous row, with values. A gap of 0 is a repeated key.
    fn gaps() -> impl Strategy<Value = Vec<(u32, u64)>> {
        let gap = prop_oneof![Just(0u32), 1u32..3, 1u32..70, 1u32..400];
        prop::collection::vec((gap, 0u64..400), 0..400)
    }

    proptest! {
        #[test]
        fn rows_are_those_of_a_map_whatever_holds_them(a in gaps(), b in gaps(), room in 1u32..200) {
            let of = |gaps: &[(u32, u64)]| {
                let mut row = 0;
                let pairs = gaps.iter().map(|(gap, v)| {
                    row += gap;
                    (row, *v)
                });
                pairs.collect::<Vec<(u32, u64)>>()
            };
            let (a, b) = (of(&a), of(&b));
            let base = a.last().map_or(0, |p| p.0) + room;
            let mut joined: Sparse = a.iter().copied().collect();
            joined.append(&b.iter().copied().collect(), base);
            let map: std::collections::BTreeMap<u32, u64> =
                a.iter().copied().chain(b.iter().map(|(r, v)| (r + base, *v))).collect();
            prop_assert_eq!(joined.len(), map.len());
            prop_assert!(joined.iter().eq(map.iter().map(|(r, v)| (*r, *v))));
            prop_assert!(joined.rows().eq(map.keys().copied()));
            let mut cursor = joined.cursor();
            let end = map.keys().last().map_or(0, |r| r + 130);
            for row in 0..end {
                prop_assert_eq!(joined.get(row), map.get(&row).copied());
                prop_assert_eq!(cursor.get(row), map.get(&row).copied());
            }
            // Rows can still be added at the end.
            joined.push(end, 9);
            prop_assert_eq!((joined.get(end), joined.len()), (Some(9), map.len() + 1));
        }
    }
}
