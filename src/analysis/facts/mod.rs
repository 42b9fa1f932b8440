//! Facts about one rank that several analyses need: computed by the first that asks, and shared.

pub mod by_owner;
pub(crate) mod calls;
pub(crate) mod collectives;
pub(crate) mod counted_work;
pub mod direction;
pub(crate) mod experts;
pub(crate) mod gaps;
pub mod graphs;
pub(crate) mod host_activity;
mod host_sums;
pub(crate) mod idle_split;
pub(crate) mod input_work;
pub(crate) mod iterations;
pub mod kernel_work;
pub(crate) mod lines;
pub(crate) mod machine;
pub mod marked_inputs;
pub(crate) mod memory_places;
pub mod modules;
pub mod operator_work;
pub(crate) mod optimizer_steps;
pub(crate) mod queue_lengths;
pub mod serving_mode;
pub(crate) mod shared_streams;
pub mod step_scopes;
pub(crate) mod vendor;
pub(crate) mod windows;
