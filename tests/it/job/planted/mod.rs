//! Whole jobs with a known truth: a simulator lets ranks work, meet in collectives and record what a test says,
//! and the tables of the analyses across ranks are compared with what was planted.
//!
//! Expected numbers come from the simulator's true times by the definitions alone (`truth`), never from an
//! analysis. Local work differs from rank to rank and step to step by a fixed generator: nothing is regular.

mod bandwidth;
mod clocks;
mod groups;
mod inferred;
mod invariants;
pub mod job;
mod kinds;
mod late;
mod late_causes;
mod late_elsewhere;
mod matching;
mod on_host;
mod overlap;
mod pipeline;
pub mod recording;
pub mod simulate;
mod truth;
