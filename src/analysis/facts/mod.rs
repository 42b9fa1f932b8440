//! Facts about one rank that several analyses need: computed by the first that asks, and shared.

pub mod calls;
pub mod collectives;
pub mod counted_work;
pub mod direction;
pub mod gaps;
pub mod graphs;
pub mod host_activity;
mod host_sums;
pub mod idle_split;
pub mod input_work;
pub mod iterations;
pub mod kernel_work;
pub mod lines;
pub mod machine;
pub mod marked_inputs;
pub mod memory_places;
pub mod modules;
pub mod operator_work;
pub mod optimizer_steps;
pub mod queue_lengths;
pub mod serving_mode;
pub mod shared_streams;
pub mod step_scopes;
pub mod vendor;
