//! Answers in the definitions of Meta's Holistic Trace Analysis (HTA) 0.5.0.
//!
//! These properties of HTA are reproduced on purpose, because its figures cannot be reproduced without them:
//! whole microseconds (starts are rounded up and ends down, so that a length can become -1), classes by name,
//! every row with a stream counts as GPU work, the last profiler step is left out. A length of -1 subtracts
//! from a union in HTA, and therefore here, too.
//!
//! Not reproduced: HTA joins rows without a launch with event 0, and crashes on some traces.

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
