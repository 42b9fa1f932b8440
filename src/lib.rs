//! `hta`: holistic trace analysis of distributed PyTorch jobs.
//!
//! # The flow
//!
//! ```text
//!   read  ->  model  ->  analysis  ->  compat  ->  pipeline  ->  report  ->  partial  ->  query  ->  cli
//!   bytes     what a     one rank:     the same    files to      text,       some ranks   SQL over   arguments,
//!   to        trace is   map; all      in others'  answers       Parquet,    mapped,      the        progress,
//!   columns              ranks: reduce definitions               JSON        on disk      tables     exit codes
//! ```
//!
//! Each module uses only those to its left (a test holds it to that); [`units`] and [`error`] are used by
//! all. A rank's trace is read, mapped and dropped; what is kept of it is bounded, so that a job of any
//! number of ranks fits; of many ranks it waits on disk ([`store`]). Row tables are written rank by rank.
//!
//! Inside `analysis`, [`analysis::across`] joins the ranks once (match, align, waits) for all analyses that compare
//! them. An answer in the definitions of another tool or of a paper is an analysis of its own in [`compat`]; which
//! of them a run takes is chosen before it begins ([`compat::chosen`]). One module is more than the first sketch of the architecture had: [`pipeline`], which ties reading,
//! mapping and reducing together without knowing the command line, so that tests and programs run what
//! `hta analyze` runs. And [`partial`] writes what was mapped of some ranks and reads it again, so that many processes
//! can map and one reduce. A rank's events are columns of Arrow ([`model::rank_trace::RankTrace::events`] shares them), and
//! [`query`] hands the columns that a statement names to Polars without copying them: the crossing, through the Arrow C
//! data interface, is the one `unsafe` of the library. The program has another, to tell the allocator how it is used.
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
pub mod diff;
pub mod error;
pub(crate) mod facts;
pub mod health;
pub mod job;
pub mod output;
pub mod overlay;
pub mod partial;
pub mod read;
pub mod run;
pub mod sql;
pub mod store;
pub mod table;
pub mod trace;
pub mod units;
pub(crate) mod wording;
