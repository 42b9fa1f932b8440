//! What every crate of hta builds on: times and sizes, medians, counters of damage in files, memory of the
//! process, wording, and typed tables.
//!
//! Times are `i64` nanoseconds, spans half open, sizes bytes. Missing is `None` or null, never -1.

pub mod health;
pub mod order_statistics;
pub mod process;
pub mod table;
pub mod units;
pub mod wording;
