//! One process of an export of nsys: its ids, and which rows are its own.
//!
//! ```text
//!   process   id / 2^24 of a globalPid or globalTid; its upper bits are of host and virtual machine
//!   thread    globalTid mod 2^24
//!   time      ns after the start of the capture, which is utcEpochNs after 1970
//! ```

use super::database::Only;
use super::rows::{RowPlace, Rows};

/// Calls of the API.
pub(super) const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// Bits of a thread's number within a process.
const THREAD_BITS: u32 = 24;

/// The process of a globalPid or globalTid.
pub(super) fn process_of(id: i64) -> i64 {
    id >> THREAD_BITS
}

/// The thread of a globalTid.
fn thread_of(id: i64) -> i64 {
    id & ((1 << THREAD_BITS) - 1)
}

/// The process id of the operating system, which has as many bits as a thread.
pub(super) fn pid(process: i64) -> i64 {
    thread_of(process)
}

/// The rows of one process.
pub(super) struct Export<'a> {
    process: i64,
    pub(super) rows: Rows<'a>,
}

impl<'a> Export<'a> {
    pub(super) fn new(process: i64, rows: Rows<'a>) -> Self {
        Self { process, rows }
    }

    pub(super) fn is_mine(&self, id: Option<i64>) -> bool {
        id.map(process_of) == Some(self.process)
    }

    /// The rows of the process, by a column with the id of a process or thread.
    pub(super) fn only(&self, column: &'static str) -> Option<Only> {
        Some(Only { column, shift: THREAD_BITS, value: self.process })
    }
}

/// Where a thread's rows are.
pub(super) fn place(id: i64) -> RowPlace {
    RowPlace::Thread { process: pid(process_of(id)), thread: thread_of(id) }
}
