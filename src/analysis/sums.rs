//! Rows of one table, summed over ranks and steps, for observations.

use std::collections::BTreeMap;

/// Rows of one table, summed over ranks (and steps) by text keys.
pub(crate) struct KeyedSums<'a, const K: usize, const N: usize> {
    pub(crate) key: [&'a str; K],
    pub(crate) values: [i64; N],
}

/// Adds up the values of equal keys; in order of the keys.
pub(crate) fn sums<'a, const K: usize, const N: usize>(
    rows: impl Iterator<Item = ([&'a str; K], [i64; N])>,
) -> Vec<KeyedSums<'a, K, N>> {
    let mut all: BTreeMap<[&str; K], [i64; N]> = BTreeMap::new();
    for (key, values) in rows {
        let sum = all.entry(key).or_insert([0; N]);
        sum.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
    }
    all.into_iter().map(|(key, values)| KeyedSums { key, values }).collect()
}
