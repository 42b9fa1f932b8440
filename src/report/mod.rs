//! What a run leaves: Parquet tables, events, text, JSON, in a folder that is complete or absent.

mod bits;
mod chunk;
pub mod columns;
pub mod events;
pub mod folder;
pub mod html;
pub mod json;
pub mod overlay;
pub mod parquet;
pub mod text;
pub mod unfinished;
