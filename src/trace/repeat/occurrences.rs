//! Occurrences of patterns: positions from left to right, where each taken one starts after the end of the
//! previous.
//!
//! ```text
//!   text    a b a b a x a b a        positions of aba: 0, 2, 6
//!   taken   [...]     . [...]        0 and 6
//! ```
//!
//! The text is walked once for all candidates: at each position, those that begin there are a chain of
//! prefixes, each with the end of its last taken occurrence. So nothing needs to be sorted.
//!
//! A string that is not a loop overlaps itself by less than half, so it has at most 2 n / length places;
//! texts of all kinds met so far have of the order of n log n places in total. A text can be constructed with
//! more (many copies of a block, each changed in another place). Therefore the number of visited places is
//! limited to a multiple of the text's length; strings that cover little are left out first, and counted.

use crate::repeat::MinimumSize;
use crate::repeat::candidates::Candidate;
use crate::repeat::lcp::SuffixArrayWithLcp;
use crate::repeat::pattern::RepeatPattern;
use crate::repeat::prefixes::Prefixes;
use crate::repeat::rotation::one_of_rotations;
use std::cmp::Reverse;

/// Limit for the number of visited places, per position of the text.
const PLACES_PER_POSITION: u64 = 64;
const PLACES: u64 = 1 << 22;

pub struct FoundRepeats {
    pub patterns: Vec<RepeatPattern>,
    /// Starts of taken occurrences, pattern by pattern.
    positions: Vec<u32>,
    pub(super) sorted: SuffixArrayWithLcp,
    /// Strings that were not looked up because of the bound on work; 0 but for texts made for it.
    #[cfg(test)]
    pub(crate) left_out: usize,
}

impl FoundRepeats {
    /// Starts of the pattern's taken occurrences, in order.
    pub fn taken(&self, pattern: &RepeatPattern) -> &[u32] {
        &self.positions[pattern.from as usize..][..pattern.count as usize]
    }
}

pub(crate) fn occurrences(
    text: &[u32],
    weights: &[i64],
    sorted: SuffixArrayWithLcp,
    mut candidates: Vec<Candidate>,
    least: MinimumSize,
) -> FoundRepeats {
    let _left_out = keep_within_bound(text.len(), &mut candidates);
    let mut before = Vec::with_capacity(weights.len() + 1);
    let mut sum = 0i64;
    before.push(0);
    for w in weights {
        sum += w;
        before.push(sum);
    }
    let mut patterns: Vec<RepeatPattern> =
        candidates.iter().map(|&at| RepeatPattern { at, first: 0, count: 0, weight: 0, from: 0 }).collect();
    let walked = walk(&sorted, &candidates, |w: &mut FirstWalkStats, length, i| {
        if w.count == 0 {
            w.first = i;
        }
        w.count += 1;
        w.weight += before[(i + length) as usize] - before[i as usize];
    });
    for (p, w) in patterns.iter_mut().zip(walked) {
        (p.first, p.count, p.weight) = (w.first, w.count, w.weight);
    }
    patterns.retain(|p| p.count >= least.count);
    one_of_rotations(text, &mut patterns);

    let kept: Vec<Candidate> = patterns.iter().map(|p| p.at).collect();
    let mut room = 0;
    for p in &mut patterns {
        p.from = room;
        room += p.count;
    }
    let mut positions = vec![0; room as usize];
    let mut next = patterns.iter().map(|p| p.from);
    walk_from(
        &sorted,
        &kept,
        || next.next().unwrap_or(0),
        |slot: &mut u32, _, i| {
            positions[*slot as usize] = i;
            *slot += 1;
        },
    );
    FoundRepeats {
        patterns,
        positions,
        sorted,
        #[cfg(test)]
        left_out: _left_out,
    }
}

/// What the first walk learns about a candidate.
#[derive(Debug, Clone, Copy, Default)]
struct FirstWalkStats {
    first: u32,
    count: u32,
    weight: i64,
}

fn walk<T: Default>(
    sorted: &SuffixArrayWithLcp,
    candidates: &[Candidate],
    take: impl FnMut(&mut T, u32, u32),
) -> Vec<T> {
    walk_from(sorted, candidates, T::default, take)
}

/// Calls `take(state, length, i)` for each taken occurrence of a candidate, in order of position. Returns the
/// candidates' states, which `state` creates, in the order of the candidates.
fn walk_from<T>(
    sorted: &SuffixArrayWithLcp,
    candidates: &[Candidate],
    mut state: impl FnMut() -> T,
    mut take: impl FnMut(&mut T, u32, u32),
) -> Vec<T> {
    /// The data of one candidate for a step, stored together for locality.
    struct CandidateState<T> {
        shorter: u32,
        length: u32,
        free: u32,
        state: T,
    }
    let prefixes = Prefixes::new(sorted, candidates);
    let open = candidates.iter().zip(prefixes.shorter());
    let mut open: Vec<CandidateState<T>> = open
        .map(|(c, shorter)| CandidateState { shorter, length: c.length, free: 0, state: state() })
        .collect();
    for (i, &rank) in sorted.rank.iter().enumerate() {
        let i = i as u32;
        let mut k = prefixes.longest(rank);
        while let Some(o) = open.get_mut(k as usize) {
            if i >= o.free {
                o.free = i + o.length;
                take(&mut o.state, o.length, i);
            }
            k = o.shorter;
        }
    }
    open.into_iter().map(|o| o.state).collect()
}

/// Drops candidates beyond the limit on places, beginning with those that can cover least. Returns the number
/// dropped.
fn keep_within_bound(n: usize, candidates: &mut Vec<Candidate>) -> usize {
    let bound = (n as u64 * PLACES_PER_POSITION).max(PLACES);
    if candidates.iter().map(|c| u64::from(c.places())).sum::<u64>() <= bound {
        return 0;
    }
    let covers = |c: &Candidate| (u64::from(c.places()) * u64::from(c.length)).min(n as u64);
    candidates.sort_unstable_by_key(|c| (Reverse((covers(c), c.length)), *c));
    let mut visited = 0;
    let within = |c: &&Candidate| {
        visited += u64::from(c.places());
        visited <= bound
    };
    let kept = candidates.iter().take_while(within).count();
    let left_out = candidates.len() - kept;
    candidates.truncate(kept);
    left_out
}
