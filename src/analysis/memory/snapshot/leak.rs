//! Whether what outlives the history piles up: the survivors of a site, in groups.
//!
//! ```text
//!   level      /\    /\    /\        survivors of a leak: one group for each rise and fall
//!   entries   /  \__/  \__/  \__
//!   survivors  x      x      x
//! ```
//!
//! Two survivors are in different groups if more than 5 % of the entries lie between them and the level falls
//! in between by at least 30 % of its range. Three groups or more recur. Either rule alone also names the
//! state of an optimizer or the activations that a model keeps.
//!
//! If the user names annotations that mark steps, groups are the steps in which survivors were made.

use hta_trace::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::ops::Range;

/// Least share of the entries between groups, as 1 / this.
const APART: usize = 20;

/// Least fall between groups, percent of the range of the level.
const FALL_PERCENT: i128 = 30;

/// Least number of groups that recur.
pub(crate) const RECURRING: u64 = 3;

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
pub(crate) struct Falls<'a> {
    levels: &'a [i64],
    blocks: Vec<Fall>,
    range: i64,
}

impl<'a> Falls<'a> {
    pub(crate) fn new(levels: &'a [i64]) -> Self {
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
    pub(crate) fn groups(&self, survivors: &[u32]) -> u64 {
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

/// Steps of a device: each begins where an annotation of a name begins, and ends where the next one does.
pub struct MarkedSteps {
    /// Starts in microseconds, ascending.
    starts: Vec<i64>,
}

impl MarkedSteps {
    /// Annotations count whose name begins with `name`, because names of steps end in a number.
    pub fn new(snapshot: &Snapshot, device: Option<i64>, name: &str) -> Self {
        let of_device =
            snapshot.annotations.iter().filter(|a| a.is_start && (a.device.is_none() || a.device == device));
        let named = of_device.filter(|a| snapshot.texts.get(a.name).starts_with(name));
        let starts: BTreeSet<i64> = named.filter_map(|a| a.time_us).collect();
        Self { starts: starts.into_iter().collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Number of steps in which something was made at these times. What was made before the first step is not
    /// told apart from it.
    pub(crate) fn groups(&self, times_us: impl Iterator<Item = Option<i64>>) -> u64 {
        let step = |time: Option<i64>| time.map_or(0, |t| self.starts.partition_point(|s| *s <= t)).max(1);
        times_us.map(step).collect::<BTreeSet<usize>>().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_steps_are_counted_once_each() {
        let steps = MarkedSteps { starts: vec![10, 20, 30] };
        // before, in the first, twice in the second, at the start of the third; one without a time
        let times = [Some(5), Some(10), Some(20), Some(29), Some(30), None];
        assert_eq!(steps.groups(times.into_iter()), 3);
        assert_eq!(steps.groups([Some(25), Some(26)].into_iter()), 1);
        assert_eq!(steps.groups(std::iter::empty()), 0);
    }

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
