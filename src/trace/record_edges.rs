//! Recordings that begin or end in the middle of work. Times in ns.
//!
//! A profiler that is started while a device is busy records the next launches, but not those before. The
//! device then looks idle although it works:
//!
//! ```text
//!   T0: first recorded event      e_f: end of the launch call of f          f: the stream's first launched activity
//!   launch calls  |--f--|-g-|-h-|
//!   stream        ????????????????????????????????[f====)[g==)[h==)         ?: launched before T0, not in the file
//!                       |<----------- D --------->|P_s
//!   lead          [-------------------------------)
//! ```
//!
//! There are three cases: *hidden work* (shown above), a *recorded head* (activities before f whose launch
//! was not recorded) and a *lost tail* (launch calls at the end whose activities were not recorded). `hta
//! explain windows` has the definitions.

use crate::activity::Activity;
use crate::category::Class;
use crate::device::DeviceWork;
use crate::events::Columns;
use crate::launch::starts_work;
use crate::stream_capture::StreamCaptures;
use crate::strings::StrId;
use hashbrown::{HashMap, HashSet};
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// Default of `--hidden-min-us`, ns.
pub const HIDDEN_MIN: Ns = 1_000_000;

/// Largest share of the wait for which the device may be recorded as busy, percent.
const BUSY_MAX_PCT: Ns = 1;

/// Largest time between the start of the first activity and the return of a call that waited for it, ns.
const RETURNS_WITHIN: Ns = 1_000_000;

/// Number of launch calls waiting at once that shows that the device was late, not the launch.
const WAITING_LAUNCHES: u64 = 2;

/// A device and one of its streams.
pub(crate) type StreamId = (Option<i64>, Option<i64>);

/// Why the first launched activity of a stream does not measure its launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartReason {
    /// Activities without a launch record precede it.
    RecordedHead,
    /// Nothing is recorded before it, and it waited for unrecorded work.
    HiddenWork,
}

/// A stream that was busy when the recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamStart {
    pub stream: StreamId,
    pub case: StartReason,
    /// The first activity that has a launch record.
    pub first: Span,
    /// Its launch call.
    pub call: Span,
    /// Number of earlier activities without a launch record, and (next field) the start of the first of them.
    pub head_count: u64,
    pub head_start: Ns,
    /// Recorded busy time of the device between the end of the call and the start of the first activity, ns.
    pub busy: Ns,
    /// Number of launch calls that began before the first activity started and own an activity of the stream.
    pub launches: u64,
    /// Number of activities of the stream that these calls own.
    pub activities: u64,
}

/// The end of a device whose last launches have no recorded activities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTail {
    pub device: Option<i64>,
    /// From the device's last recorded end to the last recorded event.
    pub span: Span,
    /// Number of launch calls of the process without activities, after its last call with activities.
    pub calls: u64,
}

/// Where a rank's recording begins or ends in the middle of work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordEdges {
    /// Whether another tool cut the file out of a longer one.
    pub is_excerpt: bool,
    /// In order of device and stream.
    pub starts: Vec<StreamStart>,
    /// The end of the lead of each device that has one, in order of device.
    leads: Vec<(Option<i64>, Ns)>,
    /// In order of device.
    pub tails: Vec<LostTail>,
    /// Rows of the launch calls whose activities were lost, in order of start.
    pub lost_calls: Vec<u32>,
    /// Calls that began at or after this moment are never queued behind unrecorded work.
    last_start: Option<Ns>,
}

/// What is known of a stream while its activities are read in order of start.
#[derive(Debug, Clone, Copy, Default)]
struct StreamSoFar {
    head_count: u64,
    head_start: Ns,
    /// Index of the first launched activity.
    first: Option<u32>,
}

