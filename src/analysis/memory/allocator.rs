//! The rows of `memory_events` of a trace: requests that failed, calls that take memory from the device or
//! give it back, and retries. The calls do not record how much.
//!
//! A retry: the device has no memory left, so the caching allocator gives its cached blocks back and asks
//! again, all for one request and so inside one operator:
//!
//! ```text
//!   aten::mm  [..............................................)
//!   calls        cudaFree cudaFree cudaFree cudaMalloc         one retry, at the cudaMalloc
//! ```
//!
//! `empty_cache()` frees outside of operators, and what asks later is another one. A library that is used for
//! the first time does the same for itself.

use crate::memory::TRACE;
use crate::memory::tables::{MemoryEventRow, MemoryEvents};
use hta_base::units::Ns;
use hta_facts::first_calls::FirstCalls;
use hta_facts::memory_places::MemoryPlaces;
use hta_trace::category::Class;
use hta_trace::memory::{device_type_name, failed_requests};
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

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
struct AllocatorFinding {
    device_type: String,
    device: Option<i64>,
    ts: Ns,
    kind: &'static str,
    bytes: Option<i64>,
    reserved: Option<i64>,
    lane: u32,
}

/// The retries among calls of one rank that are in order of time: their number in `found`.
fn retries(trace: &RankTrace, found: &[AllocatorFinding], places: &MemoryPlaces) -> Vec<usize> {
    // By thread: the operator in which memory was just given back.
    let mut freed_in: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    let mut out = Vec::new();
    for (number, f) in found.iter().enumerate() {
        let is_free = matches!(f.kind, "segment_free" | "unmap");
        if !is_free && !matches!(f.kind, "segment_alloc" | "map") {
            continue;
        }
        let operator = places.at(f.lane, f.ts).op;
        let freed = freed_in.insert(f.lane, operator.filter(|_| is_free)).flatten();
        let is_retry = |op: u32| freed == Some(op) && !FirstCalls::of(trace).are_around(trace, op);
        if !is_free && operator.is_some_and(is_retry) {
            out.push(number);
        }
    }
    out
}

pub(crate) fn add(table: &mut MemoryEvents, trace: &RankTrace, places: &MemoryPlaces) {
    let mut found: Vec<AllocatorFinding> = Vec::new();
    for r in failed_requests(&trace.columns.memory) {
        found.push(AllocatorFinding {
            device_type: device_type_name(r.device_type),
            device: r.device,
            ts: r.ts,
            kind: "oom",
            bytes: Some(r.bytes),
            reserved: r.total_reserved,
            lane: r.lane,
        });
    }
    let by_name = trace.columns.strings.each(of_call);
    for row in (0..trace.classes.len()).filter(|r| trace.classes[*r] == Class::Runtime) {
        let Some((device_type, kind)) = by_name.get(trace.columns.name(row)).copied().flatten() else {
            continue;
        };
        found.push(AllocatorFinding {
            device_type: device_type.to_string(),
            device: None,
            ts: trace.columns.ts[row],
            kind,
            bytes: None,
            reserved: None,
            lane: trace.columns.lane[row],
        });
    }
    found.sort_by_key(|f| f.ts);
    let again: Vec<AllocatorFinding> = retries(trace, &found, places)
        .into_iter()
        .filter_map(|number| found.get(number))
        .map(|f| AllocatorFinding { kind: "retry", device_type: f.device_type.clone(), ..*f })
        .collect();
    found.extend(again);
    found.sort_by(|a, b| {
        (&a.device_type, a.device, a.ts, a.kind).cmp(&(&b.device_type, b.device, b.ts, b.kind))
    });
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
