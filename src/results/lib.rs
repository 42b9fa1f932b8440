//! From traces to results: the pipeline, what ranks leave, comparison, SQL, and the written forms of results.
//!
//! - [`store`]: what ranks leave, from mapping to reducing: in memory, or in a temporary file if it is much.
//! - [`run`]: the pipeline from files to answers, within a memory limit.
//! - [`results`]: the tables of a run, read from a folder or a store.
//! - [`diff`]: comparison of two sets of traces.
//! - [`output`]: text, Parquet, JSON and HTML, in a folder that is complete or absent.
//! - [`partial`]: partials on disk, and their merge.
//! - [`sql`]: queries over the tables.

pub mod diff;
pub mod output;
pub mod partial;
pub mod results;
pub mod run;
pub mod sql;
pub mod store;
