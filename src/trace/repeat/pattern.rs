//! A repeated pattern: its length, number of occurrences and weight.

use crate::repeat::candidates::Candidate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatPattern {
    pub(super) at: Candidate,
    /// Start of the first occurrence.
    pub first: u32,
    /// Number of occurrences that do not overlap.
    pub count: u32,
    /// Sum of the weights of all symbols in the occurrences.
    pub weight: i64,
    /// Index of its first start in `Repeats::positions`.
    pub(super) from: u32,
}

impl RepeatPattern {
    /// Number of symbols.
    pub fn length(&self) -> u32 {
        self.at.length
    }
}