impl RecordEdges {
    /// `all` must be in order of start; `devices` must not have been narrowed yet. `recorded`: time from the
    /// first to the last recorded event.
    pub(crate) fn new(
        c: &Columns,
        classes: &[Class],
        all: &[Activity],
        devices: &[DeviceWork],
        recorded: Span,
        hidden_min: Ns,
        stream_captures: &StreamCaptures,
    ) -> Self {
        let mut edges = Self { is_excerpt: is_excerpt(c), ..Self::default() };
        if all.is_empty() {
            return edges;
        }
        let (streams, processes) = survey(c, all);
        edges.starts = starts(c, classes, all, devices, &streams, recorded, hidden_min);
        let mut leads: BTreeMap<Option<i64>, Ns> = BTreeMap::new();
        for s in edges.starts.iter().filter(|s| s.case == StartReason::HiddenWork) {
            let lead = leads.entry(s.stream.0).or_insert(s.first.start);
            *lead = s.first.start.max(*lead);
        }
        edges.leads = leads.into_iter().collect();
        edges.last_start = edges.starts.iter().map(|s| s.first.start).max();
        edges.find_tails(c, classes, all, &processes, recorded, stream_captures);
        edges
    }

    /// The part of `recorded` that contains the windows of a device: without its lead and lost tail.
    pub(crate) fn window(&self, device: Option<i64>, recorded: Span) -> Span {
        let start = self.lead_end(device).unwrap_or(recorded.start);
        let tail =
            self.tails.binary_search_by_key(&device, |t| t.device).ok().and_then(|i| self.tails.get(i));
        let end = tail.map_or(recorded.end, |t| t.span.start);
        Span::new(start, end.max(start))
    }

    /// End of a device's lead: until then it executes work launched before the recording. `None` without a
    /// lead.
    pub fn lead_end(&self, device: Option<i64>) -> Option<Ns> {
        let i = self.leads.binary_search_by_key(&device, |l| l.0).ok()?;
        self.leads.get(i).map(|l| l.1)
    }

    /// Devices with a lead and its end, in order of device.
    pub fn leads(&self) -> &[(Option<i64>, Ns)] {
        &self.leads
    }

    /// Start of a stream's first launched activity, if it was queued behind work from before the recording.
    pub fn unrecorded_until(&self, stream: StreamId) -> Option<Ns> {
        let i = self.starts.binary_search_by_key(&stream, |s| s.stream).ok()?;
        self.starts.get(i).map(|s| s.first.start)
    }

    /// Whether a call that began at `began` and owns these activities was queued behind unrecorded work: then
    /// its latency does not measure launching.
    pub fn is_behind<'a>(&self, began: Ns, activities: impl IntoIterator<Item = &'a Activity>) -> bool {
        self.last_start.is_some_and(|last| began < last)
            && activities
                .into_iter()
                .any(|a| self.unrecorded_until((a.device(), a.stream())).is_some_and(|until| began < until))
    }

    fn find_tails(
        &mut self,
        c: &Columns,
        classes: &[Class],
        all: &[Activity],
        processes: &LaunchingProcesses,
        recorded: Span,
        stream_captures: &StreamCaptures,
    ) {
        let Some(earliest) = processes.values().map(|p| p.last).min() else { return };
        // If activities lack their links, a call may own an activity that does not name it.
        let unlinked = all.iter().rev().find(|a| a.launch().is_none()).map_or(Ns::MIN, |a| a.span.start);
        let is_after = |row: usize| classes[row] == Class::Runtime && c.ts[row] > earliest.max(unlinked);
        let mut late: Vec<(StrId, u32)> = Vec::new();
        for row in (0..c.len()).filter(|&r| is_after(r)) {
            let Some(pid) = pid(c, row as u32) else { continue };
            if processes.get(&pid).is_some_and(|p| c.ts[row] > p.last) && starts_work(c, row as u32) {
                late.push((pid, row as u32));
            }
        }
        if late.is_empty() {
            return;
        }
        // Event marks on the device that no call owns: the device was still being recorded when they ran.
        let is_mark = |row: &usize| {
            classes[*row] == Class::Sync
                && c.categories.get(usize::from(c.cat[*row])).is_some_and(|k| k.class == Class::Kernel)
        };
        let marked = (0..c.len()).filter(is_mark).map(|r| c.ts[r]).max().unwrap_or(Ns::MIN);
        late.retain(|(_, row)| c.ts[*row as usize] > marked);
        late.retain(|(_, row)| !stream_captures.hold(c, *row));
        late.sort_by_key(|(_, row)| (c.ts[*row as usize], *row));
        let mut counts: BTreeMap<StrId, u64> = BTreeMap::new();
        for (pid, row) in late {
            self.lost_calls.push(row);
            *counts.entry(pid).or_default() += 1;
        }
        let mut tails: BTreeMap<Option<i64>, LostTail> = BTreeMap::new();
        for (pid, calls) in counts {
            for device in processes.get(&pid).into_iter().flat_map(|p| &p.devices) {
                let span = Span::new(recorded.end, recorded.end);
                tails.entry(*device).or_insert(LostTail { device: *device, span, calls: 0 }).calls += calls;
            }
        }
        let mut ends: BTreeMap<Option<i64>, Ns> = BTreeMap::new();
        for a in all.iter().filter(|a| tails.contains_key(&a.device())) {
            let end = ends.entry(a.device()).or_insert(a.span.end);
            *end = a.span.end.max(*end);
        }
        self.tails = tails.into_values().collect();
        for t in &mut self.tails {
            t.span.start = ends.get(&t.device).map_or(recorded.end, |end| (*end).min(recorded.end));
        }
    }
}

