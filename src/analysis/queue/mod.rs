//! Queue length.

pub mod lengths;
