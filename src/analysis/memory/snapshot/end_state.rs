//! The state of the allocator when the snapshot was taken: what is reserved, active, requested, and what is
//! unused.
//!
//! ```text
//!   segment  |##### a.|####  ..|   # requested  ' ' rounding  a another stream may still use it  . inactive
//!   segment  |........|            no active block: empty_cache() gives it back
//!   expandable |####  .....>       so it does with the end of a segment that can grow
//! ```

use super::tables::MemoryDeviceRow;
use hta_trace::snapshot::{BlockState, MemoryBlock, Segment, Snapshot};

/// Sums over segments, bytes. `reserved = active + pending + releasable + split`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndState {
    pub segments: u64,
    pub large_segments: u64,
    pub active_blocks: u64,
    pub(crate) pending_blocks: u64,
    pub inactive_blocks: u64,
    pub reserved: i64,
    pub active: i64,
    /// Requested of the active blocks.
    pub requested: i64,
    /// Blocks that are freed, but that another stream may still use.
    pub pending: i64,
    /// Requested of the pending blocks.
    pub pending_requested: i64,
    /// Segments without an active or pending block.
    pub releasable: i64,
    /// Inactive blocks beside active ones.
    pub split: i64,
    /// Of them, those at the end of segments that can grow: `empty_cache()` gives them back.
    pub(crate) tails: i64,
    pub largest_inactive: i64,
}

impl EndState {
    /// The sums of a row; zero where it has none.
    pub(super) fn of(row: &MemoryDeviceRow) -> Self {
        let bytes = |value: Option<i64>| value.unwrap_or(0);
        Self {
            active_blocks: row.active_block_count.unwrap_or(0),
            reserved: bytes(row.reserved_bytes),
            active: bytes(row.active_bytes),
            requested: bytes(row.requested_bytes),
            pending: bytes(row.pending_bytes),
            releasable: bytes(row.releasable_bytes),
            split: bytes(row.split_bytes),
            tails: bytes(row.tail_bytes),
            largest_inactive: bytes(row.largest_free_bytes),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, segment: &Segment, blocks: &[MemoryBlock]) {
        self.segments += 1;
        self.large_segments += u64::from(segment.is_large == Some(true));
        self.reserved += segment.bytes;
        let mut inactive = 0;
        let mut is_used = false;
        for block in blocks {
            match block.state {
                BlockState::Allocated => {
                    self.active_blocks += 1;
                    self.active += block.bytes;
                    self.requested += block.requested;
                    is_used = true;
                }
                BlockState::Pending => {
                    self.pending_blocks += 1;
                    self.pending += block.bytes;
                    self.pending_requested += block.requested;
                    is_used = true;
                }
                BlockState::Inactive | BlockState::Unknown => {
                    self.inactive_blocks += 1;
                    inactive += block.bytes;
                    self.largest_inactive = self.largest_inactive.max(block.bytes);
                }
            }
        }
        match is_used {
            true => {
                self.split += inactive;
                let is_free =
                    |b: &&MemoryBlock| matches!(b.state, BlockState::Inactive | BlockState::Unknown);
                let tail = blocks.last().filter(|b| segment.is_expandable && is_free(b));
                self.tails += tail.map_or(0, |b| b.bytes);
            }
            false => self.releasable += inactive,
        }
    }

    pub fn inactive(&self) -> i64 {
        self.releasable + self.split
    }

    pub fn rounding(&self) -> i64 {
        self.active - self.requested
    }

    /// What is free beside blocks in use, without the largest free block and without what can be given back.
    pub(crate) fn fragmented(&self) -> i64 {
        (self.split - self.tails).min(self.inactive() - self.largest_inactive).max(0)
    }

    /// What `empty_cache()` gives back.
    pub(crate) fn cached(&self) -> i64 {
        self.releasable + self.tails
    }

    /// 1 - largest / inactive: 0 if all inactive memory is one block. `None` if nothing is inactive.
    pub fn fragmentation(&self) -> Option<f64> {
        (self.inactive() > 0).then(|| 1.0 - self.largest_inactive as f64 / self.inactive() as f64)
    }
}

/// Whether the sums that a segment states are not those of its blocks, or its blocks do not fill it.
pub(crate) fn disagrees(segment: &Segment, blocks: &[MemoryBlock]) -> bool {
    let mut one = EndState::default();
    one.add(segment, blocks);
    let mut at = segment.address;
    let is_row = blocks.iter().all(|b| {
        let follows = b.address == at;
        at = at.saturating_add(b.bytes.unsigned_abs());
        follows
    });
    let filled: i64 = blocks.iter().map(|b| b.bytes).sum();
    filled != segment.bytes
        || !is_row
        || segment.allocated.is_some_and(|stated| stated != one.active)
        || segment.requested.is_some_and(|stated| stated != one.requested)
}

/// The state of some segments.
pub(crate) fn end_state<'a>(snapshot: &Snapshot, segments: impl Iterator<Item = &'a Segment>) -> EndState {
    let mut state = EndState::default();
    segments.for_each(|s| state.add(s, snapshot.blocks(s)));
    state
}
