//! Facts about one rank that several analyses need: computed by the first that asks, and shared.

pub(crate) mod calls;
pub(crate) mod collectives;
pub(crate) mod counted_work;
pub(crate) mod direction;
pub(crate) mod gaps;
pub(crate) mod graphs;
pub(crate) mod host_activity;
mod host_sums;
pub(crate) mod idle_split;
pub(crate) mod input_work;
pub(crate) mod iterations;
pub(crate) mod kernel_work;
pub(crate) mod lines;
pub(crate) mod machine;
pub(crate) mod marked_inputs;
pub(crate) mod memory_places;
pub(crate) mod modules;
pub(crate) mod operator_work;
pub(crate) mod optimizer_steps;
pub(crate) mod queue_lengths;
pub(crate) mod serving_mode;
pub(crate) mod shared_streams;
pub(crate) mod step_scopes;
pub(crate) mod vendor;
