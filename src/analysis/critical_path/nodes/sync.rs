//! What blocking calls and streams wait for: from recorded synchronisation rows, or else from the name of the
//! call.
//!
//! ```text
//!   record call     |r|                            on the awaited stream: the last launched before it
//!   wait call            |w|                       on the waiting stream: what is launched after it
//!   sync call                 |..........|         awaits an activity that ends inside it
//! ```

use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_facts::validator::Validation;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::meta::Recorder;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

/// Device and stream.
pub(crate) type StreamKey = (Option<i64>, Option<i64>);

/// Value that some profilers write for "no stream".
const NO_STREAM: i64 = u32::MAX as i64;

/// Name of a row in which a stream waits for an event.
const STREAM_WAIT: &str = "Stream Wait Event";

/// A wait of a stream for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamWait {
    /// When the wait was submitted, ns.
    pub(crate) call: Ns,
    /// The stream on which the event was recorded.
    pub(crate) on: StreamKey,
    /// When the event was recorded, ns.
    pub(crate) record: Ns,
}

/// A moment of a thread, in a window that ends at `until`.
#[derive(Debug, Clone, Copy)]
pub struct ThreadMoment {
    pub(crate) lane: u32,
    pub(crate) t: Ns,
    pub(crate) until: Ns,
}

/// A synchronisation row.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncEvent {
    pub(super) correlation: u64,
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) on: Option<i64>,
    /// Start of the call that recorded the event, ns.
    pub(super) record: Option<Ns>,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedTarget {
    Device,
    Stream,
    Event,
    Copy,
}

/// A call that may block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockingCall {
    pub(super) end: Ns,
    pub(super) row: u32,
    pub(super) blocks: AwaitedTarget,
}

/// The blocking calls and synchronisation rows of a rank.
#[derive(Default)]
pub struct SyncEvents {
    /// By thread, in order of end.
    pub(super) calls: BTreeMap<u32, Vec<BlockingCall>>,
    /// Sorted by correlation.
    rows: Vec<SyncEvent>,
    /// By waiting stream, in order of call.
    waits: BTreeMap<StreamKey, Vec<StreamWait>>,
}

impl SyncEvents {
    pub(crate) fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let mut me = Self::default();
        let mut rows: Vec<u32> = Vec::new();
        let mut known: HashMap<StrId, Option<AwaitedTarget>> = HashMap::new();
        for (row, class) in trace.classes.iter().enumerate() {
            if *class == Class::Sync {
                rows.push(row as u32);
            } else if *class == Class::Runtime
                && let Some(blocks) =
                    *known.entry(c.name(row)).or_insert_with(|| blocks(trace.text(c.name(row))))
            {
                let row = row as u32;
                me.calls.entry(c.lane[row as usize]).or_default().push(BlockingCall {
                    end: trace.span(row).end,
                    row,
                    blocks,
                });
            }
        }
        me.calls.values_mut().for_each(|calls| calls.sort_by_key(|c| (c.end, c.row)));
        if rows.is_empty() {
            return me;
        }
        let int = |arg: Arg, row: u32| c.args.int(arg, row);
        let stream = |arg: Arg, row: u32| int(arg, row).filter(|s| *s >= 0 && *s != NO_STREAM);
        let record = |row: u32| int(Arg::WaitOnRecord, row).and_then(|id| u64::try_from(id).ok());
        let own = |row: u32| c.args.uint(Arg::Correlation, row);
        let impossible = &Validation::of(trace).impossible_waits;
        let calls = calls(trace, rows.iter().flat_map(|&r| [own(r), record(r)]).flatten().collect());
        let start = |id: u64| calls.get(&id).map(|row| c.ts[*row as usize]);
        let recorded_on = event_streams(trace);
        for row in rows {
            let sync = SyncEvent {
                correlation: own(row).unwrap_or(u64::MAX),
                device: int(Arg::Device, row),
                stream: stream(Arg::Stream, row),
                on: stream(Arg::WaitOnStream, row)
                    .or_else(|| recorded_on.get(&record(row)?).copied().flatten()),
                record: record(row).and_then(start),
            };
            if trace.name(row) != STREAM_WAIT {
                me.rows.push(sync);
                continue;
            }
            if impossible.binary_search(&row).is_ok() {
                continue;
            }
            if let (Some(_), Some(_), Some(record)) = (sync.stream, sync.on, sync.record) {
                let call = own(row).and_then(start).unwrap_or(c.ts[row as usize]);
                let wait = StreamWait { call, on: (sync.device, sync.on), record };
                me.waits.entry((sync.device, sync.stream)).or_default().push(wait);
            }
        }
        me.rows.sort_by_key(|r| r.correlation);
        me.waits.values_mut().for_each(|w| w.sort_by_key(|w| (w.call, w.on, w.record)));
        me
    }

    /// Waits by waiting stream, each stream's in order of call.
    pub fn waits(&self) -> impl Iterator<Item = (&StreamKey, &[StreamWait])> {
        self.waits.iter().map(|(key, waits)| (key, waits.as_slice()))
    }

    pub(super) fn of_call(&self, trace: &RankTrace, call: u32) -> Option<&SyncEvent> {
        let id = trace.columns.args.uint(Arg::Correlation, call)?;
        let i = self.rows.partition_point(|r| r.correlation < id);
        self.rows.get(i).filter(|r| r.correlation == id)
    }
}

/// By correlation of the call that recorded an event, the stream that it is recorded on: Cuspy does not
/// repeat it in the rows that wait for the event. `None` where several streams have one correlation.
fn event_streams(trace: &RankTrace) -> BTreeMap<u64, Option<i64>> {
    let mut streams = BTreeMap::new();
    if trace.meta.recorder != Recorder::Cuspy {
        return streams;
    }
    let args = &trace.columns.args;
    for row in
        (0u32..).zip(&trace.classes).filter(|(_, class)| **class == Class::CudaEvent).map(|(row, _)| row)
    {
        if let (Some(id), Some(stream)) = (args.uint(Arg::Correlation, row), args.int(Arg::Stream, row)) {
            let known = streams.entry(id).or_insert(Some(stream));
            *known = known.filter(|other| *other == stream);
        }
    }
    streams
}

/// Calls with these correlation ids; of several with one id the innermost.
fn calls(trace: &RankTrace, mut wanted: Vec<u64>) -> BTreeMap<u64, u32> {
    wanted.sort_unstable();
    let c = &trace.columns;
    let mut ids = c.args.cursor(Arg::Correlation);
    let mut found: BTreeMap<u64, u32> = BTreeMap::new();
    for row in (0..c.len() as u32).filter(|&r| trace.classes[r as usize] == Class::Runtime) {
        let Some(id) = ids.get(row).filter(|id| wanted.binary_search(id).is_ok()) else { continue };
        let best = found.entry(id).or_insert(row);
        if (c.ts[row as usize], row) > (c.ts[*best as usize], *best) {
            *best = row;
        }
    }
    found
}

fn blocks(name: &str) -> Option<AwaitedTarget> {
    let lower = name.to_ascii_lowercase();
    if lower.contains("memcpy") {
        return Some(AwaitedTarget::Copy);
    }
    if !lower.contains("synchronize") {
        return None;
    }
    Some(if lower.contains("stream") {
        AwaitedTarget::Stream
    } else if lower.contains("event") {
        AwaitedTarget::Event
    } else {
        AwaitedTarget::Device
    })
}
