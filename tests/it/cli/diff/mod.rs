//! `hta diff`: planted changes, what holds on any two traces, thresholds and exit codes, HTA's own answers.

mod command;
mod invariants;
mod iterations;
mod on_shared_traces;
mod planted;
mod refused;
mod sets;
