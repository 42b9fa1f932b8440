//! From bytes to one rank's columns. Nothing outside this room knows JSON, but the overlay, which copies it.

pub mod discover;
pub mod format;
pub mod input;
pub mod kineto;
pub mod load;
pub mod options;
pub mod reading;
pub mod room;
pub mod source;
mod times;
