//! The numbers that other tools give, and where hta differs on purpose.

pub mod acceptance;
pub mod across;
pub mod coming_from_hta;
pub mod graph_ops;
pub mod hta_calls;
pub mod hta_counters;
pub mod hta_sequences;
pub mod hta_tables;
pub mod kernel_categories;
pub mod lines;
pub mod memory;
pub mod nsys;
pub mod nsys_stats;
pub mod pyprof;
pub mod serving;
pub mod tracelens;
pub mod work;
