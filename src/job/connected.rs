//! Sets of ranks that have ranks in common, joined: `{0, 1}, {1, 2}, {4, 5}` are `{0, 1, 2}` and `{4, 5}`.

use std::collections::BTreeMap;

/// The joined sets by their lowest rank, each ascending.
pub fn connected<S: IntoIterator<Item = u32>>(sets: impl IntoIterator<Item = S>) -> Vec<Vec<u32>> {
    // By rank: itself, or a lower rank of its set.
    let mut lower: BTreeMap<u32, u32> = BTreeMap::new();
    for set in sets {
        let mut ranks = set.into_iter();
        let Some(first) = ranks.next() else { continue };
        lower.entry(first).or_insert(first);
        for rank in ranks {
            lower.entry(rank).or_insert(rank);
            let (a, b) = (lowest(&mut lower, first), lowest(&mut lower, rank));
            lower.insert(a.max(b), a.min(b));
        }
    }
    let ranks: Vec<u32> = lower.keys().copied().collect();
    let mut joined: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for rank in ranks {
        let of = lowest(&mut lower, rank);
        joined.entry(of).or_default().push(rank);
    }
    joined.into_values().collect()
}

/// The lowest rank of the set of a rank; the way to it is shortened.
fn lowest(lower: &mut BTreeMap<u32, u32>, rank: u32) -> u32 {
    let mut at = rank;
    while let Some(next) = lower.get(&at).copied().filter(|next| *next != at) {
        let beyond = lower.get(&next).copied().unwrap_or(next);
        lower.insert(at, beyond);
        at = beyond;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_with_ranks_in_common_are_joined() {
        assert_eq!(connected([[1, 0], [2, 1], [4, 5]]), [vec![0, 1, 2], vec![4, 5]]);
        assert_eq!(connected([vec![3], vec![9, 7], vec![7, 3], vec![]]), [vec![3, 7, 9]]);
        let chain: Vec<[u32; 2]> = (0..500).rev().map(|r| [r, r + 1]).collect();
        assert_eq!(connected(chain), [(0..=500).collect::<Vec<_>>()]);
    }
}
