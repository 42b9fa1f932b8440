//! The results of a run: Parquet tables, events, text and JSON, in a folder that is complete or absent.

pub mod captures;
pub mod columns;
pub mod contents;
pub mod events;
pub mod folder;
pub mod html;
pub mod inputs;
pub mod json;
pub(crate) mod layout;
pub mod parquet;
pub mod paths;
pub mod place;
pub mod schema_page;
pub mod tables;
pub mod text;
pub mod unfinished;
pub mod visible;
