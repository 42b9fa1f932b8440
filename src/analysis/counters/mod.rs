//! Counters of a device over time.

pub mod load;
pub mod series;
