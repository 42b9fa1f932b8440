//! `hta`: holistic trace analysis of distributed PyTorch jobs.
//!
//! # The flow
//!
//! ```text
//!   each rank, several in parallel                            all ranks together
//!
//!   file -read-> trace -facts-> analysis: map --> partial \
//!   file -read-> trace -facts-> analysis: map --> partial  > job --> analysis: reduce --> output, sql --> cli
//!   file -read-> trace -facts-> analysis: map --> partial /  match calls,
//!                                    |                       align clocks,
//!                                    v                       divide waits
//!                        rows per event, to disk
//! ```
//!
//! A rank's trace is read, mapped and dropped; only its bounded partials are kept, so memory does not grow
//! with the length of a trace times the number of ranks. [`run`] drives this flow without knowing the command
//! line. [`partial`] writes partials to disk, so that many processes can map and one can reduce.
//!
//! # Crates, in order
//!
//! Each crate is a folder of `src` and uses only those above it; this one, the program, names them all again.
//! Files inside a crate do not depend on each other in a circle (`tests/it/rooms.rs`).
//!
//! - `hta-base`: times and sizes ([`units`]), counters of damage in files ([`health`]), declared tables
//!   ([`mod@table`]), wording.
//! - `hta-trace`: [`trace`], the data model of one rank: events, activities, steps, windows, call trees,
//!   collectives; [`kernel`], what a GPU kernel does and how it is called; [`flops`], what an operator
//!   computes and moves.
//! - `hta-testkit`: a language in which tests write traces. Only tests use it.
//! - `hta-read`: [`files`] on disk and objects in stores; [`mod@error`]s, which name the file and the place;
//!   [`read`], trace files to columns, one folder per format. It can be used without the rest.
//! - `hta-facts`: [`facts`] about one rank that several analyses need, computed once.
//! - `hta-job`: [`job`], ranks joined; [`recording`], what was recorded and what may be said from it.
//! - `hta-analysis`: [`analysis`], one folder per analysis, and in that of memory its dumps.
//! - `hta-diagnosis`: [`diagnosis`], causes and verdict; [`registry`], the list of analyses.
//! - `hta-compat`: [`compat`], answers in the definitions of other tools and of a paper, each an analysis of
//!   its own.
//! - `hta-results`: [`store`], what ranks leave; [`run`], the pipeline from files to answers within a memory
//!   limit; [`results`], the tables of a run; [`diff`], comparison of two sets of traces; [`output`], text,
//!   Parquet, JSON and HTML; [`partial`]s on disk, and their merge; [`sql`], queries over the tables.
//! - `hta`: [`overlay`], traces with counters and marks added; [`mcp`], a server for assistants; [`cli`],
//!   arguments, progress, exit codes.
//!
//! # Where to add
//!
//! `CONTRIBUTING.md` has the steps.
//!
//! - A trace format: a folder in `read/` that implements [`read::format::TraceFormat`], and a line in
//!   `read/load.rs`.
//! - An analysis: a folder in `analysis/` that implements [`analysis::api::Analysis`], and a line in
//!   `diagnosis/registry.rs`.
//! - A kernel class (compute, communication, memory, fused) for some kernels: a rule in
//!   `data/kernel_rules.toml`; the kernels of a library: a block there, with their roles in an exchange and
//!   names for the test. A new event category of a profiler: `trace/category.rs`.
//! - A rule about what a recording cannot show: a file in `job/recording/rules/`, and its name in the
//!   list there.
//! - A column of a table: its declaration (`table!`, mostly in the `tables.rs` of an analysis), and where its
//!   rows are made. A column of `events` from an event argument: `trace/args.rs`.
//! - A field of what a rank leaves for the job: its struct, and its column in `analysis/job/part/tables.rs`
//!   (`stored!`, which writes and reads it).
//! - A query: a file in `queries/`, and its name in `results/sql/catalog.rs`.
//!
//! # Unsafe code
//!
//! `results/sql/into_polars.rs` hands Arrow columns to Polars through the Arrow C data interface without
//! copying them. It is the only file of the library with `unsafe`; `main.rs` has one more use, to configure
//! the allocator.
//!
//! # Units
//!
//! Times are `i64` nanoseconds, spans half open, sizes bytes. Missing is `None` or null, never -1. Ratios and
//! percentages are computed at the last step.
//!
//! # Terms
//!
//! - *rank*: one process of the job, with one trace file.
//! - *activity*: a kernel, copy or set on a device.
//! - *launch*: the runtime call that submitted an activity; *owning operator*: the innermost operator around
//!   that call.
//! - *compute*, *communication*, *memory*: the class of an activity; each has exactly one.
//! - *exposed*: not covered by compute.
//! - *window*: the time for which a row is: span, capture, step, outside; *capture*: first to last recorded
//!   event.
//! - *host wait*: idle time of a device whose next activity is not submitted yet.

pub mod cli;
pub mod mcp;
pub mod overlay;

pub use hta_analysis::{self as analysis, memory::snapshot};
pub use hta_base::{health, table, units};
pub use hta_compat as compat;
pub use hta_diagnosis::{self as diagnosis, registry};
pub use hta_facts as facts;
pub use hta_job::{self as job, recording};
pub use hta_read::{self as read, error, files};
pub use hta_results::{diff, output, partial, results, run, sql, store};
pub use hta_trace::{self as trace, flops, kernel};
