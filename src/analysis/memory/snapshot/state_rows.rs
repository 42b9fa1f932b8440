//! Rows of the tables of segments, blocks and stacks: the state when the snapshot was taken.

use super::end_state::EndState;
use super::rows::{DeviceRows, SOURCE, stack_number};
use super::tables::{
    MemoryBlockRow, MemoryBlocks, MemorySegmentRow, MemorySegments, MemoryStackRow, MemoryStacks,
};
use hta_trace::snapshot::{BlockState, Snapshot, StackId};

impl DeviceRows<'_> {
    pub(super) fn add_segments(&self, table: &mut MemorySegments) {
        let mut segments = self.device.segments.clone();
        segments.sort_by_key(|s| s.address);
        for s in segments {
            let mut state = EndState::default();
            state.add(s, self.device.snapshot.blocks(s));
            table.push(MemorySegmentRow {
                rank: self.rank,
                device_type: self.device.device_type(),
                device: self.device.device,
                source: SOURCE,
                address: s.address,
                bytes: s.bytes,
                stream: s.stream,
                pool: &format!("{},{}", s.pool.0, s.pool.1),
                is_large: s.is_large,
                is_expandable: s.is_expandable,
                active_bytes: state.active,
                requested_bytes: state.requested,
                pending_bytes: state.pending,
                inactive_bytes: state.inactive(),
                largest_free_bytes: state.largest_inactive,
                site: self.sites.site(s.stack),
            });
        }
    }

    pub(super) fn add_blocks(&self, table: &mut MemoryBlocks) {
        let mut segments = self.device.segments.clone();
        segments.sort_by_key(|s| s.address);
        for s in segments {
            for b in self.device.snapshot.blocks(s) {
                let is_free = matches!(b.state, BlockState::Inactive | BlockState::Unknown);
                table.push(MemoryBlockRow {
                    rank: self.rank,
                    device_type: self.device.device_type(),
                    device: self.device.device,
                    source: SOURCE,
                    segment_address: s.address,
                    offset_bytes: i64::try_from(b.address.saturating_sub(s.address)).unwrap_or(i64::MAX),
                    bytes: b.bytes,
                    requested_bytes: (!is_free).then_some(b.requested),
                    state: match b.state {
                        BlockState::Allocated => "allocated",
                        BlockState::Pending => "pending",
                        BlockState::Inactive => "inactive",
                        BlockState::Unknown => "unknown",
                    },
                    site: (!is_free).then(|| self.sites.site(b.stack)),
                    stack_id: stack_number(b.stack).filter(|_| !is_free),
                });
            }
        }
    }
}

/// Adds all stacks of a snapshot.
pub(super) fn add_stacks(table: &mut MemoryStacks, snapshot: &Snapshot, rank: u32) {
    for stack in 0..snapshot.stacks.len() as u32 {
        for (depth, frame) in (0u32..).zip(snapshot.stacks.frames(StackId(stack))) {
            table.push(MemoryStackRow {
                rank,
                stack_id: u64::from(stack),
                depth,
                file: snapshot.texts.get(frame.file),
                line: frame.line,
                function: snapshot.texts.get(frame.function),
            });
        }
    }
}
