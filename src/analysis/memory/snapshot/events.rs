//! What happened to the allocator: failed requests, memory taken from the device and given back, and why.
//!
//! Memory that is given back and taken again at once is either `torch.cuda.empty_cache()`, if the stack names
//! it, or a retry: a request did not fit, so the allocator flushed its cache, waited for the device and asked
//! again.

use super::device::DeviceMemory;
use super::site::Sites;
use hta_trace::snapshot::{Action, Entry, StackId};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    Oom,
    Retry,
    EmptyCache,
    /// A flush without frames: one of the two above.
    Flush,
    SegmentAlloc,
    SegmentFree,
    Map,
    Unmap,
    Annotation,
}

impl EventKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Retry => "retry",
            Self::EmptyCache => "empty_cache",
            Self::Flush => "empty_cache or retry",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::Map => "map",
            Self::Unmap => "unmap",
            Self::Annotation => "annotation",
        }
    }
}

/// One event. A flush has a row of its own beside those of the segments that it gives back.
#[derive(Debug, Clone, Copy)]
pub struct AllocatorEvent {
    pub kind: EventKind,
    pub(crate) seq: u32,
    pub(crate) time_us: Option<i64>,
    pub bytes: i64,
    /// Free bytes of the device, of an `oom`.
    pub device_free: Option<i64>,
    /// Reserved after it.
    pub reserved: i64,
    pub stack: StackId,
    /// Segments given back, of a flush.
    pub count: u64,
    /// Whether memory is taken from the device directly behind a flush.
    pub is_followed: bool,
}

/// Entries that give memory back, one directly after the other.
struct FreeRun {
    first: AllocatorEvent,
    is_empty_cache: bool,
}

/// The events of a device, in order; a flush comes before its segments.
pub fn events(device: &DeviceMemory, sites: &Sites) -> Vec<AllocatorEvent> {
    let (Some(history), Some(replay)) = (device.history, &device.replay) else { return Vec::new() };
    let mut all: Vec<AllocatorEvent> = Vec::new();
    let mut reserved = replay.reserved_before;
    let mut run: Option<FreeRun> = None;
    for (seq, entry) in (0u32..).zip(device.snapshot.entries(history)) {
        reserved += super::history::reserved_delta(entry);
        let kind = match entry.action {
            Action::SegmentAlloc => Some(EventKind::SegmentAlloc),
            Action::SegmentMap => Some(EventKind::Map),
            Action::SegmentFree => Some(EventKind::SegmentFree),
            Action::SegmentUnmap => Some(EventKind::Unmap),
            Action::Oom => Some(EventKind::Oom),
            Action::Annotate => Some(EventKind::Annotation),
            _ => None,
        };
        let event = kind.map(|kind| event(kind, seq, entry, reserved));
        let gives_back = matches!(kind, Some(EventKind::SegmentFree | EventKind::Unmap));
        if !gives_back && let Some(ended) = run.take() {
            let is_followed = matches!(kind, Some(EventKind::SegmentAlloc | EventKind::Map));
            all.extend(flush(ended, is_followed));
        }
        match (event, gives_back) {
            (Some(event), true) => {
                let of_run = run.get_or_insert(FreeRun {
                    first: AllocatorEvent { bytes: 0, ..event },
                    is_empty_cache: false,
                });
                of_run.first.bytes += event.bytes;
                of_run.first.reserved = event.reserved;
                of_run.first.count += 1;
                of_run.is_empty_cache |= sites.of(event.stack).is_empty_cache;
                all.push(event);
            }
            (Some(event), false) => all.push(event),
            _ => {}
        }
    }
    all.extend(run.and_then(|ended| flush(ended, false)));
    all.sort_by_key(|e| (e.seq, e.kind));
    all
}

fn event(kind: EventKind, seq: u32, entry: &Entry, reserved: i64) -> AllocatorEvent {
    let device_free = (kind == EventKind::Oom).then(|| i64::try_from(entry.addr).unwrap_or(i64::MAX));
    AllocatorEvent {
        kind,
        seq,
        time_us: entry.time_us(),
        bytes: entry.size,
        device_free,
        reserved,
        stack: entry.stack,
        count: 0,
        is_followed: false,
    }
}

/// What a run of given back memory was; `None` if nothing says.
fn flush(run: FreeRun, is_followed: bool) -> Option<AllocatorEvent> {
    let kind = match () {
        () if run.is_empty_cache => EventKind::EmptyCache,
        () if !is_followed => return None,
        () if run.first.stack == StackId::NONE => EventKind::Flush,
        () => EventKind::Retry,
    };
    Some(AllocatorEvent { kind, is_followed, ..run.first })
}
