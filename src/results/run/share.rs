//! A share of a job: how several processes that see the same files divide them without talking to each other.
//!
//! Every process looks at all files and assigns their ranks as one run over all of them would, then takes its
//! own files. So a rank may follow from a position in the list, and each file is in exactly one share,
//! whichever rank it turns out to hold.

use crate::run::Task;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;

/// Largest number of shares. The limit bounds the work for a mistyped number.
const MOST: usize = 1 << 20;

/// Share `index` of `count`, counted from 0 as the variables of schedulers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunShare {
    pub(crate) index: usize,
    pub(crate) count: usize,
}

impl RunShare {
    /// Reads `K/N`.
    ///
    /// # Errors
    /// When the text is something else, or K is not below N.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(k, n)| Some((k.trim().parse().ok()?, n.trim().parse().ok()?)));
        let share = numbers.map(|(index, count)| Self { index, count });
        let share = share.filter(|s| s.index < s.count && s.count <= MOST);
        share.ok_or_else(|| format!("expected K/N with K from 0 to N-1, e.g. 0/4, found `{text}`"))
    }

    /// The files of this share. All shares have about the same number of bytes: the largest file goes first,
    /// each to the share that has least.
    pub(crate) fn inputs(self, tasks: &[Task], size: impl Fn(&Task) -> u64) -> BTreeSet<usize> {
        let mut order: Vec<(Reverse<u64>, usize)> =
            tasks.iter().map(|t| (Reverse(size(t)), t.input)).collect();
        order.sort_unstable();
        let mut loads: BinaryHeap<Reverse<(u64, usize)>> = (0..self.count).map(|i| Reverse((0, i))).collect();
        let mut own = BTreeSet::new();
        for (Reverse(bytes), input) in order {
            let Some(Reverse((load, index))) = loads.pop() else { break };
            if index == self.index {
                own.insert(input);
            }
            // Files of unknown size are spread by their number.
            loads.push(Reverse((load.saturating_add(bytes.max(1)), index)));
        }
        own
    }
}

impl fmt::Display for RunShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_trace::meta::RankSource;

    fn shares(sizes: &[u64], count: usize) -> Vec<Vec<usize>> {
        let task = |input| Task { input, rank: input as u32, source: RankSource::Name, place: None };
        let tasks: Vec<Task> = (0..sizes.len()).map(task).collect();
        let of = |index| RunShare { index, count }.inputs(&tasks, |t| sizes[t.input]).into_iter().collect();
        (0..count).map(of).collect()
    }

    #[test]
    fn large_files_are_spread_and_small_ones_fill_up() {
        // 9 | 5 + 3 | 4 + 4
        assert_eq!(shares(&[3, 9, 4, 5, 4], 3), [vec![1], vec![0, 3], vec![2, 4]]);
        assert_eq!(shares(&[0, 0, 0, 0], 2), [vec![0, 2], vec![1, 3]]);
        assert_eq!(shares(&[7], 3), [vec![0], vec![], vec![]]);
    }

    #[test]
    fn every_file_is_in_exactly_one_share() {
        let sizes: Vec<u64> = (0..97).map(|i| i * i % 31).collect();
        for count in [1, 2, 5, 97, 120] {
            let mut all: Vec<usize> = shares(&sizes, count).concat();
            all.sort_unstable();
            assert_eq!(all, (0..97).collect::<Vec<_>>(), "{count} shares");
        }
    }

    #[test]
    fn a_share_is_written_as_it_is_read() {
        assert_eq!(RunShare::parse("3/16").map(|s| s.to_string()), Ok("3/16".to_string()));
        for bad in ["", "3", "16/16", "-1/4", "0/0", "1/x", "0/9999999999"] {
            assert!(RunShare::parse(bad).is_err(), "{bad}");
        }
    }
}
