//! What a file about memory holds instead of events: the analysis `memory` reads it, and no other.

use crate::memory_timeline::{MemoryTimeline, MemoryTimelineRow};
use crate::snapshot::Snapshot;

/// A dump of the state or of the history of memory.
pub enum MemoryDump {
    Snapshot(Box<Snapshot>),
    Timeline(MemoryTimeline),
}

impl MemoryDump {
    /// Memory of its rows and texts, bytes.
    pub fn held_bytes(&self) -> u64 {
        match self {
            MemoryDump::Snapshot(snapshot) => snapshot.held_bytes(),
            MemoryDump::Timeline(timeline) => (timeline.rows.len() * size_of::<MemoryTimelineRow>()) as u64,
        }
    }
}
