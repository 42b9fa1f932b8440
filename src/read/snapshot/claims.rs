//! Which rows belong to something already: a block to a segment, an entry to a device.
//!
//! A pickle may name one object in many places. No allocator does so with rows, and a file of a few kilobytes
//! could say that each of ten thousand segments has the same ten thousand blocks. So the first place has the
//! rows, and the others are counted.

use std::collections::BTreeMap;

/// Rows that are taken: the end of each range by its start. Rows are taken in the order of the file, so that
/// this is one range in all but odd files.
#[derive(Debug, Default)]
pub struct RowClaims(BTreeMap<u32, u32>);

impl RowClaims {
    /// Takes these rows; false if one of them is taken.
    pub(crate) fn claim(&mut self, first: u32, len: u32) -> bool {
        let end = first.saturating_add(len);
        let before = self.0.range(..end).next_back().map(|(start, end)| (*start, *end));
        match before {
            Some((_, taken)) if taken > first => return false,
            Some((start, taken)) if taken == first => self.0.insert(start, end),
            _ => self.0.insert(first, end),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_once() {
        let mut claims = RowClaims::default();
        assert!(claims.claim(0, 10) && claims.claim(10, 5) && claims.claim(20, 2));
        assert!(!claims.claim(0, 1) && !claims.claim(14, 2) && !claims.claim(21, 1) && !claims.claim(18, 10));
        assert!(claims.claim(15, 5) && !claims.claim(15, 5) && claims.claim(22, 1));
    }
}
