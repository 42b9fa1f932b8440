//! Analyses: one rank to a bounded partial (`map`), all partials to tables and findings (`reduce`). Pure.

pub mod across;
pub mod api;
pub mod breakdown;
mod collective_tables;
pub mod collectives;
pub mod compat;
pub mod copies;
pub mod counters;
pub mod critical_path;
pub mod gaps;
pub mod host_activity;
pub mod idle;
mod idle_report;
pub mod inventory;
pub mod kernels;
pub mod overlap;
pub mod population;
pub mod queue;
pub mod registry;
pub mod settings;
pub mod shortest;
pub mod stragglers;
pub mod summary;
pub mod sync;
mod sync_shortest;
pub mod what_if;
