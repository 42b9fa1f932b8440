//! What several analyses need of one rank: computed once by whoever asks first, and shared.

pub mod collectives;
pub mod gaps;
pub mod host_activity;
mod host_sums;
pub mod idle_split;
pub mod queue_lengths;
pub mod step_scopes;
