//! The data model of a trace: events, texts, spans, categories, links, stacks, steps. No I/O and no printing.

pub mod activity;
pub mod args;
pub(crate) mod category;
pub(crate) mod collective;
pub(crate) mod content;
pub(crate) mod device;
pub mod event_batch;
pub mod events;
pub mod interval;
pub(crate) mod launch;
pub(crate) mod memory;
pub mod meta;
pub(crate) mod narrow;
pub mod rank_trace;
pub mod record_edges;
pub mod rules;
pub mod shared;
pub(crate) mod sparse;
pub(crate) mod stack;
pub mod step;
pub mod strings;
pub mod testing;
pub(crate) mod thread;
pub mod timeline;
pub(crate) mod varint;
pub(crate) mod window;
