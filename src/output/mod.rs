//! What a run leaves: Parquet tables, events, text, JSON, in a folder that is complete or absent.

mod bits;
mod chunk;
pub mod columns;
pub mod events;
pub mod folder;
mod footer;
pub mod html;
pub mod inputs;
pub mod json;
pub mod parquet;
pub mod paths;
pub mod place;
mod pretty;
pub mod schema_page;
mod small;
pub mod text;
mod thrift;
pub mod unfinished;
pub mod visible;
