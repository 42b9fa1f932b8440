//! Starts and ends of activities: which end, or which launch, a start follows.
//!
//! ```text
//!   launch call      |call|
//!   own stream    [before)...............[ start      kernel_gap: before's end
//!   other stream       [awaited)                      cross_stream_delay: behind a recorded event
//! ```
//!
//! Ends and starts at one instant are ordered as the activities are (start, then row), so that activities
//! of no length cannot follow each other in a circle.

use crate::analysis::critical_path::nodes::sync::{StreamKey, Syncs};
use crate::analysis::critical_path::segment::Edge;
use crate::trace::rank_trace::RankTrace;
use crate::trace::timeline::Work;
use crate::units::{Ns, Span};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Farthest end on another stream that is taken for the cause of a start, ns.
const INFER_WITHIN: Ns = 20_000;

/// A start this close behind a recorded cause needs no inferred one, ns.
const EXPLAINED_WITHIN: Ns = 30_000;

/// A thread silent for this long may have been polling memory that its communication writes, ns.
const POLL_FROM: Ns = 100_000;

/// How long before the silence ends such communication may have ended, ns.
const POLL_WITHIN: Ns = 100_000;

/// What a start follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    pub edge: Edge,
    pub from: From,
    pub at: Ns,
}

/// Where an edge to a start begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// End of an activity, by index.
    End(u32),
    /// Start of a launch call, by row.
    Call(u32),
}

#[derive(Default)]
struct Stream {
    /// Activities by end; of one end the lowest row last.
    by_end: Vec<u32>,
    /// Start of the launch call with the activity; unlinked ones first.
    by_launch: Vec<(Ns, u32)>,
    /// In order of call.
    waits: Vec<Awaited>,
}

/// A wait of a stream for the activity behind an event of another.
struct Awaited {
    call: Ns,
    source: u32,
    /// Latest end of this and all earlier waits' activities.
    most: Ns,
}

/// The activities of a rank, ready to be asked.
pub struct Gpu<'a> {
    trace: &'a RankTrace,
    streams: BTreeMap<StreamKey, Stream>,
    /// Activities of all devices by end; of one end the lowest row last.
    by_end: Vec<u32>,
    /// By launching thread: start of the launch call with the communication activity that it launched, in order.
    communication: BTreeMap<u32, Vec<(Ns, u32)>>,
}

