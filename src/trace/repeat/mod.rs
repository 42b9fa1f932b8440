//! Repeats in a text of symbols: the pure algorithm behind the table `repeats`, and behind steps that nothing
//! names.
//!
//! The text is the sequence of activities of one stream, one symbol per activity. Nothing here depends on
//! traces or times, except that every position has a weight, which decides between rotations of a loop body.
//!
//! ```text
//!   text         a b c x a b c y a b c x
//!   abc          [...]   [...]   [...]        occurs three times, before x and y: a maximal repeat
//!   abcx         [.....]         [.....]      one too, with two occurrences
//!   bc             no: always after an a, so it says nothing that abc does not
//! ```
//!
//! 1. `suffix_array` sorts the suffixes (induced sorting, linear); `lcp` gives the common length of
//!    neighbours.
//! 2. `candidates` are the LCP intervals with more than one left symbol: the maximal repeats, fewer than
//!    positions. In a loop of n rounds they overlap themselves and there are about n of them; `runs` finds
//!    all loops of the text at once, so such a candidate is replaced by its root without a search in the
//!    text.
//! 3. `occurrences` takes each pattern's positions from left to right and keeps one of its rotations.
//! 4. `contained` finds which pattern is part of which.
//!
//! The total time is O(n log n); a limit on the positions visited guarantees that for any text (see
//! `occurrences`).

mod candidates;
mod contained;
mod lcp;
mod occurrences;
mod pattern;
mod prefixes;
mod rotation;
mod runs;
mod suffix_array;
#[cfg(test)]
mod tests;

pub use contained::parents;
pub use occurrences::FoundRepeats;

/// Requirements for a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinimumSize {
    /// Smallest number of symbols, at least 1.
    pub length: u32,
    /// Smallest number of occurrences that do not overlap, at least 1.
    pub count: u32,
}

/// The patterns of a text, in a deterministic order. `weights` has one entry per position.
pub fn repeats(text: &[u32], weights: &[i64], least: MinimumSize) -> FoundRepeats {
    let suffixes = suffix_array::suffix_array(text);
    let sorted = lcp::SuffixArrayWithLcp::new(text, suffixes);
    let runs = runs::runs(text, &sorted, least.length);
    let candidates = candidates::candidates(text, &sorted, runs, least);
    occurrences::occurrences(text, weights, sorted, candidates, least)
}