/// Whether a tool cut the file out of a longer one: the profiler counts events from 0 and writes the record
/// span.
fn is_excerpt(c: &Columns) -> bool {
    let has_span = c.categories.iter().any(|k| c.strings.get(k.text).eq_ignore_ascii_case("trace"));
    c.least_profiler_index.is_some_and(|least| least > 0) && !has_span
}

/// A process that launches: start of its last call that owns an activity, and its devices.
#[derive(Debug, Clone, Default)]
struct LaunchingProcess {
    last: Ns,
    devices: Vec<Option<i64>>,
}

type LaunchingProcesses = BTreeMap<StrId, LaunchingProcess>;

/// Reads the activities once, to find each stream's beginning and each process's last launch.
fn survey(c: &Columns, all: &[Activity]) -> (Vec<(StreamId, StreamSoFar)>, LaunchingProcesses) {
    let mut streams: Vec<(StreamId, StreamSoFar)> = Vec::new();
    let mut places: HashMap<StreamId, usize> = HashMap::new();
    let mut at = 0;
    let mut lasts: HashMap<(u32, Option<i64>), Ns> = HashMap::new();
    let mut last: ((u32, Option<i64>), Ns) = ((u32::MAX, None), Ns::MIN);
    for (i, a) in all.iter().enumerate() {
        let id = (a.device(), a.stream());
        // Consecutive activities mostly belong to one stream.
        if streams.get(at).is_none_or(|s| s.0 != id) {
            at = *places.entry(id).or_insert_with(|| {
                streams.push((id, StreamSoFar::default()));
                streams.len() - 1
            });
        }
        let seen = &mut streams[at].1;
        match a.launch() {
            None if seen.first.is_none() => {
                seen.head_start = if seen.head_count == 0 { a.span.start } else { seen.head_start };
                seen.head_count += 1;
            }
            None => {}
            Some(row) => {
                seen.first.get_or_insert(i as u32);
                let key = (c.lane[row as usize], a.device());
                if last.0 != key {
                    if last.0.0 != u32::MAX {
                        lasts.insert(last.0, last.1);
                    }
                    last = (key, lasts.get(&key).copied().unwrap_or(Ns::MIN));
                }
                last.1 = last.1.max(c.ts[row as usize]);
            }
        }
    }
    if last.0.0 != u32::MAX {
        lasts.insert(last.0, last.1);
    }
    let mut processes = LaunchingProcesses::new();
    for ((lane, device), ts) in lasts {
        let Some(pid) = c.lanes.get(lane as usize).map(|l| l.pid) else { continue };
        let p = processes.entry(pid).or_insert(LaunchingProcess { last: ts, devices: Vec::new() });
        p.last = p.last.max(ts);
        p.devices.push(device);
    }
    for p in processes.values_mut() {
        p.devices.sort_unstable();
        p.devices.dedup();
    }
    streams.sort_by_key(|s| s.0);
    (streams, processes)
}