impl<'a> Gpu<'a> {
    pub fn new(trace: &'a RankTrace, syncs: &Syncs) -> Self {
        let mut by_end: Vec<u32> = (0..trace.activities.len() as u32).collect();
        by_end.sort_unstable_by_key(|&i| {
            let a = &trace.activities[i as usize];
            (a.span.end, Reverse(a.row))
        });
        let mut streams: BTreeMap<StreamKey, Stream> = BTreeMap::new();
        for &i in &by_end {
            let a = &trace.activities[i as usize];
            let stream = streams.entry((a.device(), a.stream())).or_default();
            stream.by_end.push(i);
            stream.by_launch.push((launched(trace, i), i));
        }
        // stable: of one launch the latest end, of those the lowest row comes last
        streams.values_mut().for_each(|s| s.by_launch.sort_by_key(|l| l.0));
        let mut communication: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
        for &i in &by_end {
            let a = &trace.activities[i as usize];
            if let Some(call) = a.launch().filter(|_| a.work == Work::Communication) {
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

    /// The activity that ends last before `until` (what runs on ends there), if any ends after `from`;
    /// of several the one of the lowest row.
    pub fn last(&self, from: Ns, until: Ns) -> Option<(Ns, u32)> {
        let all = &self.trace.activities;
        let n = all.partition_point(|a| a.span.start < until);
        let ends = all[..n].iter().enumerate().map(|(i, a)| (a.span.end.min(until), Reverse(a.row), i as u32));
        ends.max().filter(|m| m.0 > from).map(|m| (m.0, m.2))
    }

    /// The edge that binds an activity's start.
    pub fn before_start(&self, i: u32) -> Option<Before> {
        let a = &self.trace.activities[i as usize];
        let start = a.span.start;
        let mut found: Vec<(Before, u32)> = Vec::with_capacity(4);
        let ends = |edge, j: u32| {
            let b = &self.trace.activities[j as usize];
            (Before { edge, from: From::End(j), at: b.span.end }, b.row)
        };
        let stream = self.streams.get(&(a.device(), a.stream()));
        found.extend(
            stream.and_then(|s| self.latest(&s.by_end, start, Ns::MIN, |j| j < i)).map(|j| ends(Edge::Stream, j)),
        );
        if let Some(call) = a.launch() {
            let at = self.trace.columns.ts[call as usize];
            if at <= start {
                found.push((Before { edge: Edge::Launch, from: From::Call(call), at }, call));
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

    /// Latest activity behind an event that the stream was told to wait for before `i` was launched.
    fn awaited(&self, i: u32, launch: Ns) -> Option<u32> {
        let a = &self.trace.activities[i as usize];
        let waits = &self.streams.get(&(a.device(), a.stream()))?.waits;
        let mut best: Option<u32> = None;
        let end = |j: u32| (self.end(j), Reverse(self.trace.activities[j as usize].row));
        // of sane waits the last one awaits the latest end, and the search stops there
        for w in waits[..waits.partition_point(|w| w.call < launch)].iter().rev() {
            if best.is_some_and(|b| w.most < self.end(b)) {
                break;
            }
            if w.source < i && self.end(w.source) <= a.span.start && best.is_none_or(|b| end(w.source) > end(b)) {
                best = Some(w.source);
            }
        }
        best
    }

    /// The last activity launched on a stream before `before`.
    pub fn last_launched(&self, key: StreamKey, before: Ns) -> Option<u32> {
        let stream = self.streams.get(&key)?;
        let n = stream.by_launch.partition_point(|l| l.0 < before);
        n.checked_sub(1).and_then(|k| stream.by_launch.get(k)).map(|l| l.1)
    }

    /// Of what a device (or all) was given before `launched_before`, the latest to end in (after, until].
    pub fn last_of_device(&self, device: Option<i64>, launched_before: Ns, after: Ns, until: Ns) -> Option<u32> {
        self.latest(&self.by_end, until, after, |j| {
            let on = self.trace.activities[j as usize].device();
            (device.is_none() || on == device) && launched(self.trace, j) < launched_before
        })
    }

    /// The communication that a thread, silent in `silence`, seems to have waited for without a call, by reading memory
    /// that a kernel writes: the last that the thread launched, if it runs when the silence ends or ended just before.
    pub fn polled(&self, lane: u32, silence: Span) -> Option<u32> {
        if silence.end.saturating_sub(silence.start) < POLL_FROM {
            return None;
        }
        let launched = self.communication.get(&lane)?;
        let i = launched.get(launched.partition_point(|l| l.0 < silence.end).checked_sub(1)?)?.1;
        let span = self.trace.activities[i as usize].span;
        (span.start < silence.end && silence.end.saturating_sub(span.end) <= POLL_WITHIN).then_some(i)
    }

    pub fn end(&self, i: u32) -> Ns {
        self.trace.activities[i as usize].span.end
    }

    /// The last of `by_end` that ends in (after, until] and that `keep` wants.
    fn latest(&self, by_end: &[u32], until: Ns, after: Ns, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let n = by_end.partition_point(|&j| self.end(j) <= until);
        by_end[..n].iter().rev().copied().take_while(|&j| self.end(j) > after).find(|&j| keep(j))
    }
}

/// When an activity was launched; unlinked ones before everything.
fn launched(trace: &RankTrace, i: u32) -> Ns {
    trace.activities[i as usize].launch().map_or(Ns::MIN, |call| trace.columns.ts[call as usize])
}
