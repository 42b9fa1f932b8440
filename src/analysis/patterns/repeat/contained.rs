//! Which pattern is part of which.

use crate::analysis::patterns::repeat::occurrences::Repeats;
use crate::analysis::patterns::repeat::prefixes::Prefixes;

/// Positions that may be walked, per position of the text and at least.
const STEPS_PER_POSITION: u64 = 64;
const STEPS: u64 = 1 << 22;

/// For each of the patterns the first in `ranking` that contains it, but itself.
///
/// One occurrence of a pattern is walked: every pattern that begins inside and ends there is part of it.
/// What is itself part of a pattern ranked before contains nothing that one does not, and is not walked.
/// As with places, the walk is bounded for texts made to be slow; what is beyond names no parent.
pub fn parents(all: &Repeats, ranking: &[u32]) -> Vec<Option<u32>> {
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
                // where one has a parent, so have those that it begins with
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