fn pid(c: &Columns, row: u32) -> Option<StrId> {
    c.lanes.get(c.lane[row as usize] as usize).map(|l| l.pid)
}

/// The streams that were busy when the recording began.
fn starts(
    c: &Columns,
    classes: &[Class],
    all: &[Activity],
    devices: &[DeviceWork],
    streams: &[(StreamId, StreamSoFar)],
    recorded: Span,
    hidden_min: Ns,
) -> Vec<StreamStart> {
    let mut found: Vec<StreamStart> = Vec::new();
    for (id, seen) in streams {
        let Some(first) = seen.first.and_then(|i| all.get(i as usize)) else { continue };
        let Some(call) = first.launch().map(|row| c.span(row as usize)) else { continue };
        let wait = Span::new(call.end, first.span.start);
        // Devices are sorted.
        let own = devices.binary_search_by_key(&id.0, |d| d.device).ok().and_then(|i| devices.get(i));
        let busy = own.map_or(0, |d| d.timeline.shares_in(wait).busy());
        let is_hidden = || {
            let delay = first.span.start.saturating_sub(call.end);
            delay >= hidden_min.max(1)
                && call.end.saturating_sub(recorded.start) <= delay
                && busy.saturating_mul(100) <= delay.saturating_mul(BUSY_MAX_PCT)
        };
        let case = match seen.head_count {
            0 if is_hidden() => StartReason::HiddenWork,
            0 => continue,
            _ => StartReason::RecordedHead,
        };
        found.push(StreamStart {
            stream: *id,
            case,
            first: first.span,
            call,
            head_count: seen.head_count,
            head_start: seen.head_start,
            busy,
            launches: 0,
            activities: 0,
        });
    }
    count_waiting(c, all, &mut found);
    if found.iter().any(|s| s.case == StartReason::HiddenWork && s.launches < WAITING_LAUNCHES) {
        let waits = LongCalls::new(c, classes, hidden_min / 2);
        found.retain(|s| {
            s.case == StartReason::RecordedHead
                || s.launches >= WAITING_LAUNCHES
                || waits.any_over(s.first.start, s.call.end)
        });
    }
    found
}

/// Counts the launch calls that began before each stream's first activity started, and their activities
/// there.
fn count_waiting(c: &Columns, all: &[Activity], found: &mut [StreamStart]) {
    if found.is_empty() {
        return;
    }
    let places: HashMap<StreamId, usize> = found.iter().enumerate().map(|(i, s)| (s.stream, i)).collect();
    let mut calls: HashSet<(usize, u32)> = HashSet::new();
    for a in all {
        let Some(&place) = places.get(&(a.device(), a.stream())) else { continue };
        let (Some(row), Some(s)) = (a.launch(), found.get_mut(place)) else { continue };
        if c.ts[row as usize] < s.first.start {
            s.activities += 1;
            s.launches += u64::from(calls.insert((place, row)));
        }
    }
}

/// Runtime calls that are long enough to be waits, as (end, start), by end.
struct LongCalls(Vec<(Ns, Ns)>);

impl LongCalls {
    fn new(c: &Columns, classes: &[Class], least: Ns) -> Self {
        let long = |r: &usize| classes[*r] == Class::Runtime && c.dur[*r] >= least;
        let mut calls: Vec<(Ns, Ns)> =
            (0..c.len()).filter(long).map(|r| c.span(r)).map(|s| (s.end, s.start)).collect();
        calls.sort_unstable();
        Self(calls)
    }

    /// Whether a call began before `start`, ended soon after it, and lasted half of the wait that began at
    /// `from`.
    fn any_over(&self, start: Ns, from: Ns) -> bool {
        let first = self.0.partition_point(|c| c.0 < start);
        let mut soon = self.0[first..].iter().take_while(|c| c.0 <= start.saturating_add(RETURNS_WITHIN));
        let least = start.saturating_sub(from);
        soon.any(|(end, began)| *began < start && end.saturating_sub(*began).saturating_mul(2) >= least)
    }
}
