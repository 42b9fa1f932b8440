//! Starts and ends of activities: finds the end or the launch that a start had to wait for.
//!
//! ```text
//!   launch call      |call|
//!   own stream    [before)...............[ start      kernel_gap: before's end
//!   other stream       [awaited)                      cross_stream_delay: behind a recorded event
//! ```
//!
//! Ends and starts at the same instant are ordered like the activities (start, then row), so that activities
//! of length 0 cannot form a cycle.

use crate::critical_path::nodes::sync::{StreamKey, SyncEvents};
use crate::critical_path::segment::Edge;
use hta_base::units::{Ns, Span};
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Largest distance of an end on another stream that is inferred to be the cause of a start, ns.
const INFER_WITHIN: Ns = 20_000;

/// A start this close to a recorded cause needs no inferred one, ns.
const EXPLAINED_WITHIN: Ns = 30_000;

/// Shortest silence of a thread in which it may be polling memory that its communication writes, ns.
const POLL_FROM: Ns = 100_000;

/// Largest time before the end of the silence at which such communication may have ended, ns.
const POLL_WITHIN: Ns = 100_000;

/// What a start waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartCause {
    pub(crate) edge: Edge,
    pub(crate) from: EdgeOrigin,
    pub(crate) at: Ns,
}

/// Where the edge to a start begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeOrigin {
    /// End of an activity, by index.
    End(u32),
    /// Start of a launch call, by row.
    Call(u32),
}

#[derive(Default)]
struct PathStream {
    /// Activities by end; at equal ends the lowest row last.
    by_end: Vec<u32>,
    /// Start of the launch call and activity, sorted; unlinked ones first.
    by_launch: Vec<(Ns, u32)>,
    /// In order of call.
    waits: Vec<Awaited>,
}

/// A wait of a stream for the activity before an event on another stream.
struct Awaited {
    call: Ns,
    source: u32,
    /// Latest end of the activities of this and all earlier waits, ns.
    most: Ns,
}

/// The activities of a rank, indexed for the walk.
pub struct GpuNodes<'a> {
    trace: &'a RankTrace,
    streams: BTreeMap<StreamKey, PathStream>,
    /// Activities of all devices by end; at equal ends the lowest row last.
    by_end: Vec<u32>,
    /// By launching thread: start of the launch call and the communication activity, in order.
    communication: BTreeMap<u32, Vec<(Ns, u32)>>,
}

impl<'a> GpuNodes<'a> {
    pub(crate) fn new(trace: &'a RankTrace, syncs: &SyncEvents) -> Self {
        let mut by_end: Vec<u32> = (0..trace.activities.len() as u32).collect();
        by_end.sort_unstable_by_key(|&i| {
            let a = &trace.activities[i as usize];
            (a.span.end, Reverse(a.row))
        });
        let mut streams: BTreeMap<StreamKey, PathStream> = BTreeMap::new();
        for &i in &by_end {
            let a = &trace.activities[i as usize];
            let stream = streams.entry((a.device(), a.stream())).or_default();
            stream.by_end.push(i);
            stream.by_launch.push((launched(trace, i), i));
        }
        // Stable sort: among activities of one launch the latest end comes last, and among those the lowest
        // row.
        streams.values_mut().for_each(|s| s.by_launch.sort_by_key(|l| l.0));
        let mut communication: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
        for &i in &by_end {
            let a = &trace.activities[i as usize];
            if let Some(call) = a.launch().filter(|_| a.work == WorkClass::Communication) {
                let lane = trace.columns.lane[call as usize];
                communication.entry(lane).or_default().push((trace.columns.ts[call as usize], i));
            }
        }
        communication.values_mut().for_each(|launched| launched.sort_by_key(|l| l.0));
        let mut me = Self { trace, streams, by_end, communication };
        for (key, waits) in syncs.waits() {
            let mut most = Ns::MIN;
            let resolved = waits.iter().filter(|w| w.on != *key).filter_map(|w| {
                let source = me.last_launched(w.on, w.record)?;
                most = most.max(me.end(source));
                Some(Awaited { call: w.call, source, most })
            });
            let resolved: Vec<Awaited> = resolved.collect();
            if let Some(stream) = me.streams.get_mut(key) {
                stream.waits = resolved;
            }
        }
        me
    }

    /// The activity that ends last before `until` (longer ones are cut there), if it ends after `from`; among
    /// several the one with the lowest row.
    pub(crate) fn last(&self, from: Ns, until: Ns) -> Option<(Ns, u32)> {
        let all = &self.trace.activities;
        let n = all.partition_point(|a| a.span.start < until);
        let ends =
            all[..n].iter().enumerate().map(|(i, a)| (a.span.end.min(until), Reverse(a.row), i as u32));
        ends.max().filter(|m| m.0 > from).map(|m| (m.0, m.2))
    }

