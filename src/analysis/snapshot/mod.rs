//! Memory snapshots: what the allocator held when the snapshot was taken, and its history.
//!
//! A snapshot is not a trace: it has no operators or steps, but blocks, segments and a stack for every allocation. It is
//! answered in the tables of the analysis `memory` and some of its own. [`rows`] fills the tables, [`report`] writes the
//! text, [`findings`] says what stands out, and [`compare`] sets two snapshots against each other.

mod allocation_rows;
pub mod compare;
pub mod content;
pub mod device;
pub(crate) mod end_state;
pub mod events;
pub mod findings;
pub mod flame;
pub mod history;
pub mod leak;
pub(crate) mod moment;
pub(crate) mod phase;
pub mod report;
pub mod rows;
pub mod site;
mod stack_text;
pub mod state_rows;
pub mod summary;
pub mod tables;
pub mod timeline;

pub use stack_text::folded;

/// The page of `hta explain snapshots`.
pub const PAGE: &str = include_str!("page.md");
