//! From bytes to one rank's columns. Nothing outside this module knows JSON.

pub mod discover;
pub mod kineto;
pub mod load;
pub mod peek;
pub mod room;
pub mod source;
