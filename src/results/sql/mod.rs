//! SQL over the tables of a results folder or of traces: the queries of `queries/`, and the user's own
//! statements.
//!
//! A statement goes one way: [`statement`] finds out what it reads, a source ([`results`], [`live`]) gives
//! those tables, [`engine`] runs it by the plan that `planner` makes, [`answer`] writes what came out.
//! Before it runs, `plan` and `equal_texts` change its plan so that less is read and compared. Results are
//! read while a statement runs, by `scan`, with the rows and columns that Polars asks for; `load` hands
//! columns to Polars. Polars carries an Arrow of its own, so columns cross by the Arrow C data interface,
//! without a copy; only those that a statement names do.

pub mod answer;
pub mod catalog;
mod codes;
mod condition;
pub mod engine;
mod equal_texts;
mod error;
mod into_polars;
pub mod live;
pub(crate) mod load;
pub mod nearest;
mod plan;
mod planner;
pub mod results;
mod scan;
pub mod statement;

pub use error::QueryError;