    /// The edge that determines an activity's start.
    pub(crate) fn before_start(&self, i: u32) -> Option<StartCause> {
        let a = &self.trace.activities[i as usize];
        let start = a.span.start;
        let mut found: Vec<(StartCause, u32)> = Vec::with_capacity(4);
        let ends = |edge, j: u32| {
            let b = &self.trace.activities[j as usize];
            (StartCause { edge, from: EdgeOrigin::End(j), at: b.span.end }, b.row)
        };
        let stream = self.streams.get(&(a.device(), a.stream()));
        found.extend(
            stream
                .and_then(|s| self.latest(&s.by_end, start, Ns::MIN, |j| j < i))
                .map(|j| ends(Edge::Stream, j)),
        );
        if let Some(call) = a.launch() {
            let at = self.trace.columns.ts[call as usize];
            if at <= start {
                found.push((StartCause { edge: Edge::Launch, from: EdgeOrigin::Call(call), at }, call));
            }
            found.extend(self.awaited(i, at).map(|j| ends(Edge::StreamWait, j)));
        }
        if found.iter().all(|(b, _)| start.saturating_sub(b.at) > EXPLAINED_WITHIN) {
            let other = |j: u32| {
                let b = &self.trace.activities[j as usize];
                j < i && b.device() == a.device() && b.stream() != a.stream()
            };
            let near = start.saturating_sub(INFER_WITHIN).saturating_sub(1);
            found.extend(self.latest(&self.by_end, start, near, other).map(|j| ends(Edge::Inferred, j)));
        }
        let order = |edge| match edge {
            Edge::StreamWait => 0,
            Edge::Stream => 1,
            Edge::Launch => 2,
            _ => 3,
        };
        found.into_iter().min_by_key(|(b, row)| (Reverse(b.at), order(b.edge), *row)).map(|f| f.0)
    }

    /// The latest activity before an event for which the stream was told to wait before `i` was launched.
    fn awaited(&self, i: u32, launch: Ns) -> Option<u32> {
        let a = &self.trace.activities[i as usize];
        let waits = &self.streams.get(&(a.device(), a.stream()))?.waits;
        let mut best: Option<u32> = None;
        let end = |j: u32| (self.end(j), Reverse(self.trace.activities[j as usize].row));
        // Normally the last wait has the latest end, and the search stops there.
        for w in waits[..waits.partition_point(|w| w.call < launch)].iter().rev() {
            if best.is_some_and(|b| w.most < self.end(b)) {
                break;
            }
            if w.source < i
                && self.end(w.source) <= a.span.start
                && best.is_none_or(|b| end(w.source) > end(b))
            {
                best = Some(w.source);
            }
        }
        best
    }

    /// The last activity launched on a stream before `before`.
    pub(crate) fn last_launched(&self, key: StreamKey, before: Ns) -> Option<u32> {
        let stream = self.streams.get(&key)?;
        let n = stream.by_launch.partition_point(|l| l.0 < before);
        n.checked_sub(1).and_then(|k| stream.by_launch.get(k)).map(|l| l.1)
    }

    /// Among the activities of a device (or of all) launched before `launched_before`, the latest to end in
    /// (after, until].
    pub(crate) fn last_of_device(
        &self,
        device: Option<i64>,
        launched_before: Ns,
        after: Ns,
        until: Ns,
    ) -> Option<u32> {
        self.latest(&self.by_end, until, after, |j| {
            let on = self.trace.activities[j as usize].device();
            (device.is_none() || on == device) && launched(self.trace, j) < launched_before
        })
    }

    /// The communication that a thread, silent in `silence`, seems to have waited for by polling memory that
    /// a kernel writes: the last communication that it launched, if that runs at the end of the silence or
    /// ended just before.
    pub(crate) fn polled(&self, lane: u32, silence: Span) -> Option<u32> {
        if silence.end.saturating_sub(silence.start) < POLL_FROM {
            return None;
        }
        let launched = self.communication.get(&lane)?;
        let i = launched.get(launched.partition_point(|l| l.0 < silence.end).checked_sub(1)?)?.1;
        let span = self.trace.activities[i as usize].span;
        (span.start < silence.end && silence.end.saturating_sub(span.end) <= POLL_WITHIN).then_some(i)
    }

    pub(crate) fn end(&self, i: u32) -> Ns {
        self.trace.activities[i as usize].span.end
    }

    /// The last of `by_end` that ends in (after, until] and satisfies `keep`.
    fn latest(&self, by_end: &[u32], until: Ns, after: Ns, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let n = by_end.partition_point(|&j| self.end(j) <= until);
        by_end[..n].iter().rev().copied().take_while(|&j| self.end(j) > after).find(|&j| keep(j))
    }
}

/// Launch time of an activity; unlinked ones count as launched before everything.
fn launched(trace: &RankTrace, i: u32) -> Ns {
    trace.activities[i as usize].launch().map_or(Ns::MIN, |call| trace.columns.ts[call as usize])
}
