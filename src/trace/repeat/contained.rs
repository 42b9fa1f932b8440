//! Finds which pattern is part of which.

use crate::repeat::occurrences::FoundRepeats;
use crate::repeat::prefixes::Prefixes;

/// Limit for the number of positions visited, per position of the text.
const STEPS_PER_POSITION: u64 = 64;
const STEPS: u64 = 1 << 22;

/// For each pattern the first other pattern in `ranking` that contains it.
///
/// One occurrence of a pattern is walked: every pattern that begins and ends inside it is part of it. A
/// pattern that is part of a higher-ranked one contains nothing that the other does not, and is not walked.
/// The walk is bounded for texts that are constructed to be slow; patterns beyond the bound have no parent.
pub fn parents(all: &FoundRepeats, ranking: &[u32]) -> Vec<Option<u32>> {
    let strings: Vec<_> = all.patterns.iter().map(|p| p.at).collect();
    let prefixes = Prefixes::new(&all.sorted, &strings);
    let mut parent: Vec<Option<u32>> = vec![None; all.patterns.len()];
    let mut left = (all.sorted.len() as u64 * STEPS_PER_POSITION).max(STEPS);
    for &outer in ranking {
        let pattern = &all.patterns[outer as usize];
        if parent[outer as usize].is_some() || left < u64::from(pattern.length()) {
            continue;
        }
        left -= u64::from(pattern.length());
        for inside in 0..pattern.length() {
            let rank = all.sorted.rank[(pattern.first + inside) as usize];
            for k in prefixes.up_to(rank, pattern.length() - inside) {
                // If one has a parent, so have all patterns that are its beginnings.
                if parent[k as usize].is_some() {
                    break;
                }
                if k != outer {
                    parent[k as usize] = Some(outer);
                }
            }
        }
    }
    parent
}
