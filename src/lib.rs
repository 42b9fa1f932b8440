//! `hta`: holistic trace analysis.
pub mod analysis;
pub mod cli;
pub mod error;
pub mod model;
pub mod pipeline;
pub mod read;
pub mod report;
pub mod units;
