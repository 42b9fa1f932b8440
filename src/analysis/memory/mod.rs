//! Memory: levels over time, peaks and what holds them, allocations, and what outlives its step.

pub(crate) mod tables;
