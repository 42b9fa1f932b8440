//! The rows of `memory_events` of a trace: requests that failed, and calls that take memory from the device or give it
//! back. The calls do not record how much.

use crate::analysis::memory::TRACE;
use crate::analysis::memory::tables::{MemoryEventRow, MemoryEvents};
use crate::facts::memory_places::MemoryPlaces;
use crate::trace::category::Class;
use crate::trace::memory::{device_type_name, failed_requests};
use crate::trace::rank_trace::RankTrace;
use crate::units::Ns;

/// Calls by name: type of the device, and what they do.
fn of_call(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "cudaMalloc" | "cudaMallocAsync" => ("cuda", "segment_alloc"),
        "cudaFree" | "cudaFreeAsync" => ("cuda", "segment_free"),
        "hipMalloc" | "hipMallocAsync" => ("hip", "segment_alloc"),
        "hipFree" | "hipFreeAsync" => ("hip", "segment_free"),
        "cuMemMap" => ("cuda", "map"),
        "cuMemUnmap" => ("cuda", "unmap"),
        _ => return None,
    })
}

/// One row, before it is sorted.
struct Found {
    device_type: String,
    device: Option<i64>,
    ts: Ns,
    kind: &'static str,
    bytes: Option<i64>,
    reserved: Option<i64>,
    lane: u32,
}

pub fn add(table: &mut MemoryEvents, trace: &RankTrace, places: &MemoryPlaces) {
    let mut found: Vec<Found> = Vec::new();
    for r in failed_requests(&trace.columns.memory) {
        found.push(Found {
            device_type: device_type_name(r.device_type),
            device: r.device,
            ts: r.ts,
            kind: "oom",
            bytes: Some(r.bytes),
            reserved: r.total_reserved,
            lane: r.lane,
        });
    }
    let by_name: Vec<_> = trace.columns.strings.iter().map(|(_, text)| of_call(text)).collect();
    for row in (0..trace.classes.len()).filter(|r| trace.classes[*r] == Class::Runtime) {
        let Some((device_type, kind)) = by_name.get(trace.columns.name(row).0 as usize).copied().flatten() else {
            continue;
        };
        found.push(Found {
            device_type: device_type.to_string(),
            device: None,
            ts: trace.columns.ts[row],
            kind,
            bytes: None,
            reserved: None,
            lane: trace.columns.lane[row],
        });
    }
    found.sort_by(|a, b| (&a.device_type, a.device, a.ts, a.kind).cmp(&(&b.device_type, b.device, b.ts, b.kind)));
    for f in found {
        let place = places.at(f.lane, f.ts);
        let line = places.line(place.line).filter(|text| !text.starts_with('['));
        table.push(MemoryEventRow {
            rank: trace.rank,
            device_type: &f.device_type,
            device: f.device,
            source: TRACE,
            seq: None,
            ts_ns: Some(f.ts),
            kind: f.kind,
            bytes: f.bytes,
            device_free_bytes: None,
            reserved_bytes: f.reserved,
            site: line.or_else(|| place.op.map(|op| places.text(places.shown(op)))).as_deref(),
        });
    }
}
