//! The tables with a row per record: `memory_curve` and `memory_allocations`. They are written, not kept.

use crate::api::RowEmitter;
use crate::memory::TRACE;
use crate::memory::device::RecordedDevice;
use crate::memory::tables::{MemoryAllocationRow, MemoryAllocations, MemoryCurve, MemoryCurveRow};
use hta_base::table::schema::Table;
use hta_facts::memory_places::MemoryPlaces;
use hta_trace::memory::AllocationEnd;

pub(crate) fn curve(devices: &[RecordedDevice], give: &mut RowEmitter) {
    let mut table = MemoryCurve::default();
    for memory in devices {
        for (number, (record, level)) in memory.records.iter().zip(&memory.levels).enumerate() {
            table.push(MemoryCurveRow {
                rank: memory.rank,
                device_type: &memory.device_type,
                device: memory.device,
                source: TRACE,
                seq: number as u64,
                ts_ns: Some(record.ts),
                delta_bytes: record.bytes,
                allocated_bytes: *level,
                reserved_bytes: memory.reserved(number),
                is_relative: memory.is_relative,
                category: None,
            });
            table.give_piece(give);
        }
    }
    give(table.finish());
}

pub(crate) fn allocations(devices: &[RecordedDevice], places: &MemoryPlaces, give: &mut RowEmitter) {
    let mut table = MemoryAllocations::default();
    for memory in devices {
        // Frees of what was allocated before the recording come first: they have no number of an allocation.
        let all = memory.allocations.iter().flat_map(|a| &a.all);
        let mut order: Vec<_> = all.collect();
        order.sort_by_key(|a| (a.opened, a.closed));
        for allocation in order {
            let record = |number: Option<u32>| number.and_then(|n| memory.records.get(n as usize));
            let place = |number: Option<u32>| number.and_then(|n| memory.places.get(n as usize));
            let is_freed = allocation.end != AllocationEnd::Unknown;
            let freed_by = allocation.closed.filter(|_| is_freed);
            let (opened, freed) = (record(allocation.opened), record(freed_by));
            let (own, at_free) = (place(allocation.opened), place(freed_by));
            let bytes =
                opened.map(|r| r.bytes).or_else(|| freed.map(|r| r.bytes.saturating_neg())).unwrap_or(0);
            table.push(MemoryAllocationRow {
                rank: memory.rank,
                device_type: &memory.device_type,
                device: memory.device,
                source: TRACE,
                seq: allocation.opened.map(u64::from),
                free_seq: freed_by.map(u64::from),
                ts_ns: opened.map(|r| r.ts),
                free_ts_ns: freed.map(|r| r.ts),
                lifetime_ns: opened.zip(freed).map(|(a, b)| b.ts.saturating_sub(a.ts)),
                bytes,
                block_bytes: None,
                address: opened.or(freed).and_then(|r| r.address),
                stream: None,
                op: own.and_then(|p| p.op).map(|op| places.text(places.shown(op))).as_deref(),
                site: own.and_then(|p| places.line(p.line)).as_deref(),
                level: own
                    .filter(|_| !places.lines.is_empty())
                    .map(|p| places.lines.site(p.line).level.name()),
                module: own
                    .and_then(|p| p.module)
                    .and_then(|m| places.paths.get(m as usize))
                    .map(String::as_str),
                phase: own.map(|p| p.phase.name()),
                step: own.and_then(|p| p.step),
                free_phase: at_free.map(|p| p.phase.name()),
                free_step: at_free.and_then(|p| p.step),
                ended: allocation.end.name(),
                stack_id: None,
            });
            table.give_piece(give);
        }
    }
    give(table.finish());
}
