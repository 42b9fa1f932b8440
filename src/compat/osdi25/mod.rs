//! The what-if analysis of "Understanding Stragglers in Large Model Training Using What-if Analysis"
//! (OSDI'25), on its own timeline format: `what-if --method published`.

mod graph;
mod published;
mod timeline;
pub(super) mod what_if;
