//! Formatting of counts, ranks and names in sentences and printed tables.

pub mod counts;
pub mod names;
pub mod ranks;
