//! Integration tests in a single binary, so that Polars is linked once: hta against other tools, against answers
//! computed without any tool, against damaged input, and against its own invariants.

mod analyses;
mod cli;
mod evidence;
mod job;
mod on_shared_traces;
mod plan;
mod registry;
mod robustness;
mod rooms;
mod run;
mod shape;
mod shared;
mod snapshots;
mod steps;
mod stores;
