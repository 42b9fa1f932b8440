//! All integration tests in one binary: Polars is linked once.

mod broken;
mod cli;
mod csv;
mod damage;
mod known_answers;
mod known_samples;
mod reference_hta;
mod reference_tracelens;
mod run;
mod shared;
