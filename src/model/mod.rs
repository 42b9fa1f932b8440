//! What a trace *is*: events, texts, spans, categories, links, stacks, steps. No I/O, no printing.

pub mod activity;
pub mod appended;
pub mod args;
pub mod builder;
pub mod category;
pub mod cells;
pub mod checked;
pub mod collective;
pub mod column;
pub mod content;
pub mod events;
#[cfg(test)]
pub mod every;
pub mod health;
pub mod interval;
pub mod launch;
pub mod lengths;
pub mod meta;
pub mod narrow;
pub mod packed;
pub mod rank_trace;
pub mod record_edges;
pub mod rules;
pub mod schema;
pub mod sparse;
pub mod stack;
pub mod step;
pub mod strings;
pub mod thread;
pub mod timeline;
pub mod varint;
pub mod window;
