//! Whether what outlives the history piles up: the survivors of a site, in groups.
//!
//! ```text
//!   level      /\    /\    /\        survivors of a leak: one group for each rise and fall
//!   entries   /  \__/  \__/  \__
//!   survivors  x      x      x
//! ```
//!
//! Two survivors are in different groups if more than 5 % of the entries lie between them and the level falls in between
//! by at least 30 % of its range. Three groups or more recur. Either rule alone also names the state of an optimizer or
//! the activations that a model keeps.

use std::ops::Range;

/// Least share of the entries between groups, as 1 / this.
const APART: usize = 20;

/// Least fall between groups, percent of the range of the level.
const FALL_PERCENT: i128 = 30;

/// Least number of groups that recur.
pub const RECURRING: u64 = 3;

/// Number of levels that are summed up, so that a fall over many is found quickly.
const BLOCK: usize = 1024;

/// Highest and lowest level of some entries, and the largest fall from an earlier to a later one.
#[derive(Debug, Clone, Copy)]
struct Fall {
    max: i64,
    min: i64,
    fall: i64,
}

impl Fall {
    fn of(levels: &[i64]) -> Option<Self> {
        levels.iter().map(|l| Self { max: *l, min: *l, fall: 0 }).reduce(Self::then)
    }

    fn then(self, later: Self) -> Self {
        Self {
            max: self.max.max(later.max),
            min: self.min.min(later.min),
            fall: self.fall.max(later.fall).max(self.max - later.min),
        }
    }
}

/// The levels of a history, prepared for finding falls.
pub struct Falls<'a> {
    levels: &'a [i64],
    blocks: Vec<Fall>,
    range: i64,
}

impl<'a> Falls<'a> {
    pub fn new(levels: &'a [i64]) -> Self {
        let blocks: Vec<Fall> = levels.chunks(BLOCK).filter_map(Fall::of).collect();
        let range = blocks.iter().copied().reduce(Fall::then).map_or(0, |all| all.max - all.min);
        Self { levels, blocks, range }
    }

    /// Largest fall within a range of entries.
    fn within(&self, entries: Range<usize>) -> i64 {
        let (first, last) = (entries.start.div_ceil(BLOCK), entries.end / BLOCK);
        let part = |range: Range<usize>| self.levels.get(range).and_then(Fall::of);
        let parts = if first >= last {
            [part(entries), None, None]
        } else {
            let whole = self.blocks.get(first..last).unwrap_or_default().iter().copied().reduce(Fall::then);
            [part(entries.start..first * BLOCK), whole, part(last * BLOCK..entries.end)]
        };
        parts.into_iter().flatten().reduce(Fall::then).map_or(0, |all| all.fall)
    }

    /// Number of groups that survivors, given by their entries in order, fall into.
    pub fn groups(&self, survivors: &[u32]) -> u64 {
        let pairs = survivors.windows(2).filter(|pair| match pair {
            [a, b] => {
                let (a, b) = (*a as usize, *b as usize);
                let is_apart = (b - a) * APART > self.levels.len();
                let falls = || i128::from(self.within(a..b)) * 100 >= i128::from(self.range) * FALL_PERCENT;
                is_apart && self.range > 0 && falls()
            }
            _ => false,
        });
        pairs.count() as u64 + u64::from(!survivors.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_need_distance_and_a_fall() {
        // Three hills of 100 entries each.
        let hill = |i: usize| (50 - (i as i64 % 100 - 50).abs()) * 10;
        let levels: Vec<i64> = (0..300).map(hill).collect();
        let falls = Falls::new(&levels);
        assert_eq!(falls.groups(&[10, 110, 210]), 3);
        // Within one hill's rise there is distance, but no fall.
        assert_eq!(falls.groups(&[5, 25, 45]), 1);
        // Beside each other there is no distance.
        assert_eq!(falls.groups(&[95, 97, 101]), 1);
        assert_eq!(falls.groups(&[]), 0);
    }

    #[test]
    fn a_fall_over_many_blocks_is_that_of_all_entries() {
        let levels: Vec<i64> = (0..10_000i64).map(|i| (i * 7919) % 5003).collect();
        let falls = Falls::new(&levels);
        for (a, b) in [(0, 10_000), (3, 9_999), (1024, 2048), (1000, 1100), (1023, 3073)] {
            assert_eq!(falls.within(a..b), Fall::of(&levels[a..b]).unwrap().fall, "{a}..{b}");
        }
    }
}
