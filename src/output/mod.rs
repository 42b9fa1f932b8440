//! The results of a run: Parquet tables, events, text and JSON, in a folder that is complete or absent.

pub mod captures;
pub(crate) mod columns;
pub mod contents;
pub mod events;
pub mod folder;
pub(crate) mod html;
pub mod inputs;
pub mod json;
pub(crate) mod layout;
pub(crate) mod parquet;
pub(crate) mod paths;
pub mod place;
pub mod schema_page;
pub mod tables;
pub(crate) mod text;
pub(crate) mod unfinished;
pub(crate) mod visible;
