//! Integration tests in one binary, so that Polars is linked once: hta against other tools, against
//! answers computed apart from any tool, against damaged input, and against its own invariants.

mod annotations;
mod broken;
mod brute;
mod cli;
mod copies;
mod counters;
mod critical_path;
mod csv;
mod cupti;
mod damage;
mod determinism;
mod diff;
mod folders;
mod invariants;
mod known_answers;
mod known_samples;
mod launches;
mod one_analysis;
mod overlay;
mod plan;
mod planted;
mod queue;
mod random;
mod reference_across;
mod reference_hta;
mod reference_hta_calls;
mod reference_hta_counters;
mod reference_tracelens;
mod registry;
mod run;
mod shapes;
mod shared;
mod stacks;
mod stacks_known;
mod steps;
