//! Reads trace files into one rank's columns. Only this module knows JSON, except for the overlay, which copies it.

pub mod coordinates;
pub mod discover;
pub mod format;
pub mod input;
pub mod kineto;
pub mod load;
mod marked_operator;
pub mod options;
pub mod reading;
mod reports;
pub mod room;
pub mod snapshot;
pub mod source;
mod sqlite;
mod times;
