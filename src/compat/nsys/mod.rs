//! Summaries with the names and columns of NVIDIA's `nsys stats`, for every input that hta reads.
//!
//! Each report is an analysis. Sums leave the distinct values of each row with their counts, so that medians
//! over many ranks are exact; reports with a row for each event give rows.

mod collect;
mod distribution;
mod events;
mod listing;
mod names;
mod process;
mod ranges;
mod reports;
mod samples;
mod sums;
mod usage;

pub use events::NsysEvents;
pub use reports::{REPORTS, Report, find};

/// The page of `hta explain nsys-stats`.
pub const PAGE: &str = include_str!("page.md");
