//! Copies and sets of one device: direction, kinds of memory, size in bytes, and the call that requested
//! each.
//!
//! The size comes from the first of these sources: the activity's own size, the size in the call's arguments
//! (written by HIP and MTIA), the recorded bandwidth times the duration. Negative sizes are ignored.

use hashbrown::HashMap;
use hta_base::units::Span;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::rules::copy_kind;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Index of the activity.
    pub activity: u32,
    pub span: Span,
    pub direction: &'static str,
    pub(crate) source: Option<&'static str>,
    pub(crate) target: Option<&'static str>,
    pub bytes: Option<u64>,
    pub api: Api,
    /// Row of the launch call.
    pub call: Option<u32>,
    /// Whether the call returned no earlier than the copy ended; `None` without a launch record.
    pub blocks: Option<bool>,
}

/// Below this size a copy takes about as long as starting it, bytes.
pub(crate) const SMALL_BYTES: u64 = 65_536;

impl Copy {
    /// Whether it is a copy (not a set) from or to pageable memory.
    pub fn is_pageable(&self) -> bool {
        self.direction != "set" && (self.source == Some("pageable") || self.target == Some("pageable"))
    }

    /// Whether it is a copy (not a set) below [`SMALL_BYTES`].
    pub fn is_small(&self) -> bool {
        self.direction != "set" && self.bytes.is_some_and(|b| b < SMALL_BYTES)
    }
}

/// How a copy was requested, by the name of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `cudaMemcpy`, `hipMemcpyWithStream`: returns when the copy is done.
    SyncCopy,
    /// `cudaMemset`.
    SyncSet,
    /// `cudaMemcpyAsync`, `cudaMemsetAsync`.
    Async,
    /// A graph, a kernel launch, or no launch record.
    Other,
}

/// The copies and sets of a device, in order of start.
pub fn copies(trace: &RankTrace, work: &DeviceWork) -> Vec<Copy> {
    let mut rows: Vec<u32> = work
        .activities
        .iter()
        .copied()
        .filter(|&i| trace.activities[i as usize].work == WorkClass::Memory)
        .collect();
    rows.sort_unstable_by_key(|&i| {
        (trace.activities[i as usize].span.start, trace.activities[i as usize].row)
    });
    // Names are parsed once, because there are many copies but few names.
    let mut known: HashMap<(Class, StrId, Option<StrId>), CopyNameInfo> = HashMap::new();
    let copy = |activity: u32| {
        let a = &trace.activities[activity as usize];
        let call = a.launch().map(|l| trace.columns.name(l as usize));
        let named = known
            .entry((a.class, a.name, call))
            .or_insert_with(|| CopyNameInfo::new(trace, a.class, a.name, call));
        copy(trace, activity, *named)
    };
    rows.into_iter().map(copy).collect()
}

/// Properties that follow from the names of a copy and its call.
#[derive(Debug, Clone, Copy)]
struct CopyNameInfo {
    direction: &'static str,
    source: Option<&'static str>,
    target: Option<&'static str>,
    api: Api,
}

impl CopyNameInfo {
    fn new(trace: &RankTrace, class: Class, name: StrId, call: Option<StrId>) -> Self {
        let (name, call) = (trace.text(name), call.map_or("", |c| trace.text(c)));
        let (source, target) = memories(name);
        let direction = match copy_kind(class, name) {
            "unknown" if !call.is_empty() => copy_kind(class, call),
            known => known,
        };
        Self { direction, source, target, api: api(call) }
    }
}

fn copy(trace: &RankTrace, activity: u32, named: CopyNameInfo) -> Copy {
    let a = &trace.activities[activity as usize];
    let CopyNameInfo { direction, source, target, api } = named;
    Copy {
        activity,
        span: a.span,
        direction,
        source,
        target,
        bytes: bytes(trace, a.row, a.launch(), a.span),
        api,
        call: a.launch(),
        blocks: a.launch().map(|l| trace.span(l).end >= a.span.end),
    }
}

fn bytes(trace: &RankTrace, row: u32, call: Option<u32>, span: Span) -> Option<u64> {
    let args = &trace.columns.args;
    let size = |arg, row| args.int(arg, row).and_then(|v| u64::try_from(v).ok());
    let own = size(Arg::Bytes, row).or_else(|| size(Arg::CopySize, row));
    let given = || call.and_then(|c| size(Arg::CopySize, c).or_else(|| size(Arg::MtiaMemSize, c)));
    let recorded = || {
        let rate = args.column(Arg::Bandwidth).get(row).map(f64::from_bits)?;
        let bytes = rate * span.len() as f64;
        // GB/s equal bytes per ns.
        (bytes.is_finite() && bytes > 0.0).then(|| bytes.round() as u64)
    };
    own.or_else(given).or_else(recorded)
}

/// Kinds of memory in names; AMD writes `Host` for both pageable and pinned memory.
const MEMORIES: [(&str, &str); 8] = [
    ("Pageable", "pageable"),
    ("Pinned", "pinned"),
    ("Device", "device"),
    ("Managed", "managed"),
    ("Host", "host"),
    ("Array", "array"),
    ("Device Static", "device_static"),
    ("Managed Static", "managed_static"),
];

/// Source and target of `Memcpy HtoD (Pageable -> Device)`, or the target of `Memset (Device)`.
fn memories(name: &str) -> (Option<&'static str>, Option<&'static str>) {
    let known = |text: &str| MEMORIES.iter().find(|m| m.0 == text.trim()).map(|m| m.1);
    let inside = name.rsplit_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |p| p.0);
    match inside.split_once("->") {
        Some((source, target)) => (known(source), known(target)),
        None => (None, known(inside)),
    }
}

fn api(call: &str) -> Api {
    let lower = call.to_ascii_lowercase();
    match (lower.contains("memcpy"), lower.contains("memset"), lower.contains("async")) {
        (true, _, true) | (_, true, true) => Api::Async,
        (true, _, false) => Api::SyncCopy,
        (_, true, false) => Api::SyncSet,
        _ => Api::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_memory_are_read_from_the_name() {
        assert_eq!(memories("Memcpy HtoD (Pageable -> Device)"), (Some("pageable"), Some("device")));
        assert_eq!(memories("Memcpy DtoH (Device -> Host)"), (Some("device"), Some("host")));
        assert_eq!(memories("Memset (Managed)"), (None, Some("managed")));
        assert_eq!(memories("dma_request"), (None, None));
        assert_eq!(memories("Memcpy HtoD (Unknown -> Device)"), (None, Some("device")));
    }

    #[test]
    fn the_call_says_whether_a_copy_is_asynchronous() {
        let all =
            ["cudaMemcpyAsync", "cudaMemcpy", "hipMemcpyWithStream", "cuMemsetD8_v2", "cudaGraphLaunch", ""];
        let want = [Api::Async, Api::SyncCopy, Api::SyncCopy, Api::SyncSet, Api::Other, Api::Other];
        assert_eq!(all.map(api), want);
    }
}
