//! `hta`: holistic trace analysis.
pub mod analysis;
pub mod error;
pub mod model;
pub mod read;
pub mod units;
