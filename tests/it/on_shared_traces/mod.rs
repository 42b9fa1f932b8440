//! Tests on traces of third parties, which are not part of the repository ([`crate::shared`] says where they are): against
//! the numbers of other tools, with a reason where hta differs on purpose; against answers that were computed without any
//! tool; and what holds of every trace.
//!
//! `cargo test --release --test it on_shared_traces` runs all of them.

mod acceptance;
mod across;
mod annotations;
mod cases;
mod copies;
mod counters;
mod critical_path;
mod cupti;
mod cuspy;
mod cut_files;
mod devices;
mod diagnosis;
mod diff;
mod diff_invariants;
mod efficiency;
mod evidence_figures;
mod experts;
mod fabric;
mod flight_recorder;
mod folders;
mod graph_ops;
mod hardware_counters;
mod hta_calls;
mod hta_counters;
mod hta_sequences;
mod hta_tables;
mod invariants;
mod kernel_categories;
mod kernel_jobs;
mod kernel_roles;
mod known_answers;
mod launches;
mod lines;
mod memory;
mod memory_timeline;
mod nsys;
mod nsys_stats;
mod ops;
mod ops_known;
mod overlay;
mod page;
mod patterns;
mod perfetto;
mod pipeline;
mod pyprof;
mod queue;
mod record_edges;
mod serving;
mod snapshots;
mod steps;
mod subtract;
mod tracelens;
mod validator;
mod work;
