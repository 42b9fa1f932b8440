//! What several analyses need of one rank: computed once by whoever asks first, and shared.

pub(crate) mod collectives;
pub(crate) mod gaps;
pub(crate) mod host_activity;
mod host_sums;
pub(crate) mod idle_split;
pub(crate) mod queue_lengths;
pub(crate) mod step_scopes;
