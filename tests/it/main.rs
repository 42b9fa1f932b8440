//! All integration tests in one binary: Polars is linked once.

mod broken;
mod cli;
