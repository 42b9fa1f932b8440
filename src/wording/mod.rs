//! Formatting of counts, ranks and names in sentences and printed tables.

pub(crate) mod counts;
pub(crate) mod names;
pub(crate) mod ranks;
