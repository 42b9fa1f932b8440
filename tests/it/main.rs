//! Integration tests in one binary, so that Polars is linked once: hta against other tools, against
//! answers computed apart from any tool, against damaged input, and against its own invariants.

mod broken;
mod brute;
mod cli;
mod csv;
mod damage;
mod determinism;
mod folders;
mod invariants;
mod known_answers;
mod known_samples;
mod patterns;
mod plan;
mod planted;
mod random;
mod reference_across;
mod reference_hta;
mod reference_sequences;
mod reference_tracelens;
mod registry;
mod run;
mod shapes;
mod shared;
