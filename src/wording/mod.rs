//! How counts, ranks and names are written in sentences and printed tables.

pub mod counts;
pub mod names;
pub mod ranks;
