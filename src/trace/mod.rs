//! What a trace *is*: events, texts, spans, categories, links, stacks, steps. No I/O, no printing.

pub mod activity;
pub mod args;
pub mod category;
pub mod collective;
pub mod content;
pub mod device;
pub mod events;
pub mod interval;
pub mod launch;
pub mod lengths;
pub mod meta;
pub mod narrow;
pub mod rank_trace;
pub mod record_edges;
pub mod rules;
pub mod sparse;
pub mod stack;
pub mod step;
pub mod strings;
pub mod testing;
pub mod thread;
pub mod timeline;
pub mod varint;
pub mod window;
