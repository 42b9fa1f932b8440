//! A builder with which tests and samples describe traces that can be checked by eye.
//!
//! Times are `i64` nanoseconds after the trace's origin, spans are half open ranges. A builder holds one
//! rank; `Format` says how the file is written (time era, key order, spelling, known defects of producers).
//! The bytes depend only on the calls, and events are in the file in the order of the calls.
//!
//! ```text
//! host      |aten::mm.........|                 us(0)..us(50)
//! launch        |==|                            us(10)..us(15)
//! stream 7             |sgemm...........|       us(60)..us(120)
//! ```
//!
//! ```
//! use hta_testkit::{TraceBuilder, us};
//!
//! let mut t = TraceBuilder::new().rank(0).world(8).host("node-0").device("NVIDIA H100", 132);
//! let mut main = t.thread(1);
//! main.op("aten::mm", us(0)..us(50));
//! main.launch(us(10)..us(15)).kernel("sgemm", 7, us(60)..us(120)).grid([132, 1, 1]);
//! let json = t.to_json();
//! assert!(json.contains("\"correlation\": 1"));
//! ```
//!
//! `External id` of a launch and the parent of a Python frame are determined when the trace is written, so
//! operators and frames may be added after what they contain.

mod collective;
mod cuspy;
mod device;
mod event;
pub mod every;
mod format;
mod metadata;
mod nesting;
mod perfetto;
mod place;
mod protobuf;
mod row;
mod thread;
mod time;
mod trace;
mod vendor;
mod write;

#[cfg(test)]
mod tests;

pub use collective::{Collective, Detail};
pub use device::SyncKind;
pub use format::{
    CategorySpelling, Era, ExternalIds, Format, FractionStyle, Ids, MetadataSide, Placement, Root,
    TestRecorder, Times, WhiteSpace,
};
pub use protobuf::{ProtoMessage, perfetto_file};
pub use row::TestRow;
pub use thread::Thread;
pub use time::{DEFAULT_BASE_NS, ms, ns, us};
pub use trace::TraceBuilder;
pub use vendor::{Call, Vendor};
