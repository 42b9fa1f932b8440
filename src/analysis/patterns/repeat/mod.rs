//! Repeats in a text of symbols: the pure algorithm below `repeats`.
//!
//! The text is what one stream ran, a symbol per activity; nothing here knows of traces or times, except
//! that every position has a weight by which rotations of one loop body are chosen between.
//!
//! ```text
//!   text         a b c x a b c y a b c x
//!   abc          [...]   [...]   [...]        occurs three times, before x and y: a maximal repeat
//!   abcx         [.....]         [.....]      one too, with two occurrences
//!   bc             no: always after an a, so it says nothing that abc does not
//! ```
//!
//! 1. `suffix_array` sorts the suffixes (induced sorting, linear); `lcp` says how much neighbours share.
//! 2. `candidates` are the LCP intervals with more than one left symbol: the maximal repeats, fewer than
//!    positions. In a loop of n rounds they overlap themselves and are about n; `runs` finds all loops
//!    of the text at once, so such a candidate goes to its root without being looked up in the text.
//! 3. `occurrences` takes each pattern's positions from left to right and keeps one of its rotations.
//! 4. `contained` finds which pattern is part of which.
//!
//! All in all O(n log n), and a bound on the positions visited makes it so on any text (see
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
pub use occurrences::Repeats;

/// What a pattern must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least {
    /// Symbols, at least 1.
    pub length: u32,
    /// Occurrences that do not overlap, at least 1.
    pub count: u32,
}

/// The patterns of a text, in no particular but always the same order. `weights` has an entry per position.
pub fn repeats(text: &[u32], weights: &[i64], least: Least) -> Repeats {
    let suffixes = suffix_array::suffix_array(text);
    let sorted = lcp::Sorted::new(text, suffixes);
    let runs = runs::runs(text, &sorted, least.length);
    let candidates = candidates::candidates(text, &sorted, runs, least);
    occurrences::occurrences(text, weights, sorted, candidates, least)
}
