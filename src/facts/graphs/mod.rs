//! Kernels inside graphs: which recorded call of a capture each activity of a replay is, and so its operator.
//!
//! - `capture_file`: what a trace of captures says of its graphs.
//! - `symbols`: names of kernels, copies and sets as numbers that are equal for equal work.
//! - `alignment`: the longest common subsequence of two sequences of symbols.
//! - `choice`: the capture from which a sequence of replayed activities comes.
//! - `nodes`: the answer for every activity of a rank.
//! - `named`: how much of the GPU time in graphs has a name.

mod alignment;
pub mod capture_file;
mod choice;
pub mod named;
pub mod nodes;
mod symbols;
