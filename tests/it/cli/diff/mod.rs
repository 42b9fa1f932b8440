//! `hta diff`: planted changes, what holds on any two traces, thresholds and exit codes, HTA's own answers.

mod command;
pub mod invariants;
pub mod iterations;
mod planted;
mod refused;
mod results;
pub mod sets;
