//! How counts, ranks and names are written in sentences and printed tables.

pub(crate) mod counts;
pub(crate) mod names;
pub(crate) mod ranks;
