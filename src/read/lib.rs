//! Reads trace files, on disk and in object stores, into one rank's columns. How a recorder writes its files
//! is known here alone, except for the overlay, which copies JSON traces.
//!
#![doc = include_str!("README.md")]

pub mod coordinates;
mod cuspy;
pub mod discover;
pub mod error;
pub mod files;
pub mod format;
pub mod input;
pub mod kineto;
mod leave_out;
pub mod load;
mod marked_operator;
pub mod opening;
pub mod options;
mod perfetto;
pub mod read_ahead;
pub mod reading;
mod reports;
pub mod roles;
pub mod room;
pub mod snapshot;
pub mod source;
mod sqlite;
mod times;
