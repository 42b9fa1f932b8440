//! Whole jobs with a known truth: a simulator runs ranks with work and collectives and records them as a test
//! specifies, and the tables of the analyses that compare ranks are checked against it.
//!
//! Expected numbers are computed from the simulator's true times by the definitions (`truth`), never by an analysis.
//! Local work differs between ranks and steps by a fixed generator, so nothing is regular.

mod bandwidth;
mod bubble;
mod clocks;
mod context_ring;
mod delay_cost;
mod expert_kernels;
mod experts;
mod fabric;
mod few_groups;
mod fused_kernels;
mod groups;
mod hybrid;
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
mod transfers;
mod truth;
