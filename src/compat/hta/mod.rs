//! Answers in the definitions of Meta's Holistic Trace Analysis 0.5.0.
//!
//! Reproduced on purpose, because its figures exist only with them: whole microseconds (starts rounded
//! up, ends down, so that a length can become -1), classes by name, every row with a stream as GPU work,
//! the last profiler step left out. A length of -1 subtracts from a union there; so it does here.
//! Not reproduced: rows without a launch joined with event 0, and crashes.

pub(super) mod annotations;
pub(super) mod breakdown;
pub(super) mod copies;
pub(super) mod cupti;
pub mod diff;
mod groups;
pub(super) mod idle;
pub(super) mod kernels;
pub(super) mod launches;
mod loader;
pub(super) mod overlap;
pub(super) mod patterns;
pub(super) mod queue;
mod statistics;
pub(super) mod stragglers;

pub(super) const NAME: &str = "hta";
