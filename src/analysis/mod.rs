//! Analyses: `map` reduces one rank to a bounded partial, `reduce` turns all partials into tables and findings. No I/O.

pub(crate) mod annotations;
pub mod api;
pub(crate) mod breakdown;
pub(crate) mod collectives;
pub(crate) mod copies;
pub mod counters;
pub mod critical_path;
pub(crate) mod cupti;
pub(crate) mod filters;
pub(crate) mod idle;
pub mod inventory;
pub mod kernels;
pub(crate) mod launches;
pub(crate) mod overlap;
pub(crate) mod patterns;
pub(crate) mod population;
pub(crate) mod queue;
pub mod registry;
pub mod settings;
pub(crate) mod stacks;
pub(crate) mod steps;
pub(crate) mod stragglers;
pub mod summary;
pub(crate) mod sync;
pub(crate) mod what_if;
pub(crate) mod worst_first;
