//! Integration tests in a single binary, so that Polars is linked once: hta against other tools, against answers
//! computed without any tool, against damaged input, and against its own invariants.

mod analyses;
mod cases;
mod cli;
mod job;
mod plan;
mod reference;
mod registry;
mod robustness;
mod rooms;
mod run;
mod shape;
mod shared;
mod snapshots;
mod stores;
