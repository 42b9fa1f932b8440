//! Rows of the tables of ranks, summed by key: how tables over ranks are made.
//!
//! A figure over ranks is made here once, when the ranks are reduced; printed tables, the page and queries
//! read it. Memory depends on the number of keys, not on the number of ranks.

use hashbrown::HashMap;
use std::cmp::Reverse;
use std::hash::Hash;

/// The sums of one key.
#[derive(Debug)]
pub(crate) struct RankSums<const N: usize, M> {
    pub(crate) sums: [i64; N],
    /// Ranks that have the key.
    pub(crate) rank_count: u32,
    /// Largest first sum of one rank, and the lowest rank that has it.
    pub(crate) max: (i64, u32),
    /// What is not a sum.
    pub(crate) more: M,
    /// First sum so far of the rank of the last row, and that rank.
    last: (i64, u32),
}

/// Sums by scope and key.
pub(crate) struct OverRanks<'a, K, const N: usize, M = ()> {
    rows: HashMap<(&'a str, K), RankSums<N, M>>,
}

impl<'a, K: Ord + Hash, const N: usize, M: Default> OverRanks<'a, K, N, M> {
    pub(crate) fn new() -> Self {
        Self { rows: HashMap::new() }
    }

    /// Adds a row. Rows must come in order of rank.
    pub(crate) fn add(&mut self, scope: &'a str, key: K, rank: u32, values: [i64; N]) -> &mut M {
        let first = values.first().copied().unwrap_or(0);
        let row = self.rows.entry((scope, key)).or_insert_with(|| RankSums {
            sums: [0; N],
            rank_count: 1,
            max: (i64::MIN, rank),
            more: M::default(),
            last: (0, rank),
        });
        if row.last.1 != rank {
            row.rank_count += 1;
            row.last = (0, rank);
        }
        for (sum, value) in row.sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(value);
        }
        row.last.0 = row.last.0.saturating_add(first);
        if row.last.0 > row.max.0 {
            row.max = row.last;
        }
        &mut row.more
    }

    /// Scope, key and sums, by scope, sums from the largest down, and key.
    pub(crate) fn rows(self) -> Vec<(&'a str, K, RankSums<N, M>)> {
        let mut rows: Vec<_> = self.rows.into_iter().map(|((scope, key), sums)| (scope, key, sums)).collect();
        rows.sort_by(|a, b| {
            let order = |r: &(&'a str, K, RankSums<N, M>)| (r.0, Reverse(r.2.sums));
            order(a).cmp(&order(b)).then_with(|| a.1.cmp(&b.1))
        });
        rows
    }
}

/// Adds a value to a sum that is null as long as no value is known.
pub(crate) fn add_known(sum: &mut Option<i64>, value: Option<i64>) {
    *sum = value.map(|v| sum.unwrap_or(0).saturating_add(v)).or(*sum);
}

/// The same of operations and bytes.
pub(crate) fn add_work(sum: &mut Option<u64>, value: Option<u64>) {
    *sum = value.map(|v| sum.unwrap_or(0).saturating_add(v)).or(*sum);
}

/// What work did per second and byte, over ranks; null where the work is not known, or took no time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkRates {
    pub(crate) tflops_per_s: Option<f64>,
    pub(crate) tb_per_s: Option<f64>,
    pub(crate) flops_per_byte: Option<f64>,
}

impl WorkRates {
    /// Operations and bytes in so many ns.
    pub(crate) fn new(flops: Option<u64>, bytes: Option<u64>, ns: i64) -> Self {
        let rate = |work: Option<u64>| work.filter(|_| ns > 0).map(|v| v as f64 / ns as f64 / 1e3);
        Self {
            tflops_per_s: rate(flops),
            tb_per_s: rate(bytes),
            flops_per_byte: flops.zip(bytes.filter(|b| *b > 0)).map(|(f, b)| f as f64 / b as f64),
        }
    }
}

/// Time by text; few texts.
#[derive(Debug, Default)]
pub(crate) struct TextShares<'a>(Vec<(&'a str, i64)>);

impl<'a> TextShares<'a> {
    pub(crate) fn add(&mut self, text: &'a str, ns: i64) {
        match self.0.iter_mut().find(|(t, _)| *t == text) {
            Some((_, sum)) => *sum += ns,
            None => self.0.push((text, ns)),
        }
    }

    /// The text with most time; of equal ones the first in the order of the alphabet.
    pub(crate) fn largest(&self) -> Option<(&'a str, i64)> {
        self.0.iter().copied().max_by_key(|(text, ns)| (*ns, Reverse(*text)))
    }
}

/// How near work came to what devices can do, over ranks.
#[derive(Debug, Default)]
pub(crate) struct AttainedWork<'a> {
    /// Time of which the attainable part is known, and that part of it, ns.
    known_ns: i64,
    attained_ns: f64,
    bounds: TextShares<'a>,
}

impl<'a> AttainedWork<'a> {
    pub(crate) fn add(&mut self, ns: i64, roofline_pct: Option<f64>, bound: Option<&'a str>) {
        let Some(pct) = roofline_pct else { return };
        self.known_ns += ns;
        self.attained_ns += pct * ns as f64;
        if let Some(bound) = bound {
            self.bounds.add(bound, ns);
        }
    }

    /// Percentage of what is attainable, weighted by time.
    pub(crate) fn pct(&self) -> Option<f64> {
        (self.known_ns > 0).then(|| self.attained_ns / self.known_ns as f64)
    }

    /// What limits it for most of the time.
    pub(crate) fn bound(&self) -> Option<&'a str> {
        self.bounds.largest().map(|(bound, _)| bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_by_key_with_the_rank_that_has_most() {
        let mut all: OverRanks<&str, 2> = OverRanks::new();
        for (rank, key, values) in [(0, "a", [3, 1]), (0, "a", [3, 1]), (0, "b", [9, 1]), (2, "a", [5, 1])] {
            all.add("span", key, rank, values);
        }
        all.add("outside", "a", 2, [1, 1]);
        let rows = all.rows();
        let shown: Vec<_> =
            rows.iter().map(|(scope, key, s)| (*scope, *key, s.sums, s.rank_count, s.max)).collect();
        let expected = [
            ("outside", "a", [1, 1], 1, (1, 2)),
            ("span", "a", [11, 3], 2, (6, 0)),
            ("span", "b", [9, 1], 1, (9, 0)),
        ];
        assert_eq!(shown, expected);
    }
}
