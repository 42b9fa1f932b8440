//! Copies and sets.

pub mod bandwidth;
pub mod copy;
