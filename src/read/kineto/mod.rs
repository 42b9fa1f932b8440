//! Kineto's Chrome-trace JSON: tokens, events, the document around them, and its pieces.

pub mod cursor;
pub mod document;
pub mod event;
pub mod gaps;
pub mod header;
pub mod number;
pub mod pieces;
mod recent;
pub mod text;
