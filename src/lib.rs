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
//! A rank's trace is read, mapped and dropped; only its bounded partials are kept, so memory does not grow with the
//! length of a trace times the number of ranks. [`run`] drives this flow without knowing the command line. [`partial`]
//! writes partials to disk, so that many processes can map and one can reduce.
//!
//! # Modules, in order
//!
//! Each module uses only those above it, and files inside a folder do not depend on each other in a circle
//! (`tests/it/rooms.rs` checks both).
//!
//! - [`units`], [`health`]: times and sizes, counters of damage in files.
//! - [`files`]: files on disk and objects in stores.
//! - [`mod@error`][]: errors, which name the file and the place.
//! - [`mod@table`]: declaring, building and reading tables.
//! - [`trace`]: the data model of one rank: events, activities, steps, windows, call trees, collectives.
//! - `wording`: formatting of counts, ranks and names.
//! - [`kernel`]: what a GPU kernel does and how it is called, from its name.
//! - [`flops`]: what an operator computes and moves, from its recorded inputs.
//! - [`read`]: trace files to columns, one folder per format.
//! - `facts`: facts about one rank that several analyses need, computed once: gaps, host activity, queues, calls of
//!   collectives.
//! - [`job`]: ranks joined: matching of calls, clock offsets, waiting and transfer, delays.
//! - [`recording`]: what was recorded, and what may be said from it: limits by rank, capability and rule.
//! - [`analysis`]: one folder per analysis, and their list.
//! - [`snapshot`]: memory snapshots and timelines, in the tables of the analysis of memory.
//! - [`diff`]: comparison of two sets of traces.
//! - [`compat`]: answers in the definitions of other tools and of a paper, each an analysis of its own.
//! - [`store`]: what ranks leave, from mapping to reducing: in memory, or in a temporary file if it is much.
//! - [`run`]: the pipeline from files to answers, within a memory limit.
//! - [`output`]: text, Parquet, JSON and HTML, in a folder that is complete or absent.
//! - [`partial`]: partials on disk, and their merge.
//! - [`sql`]: queries over the tables.
//! - [`overlay`]: traces with counters and marks added, for viewers.
//! - `mcp`: a server for assistants, which answers from results and traces.
//! - [`cli`]: arguments, progress, exit codes.
//!
//! # Where to add
//!
//! `CONTRIBUTING.md` has the steps.
//!
//! - A trace format: a folder in `read/` that implements [`read::format::TraceFormat`], and a line in `read/load.rs`.
//! - An analysis: a folder in `analysis/` that implements [`analysis::api::Analysis`], and a line in
//!   `registry.rs`.
//! - A kernel class (compute, communication, memory) for some kernels: a rule in `data/kernel_rules.toml`. A new event
//!   category of a profiler: `trace/category.rs`.
//! - A rule about what a recording cannot show: a file in `recording/rules/`, and its name in the list there.
//! - A column of a table: its declaration (`table!`, mostly in the `tables.rs` of an analysis), and where its rows are
//!   made. A column of `events` from an event argument: `trace/args.rs`.
//! - A query: a file in `queries/`, and its name in `sql/catalog.rs`.
//!
//! # Unsafe code
//!
//! `sql/into_polars.rs` hands Arrow columns to Polars through the Arrow C data interface without copying them. It is the
//! only file of the library with `unsafe`; `main.rs` has one more use, to configure the allocator.
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
//! - *launch*: the runtime call that submitted an activity; *owning operator*: the innermost operator around that call.
//! - *compute*, *communication*, *memory*: the class of an activity; each has exactly one.
//! - *exposed*: not covered by compute.
//! - *window*: the time for which a row is: span, capture, step, outside; *capture*: first to last recorded event.
//! - *host wait*: idle time of a device whose next activity is not submitted yet.

#![deny(unsafe_code)]

pub mod analysis;
pub mod cli;
pub mod compat;
pub mod diagnosis;
pub mod diff;
pub mod error;
pub(crate) mod facts;
pub mod files;
pub mod flops;
pub mod health;
pub mod job;
pub mod kernel;
pub mod mcp;
pub mod output;
pub mod overlay;
pub mod partial;
pub mod read;
pub mod recording;
pub mod registry;
pub mod run;
pub mod snapshot;
pub mod sql;
pub mod store;
pub mod table;
pub mod trace;
pub mod units;
pub(crate) mod wording;
