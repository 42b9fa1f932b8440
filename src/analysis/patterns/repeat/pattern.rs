//! One pattern that repeats: how long it is, how often it occurs, how much it weighs.

use crate::analysis::patterns::repeat::candidates::Candidate;

/// One pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    pub(super) at: Candidate,
    /// Start of the first occurrence.
    pub first: u32,
    /// Occurrences that do not overlap.
    pub count: u32,
    /// Sum of the weights of all symbols in them.
    pub weight: i64,
    /// Where its starts are in `Repeats::positions`.
    pub(super) from: u32,
}

impl Pattern {
    /// Symbols.
    pub fn length(&self) -> u32 {
        self.at.length
    }
}
