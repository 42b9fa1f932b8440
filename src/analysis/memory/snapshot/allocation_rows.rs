//! Rows of the table of allocations: what was there before the history, and every allocation of it with its
//! end.

use super::history::{Ended, HistoryAllocation};
use super::rows::{DeviceRows, SOURCE, known, ns, stack_number};
use crate::memory::tables::{MemoryAllocationRow, MemoryAllocations};
use hta_trace::snapshot::Entry;
use std::collections::BTreeMap;

impl DeviceRows<'_> {
    /// Every allocation: those from before the history, then those of the history.
    pub(super) fn add_allocations(&self, table: &mut MemoryAllocations) {
        let (Some(replay), Some(history)) = (&self.device.replay, self.device.history) else { return };
        let entries = self.entries();
        let at = |seq: u32| entries.get(seq as usize).copied();
        let blocks = self.device.segments.iter().flat_map(|s| self.device.snapshot.blocks(s));
        let blocks: BTreeMap<u64, i64> = blocks.map(|b| (b.address, b.bytes)).collect();
        let row = self.nothing_known();
        let phase = |e: &Entry| known(self.device.phases.of(e, self.sites.of(e.stack)));
        for block in &replay.before_alive {
            table.push(MemoryAllocationRow {
                bytes: block.requested,
                block_bytes: Some(block.bytes),
                address: Some(block.address),
                site: Some(self.sites.site(block.stack)),
                stack_id: stack_number(block.stack),
                ..row
            });
        }
        for (seq, free) in replay.unmatched_frees.iter().filter_map(|seq| Some((*seq, at(*seq)?))) {
            table.push(MemoryAllocationRow {
                free_seq: Some(u64::from(seq)),
                free_ts_ns: ns(free.time_us()),
                bytes: free.size,
                address: Some(free.addr),
                stream: self.device.snapshot.stream(free),
                free_phase: phase(free),
                ended: "before",
                ..row
            });
        }
        for HistoryAllocation { seq, ended } in replay.allocations(self.device.snapshot, history) {
            let Some(entry) = at(seq) else { continue };
            let end = match ended {
                Ended::Freed(by) | Ended::Unknown(by) => Some(by),
                Ended::Live => None,
            };
            let freed = end.filter(|_| matches!(ended, Ended::Freed(_))).and_then(at);
            let (ts_ns, free_ts_ns) = (ns(entry.time_us()), freed.and_then(|f| ns(f.time_us())));
            table.push(MemoryAllocationRow {
                seq: Some(u64::from(seq)),
                free_seq: freed.and(end).map(u64::from),
                ts_ns,
                free_ts_ns,
                lifetime_ns: ts_ns.zip(free_ts_ns).map(|(a, b)| b - a),
                bytes: entry.size,
                block_bytes: (ended == Ended::Live).then(|| blocks.get(&entry.addr).copied()).flatten(),
                address: Some(entry.addr),
                stream: self.device.snapshot.stream(entry),
                site: Some(self.sites.site(entry.stack)),
                phase: phase(entry),
                free_phase: freed.and_then(phase),
                ended: match ended {
                    Ended::Freed(_) => "freed",
                    Ended::Live => "live",
                    Ended::Unknown(_) => "unknown",
                },
                stack_id: stack_number(entry.stack),
                ..row
            });
        }
    }

    /// The row of an allocation of the device of which nothing else is known.
    fn nothing_known(&self) -> MemoryAllocationRow<'_> {
        MemoryAllocationRow {
            rank: self.rank,
            device_type: self.device.device_type(),
            device: self.device.device,
            source: SOURCE,
            ended: "live",
            ..MemoryAllocationRow::default()
        }
    }
}
