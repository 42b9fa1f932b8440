//! Each analysis on traces whose numbers are known.

pub mod annotations;
pub mod causes;
pub mod copies;
pub mod counters;
pub mod critical_path;
pub mod cupti;
pub mod diagnosis;
pub mod efficiency;
pub mod engines;
pub mod flame;
pub mod graph_ops;
pub mod iterations;
pub mod kernels;
pub mod known_samples;
pub mod launches;
pub mod lines;
pub mod memory;
pub mod ops;
pub mod patterns;
pub mod queue;
pub mod record_edges;
pub mod steps;
pub mod timeline;
pub mod top_names;
pub mod unnamed_iterations;
pub mod worst_first;
