//! The number of launches that wait on each stream at each instant.
//!
//! ```text
//!   launch calls   |a.|b.|c.......|            a launch enters when its call starts
//!   stream              [a=====)[b==)[c=)      and leaves when its first activity there starts
//!   queue length   1  2 1  2      1    0
//! ```
//!
//! A graph counts as one launch, however many activities it has on the stream; `pending` counts each of them.
//! An activity that starts before its own call (clock noise) did not wait: it leaves when it enters.

use hta_base::order_statistics::weighted_percentile;
use hta_base::units::{Ns, Span};
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The values from one instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueChange {
    pub at: Ns,
    /// Number of waiting launches.
    pub length: u32,
    /// Number of waiting activities.
    pub pending: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedLaunch {
    /// Row of the call.
    pub call: u32,
    pub enter: Ns,
    pub(crate) leave: Ns,
    /// Number of earlier launches that still waited when it entered.
    pub found: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamQueue {
    pub device: Option<i64>,
    pub stream: Option<i64>,
    /// One entry per instant at which a value changes, in order of time; the values are 0 before the first
    /// and after the last.
    pub changes: Vec<QueueChange>,
    /// In order of entry.
    pub entries: Vec<QueuedLaunch>,
    /// First entry to last leave.
    pub span: Span,
}

/// The queues of a rank, in order of device and stream. Not cached, because they are fast to compute and
/// large to keep.
pub fn queues(trace: &RankTrace) -> Vec<StreamQueue> {
    let mut lanes: BTreeMap<(Option<i64>, Option<i64>), QueueLane> = BTreeMap::new();
    for (row, activities) in trace.launches().iter() {
        let enter = trace.columns.ts[row as usize];
        for &i in activities {
            let a = &trace.activities[i as usize];
            let lane = lanes.entry((a.device(), a.stream())).or_default();
            let leave = a.span.start.max(enter);
            lane.activities.push((enter, leave));
            // A call's activities come in order of start, so the first one on a stream determines when the
            // launch leaves.
            if lane.entries.last().is_none_or(|e| e.call != row) {
                lane.entries.push(QueuedLaunch { call: row, enter, leave, found: 0 });
            }
        }
    }
    lanes.into_iter().map(|((device, stream), lane)| lane.queue(device, stream)).collect()
}

#[derive(Default)]
struct QueueLane {
    entries: Vec<QueuedLaunch>,
    /// Enter and leave time of every activity.
    activities: Vec<(Ns, Ns)>,
}

impl QueueLane {
    fn queue(mut self, device: Option<i64>, stream: Option<i64>) -> StreamQueue {
        // Among launches that enter together, the one that leaves first counts as earlier, whatever the order
        // of the file.
        self.entries.sort_unstable_by_key(|e| (e.enter, e.leave, e.call));
        let mut leaves: Vec<Ns> = self.entries.iter().map(|e| e.leave).collect();
        if leaves.is_sorted() {
            // The queue is first in, first out.
            let mut gone = 0;
            for (i, e) in self.entries.iter_mut().enumerate() {
                while gone < i && leaves[gone] <= e.enter {
                    gone += 1;
                }
                e.found = (i - gone) as u32;
            }
        } else {
            let mut waiting: BinaryHeap<Reverse<Ns>> = BinaryHeap::new();
            for e in &mut self.entries {
                while waiting.peek().is_some_and(|leave| leave.0 <= e.enter) {
                    waiting.pop();
                }
                e.found = waiting.len() as u32;
                waiting.push(Reverse(e.leave));
            }
            leaves.sort();
        }
        let enters: Vec<Ns> = self.entries.iter().map(|e| e.enter).collect();
        let (mut begun, mut ended): (Vec<Ns>, Vec<Ns>) = self.activities.iter().copied().unzip();
        begun.sort();
        ended.sort();
        let changes = changes([&enters, &leaves, &begun, &ended]);
        let span = Span::new(
            self.entries.first().map_or(0, |e| e.enter),
            self.entries.iter().map(|e| e.leave).max().unwrap_or(0),
        );
        StreamQueue { device, stream, changes, entries: self.entries, span }
    }
}

/// The values over time, from the sorted times at which launches enter and leave, and activities begin and
/// end to wait.
fn changes(edges: [&[Ns]; 4]) -> Vec<QueueChange> {
    let mut at = [0; 4];
    let mut changes: Vec<QueueChange> = Vec::new();
    while let Some(now) = edges.iter().zip(at).filter_map(|(list, i)| list.get(i)).min().copied() {
        for (list, i) in edges.iter().zip(&mut at) {
            while list.get(*i) == Some(&now) {
                *i += 1;
            }
        }
        // Not negative, because nothing leaves before it enters.
        let next = QueueChange { at: now, length: (at[0] - at[1]) as u32, pending: (at[2] - at[3]) as u32 };
        let before = changes.last().map_or((0, 0), |c| (c.length, c.pending));
        if before != (next.length, next.pending) {
            changes.push(next);
        }
    }
    changes
}

/// Statistics of a queue in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStatistics {
    pub max: u32,
    pub max_pending: u32,
    /// Integral of the length over time, ns: the summed waiting time of launches inside the window.
    pub wait: i128,
    /// Lengths that the queue does not exceed for 50 % and 95 % of the window; `None` for an empty window.
    pub p50: Option<u32>,
    pub p95: Option<u32>,
    pub empty: Ns,
    /// Time with at least the given length, ns.
    pub full: Ns,
}

impl StreamQueue {
    /// Stretches of time with constant values, including those of 0 in between.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (Span, QueueChange)> {
        self.changes.windows(2).map(|w| (Span::new(w[0].at, w[1].at), w[0]))
    }

    /// When `full` launches or more wait.
    pub fn full(&self, full: u64) -> Union {
        Union::new(self.segments().filter(|s| u64::from(s.1.length) >= full).map(|s| s.0))
    }

    /// Stretches with waiting activities inside disjoint `parts` of time: their lengths, and the values.
    fn waiting_in(&self, parts: &[Span]) -> impl Iterator<Item = (Ns, QueueChange)> {
        let in_part = |part: Span| {
            let first = self.changes.partition_point(|c| c.at <= part.start).saturating_sub(1);
            let pairs = self.changes[first..].windows(2).take_while(move |w| w[0].at < part.end);
            pairs.map(move |w| (Span::new(w[0].at, w[1].at).intersect(part).len(), w[0]))
        };
        parts.iter().copied().flat_map(in_part).filter(|(ns, c)| *ns > 0 && c.pending > 0)
    }

    /// Statistics over disjoint `parts` of time.
    pub fn in_parts(&self, parts: &[Span], full: u64) -> QueueStatistics {
        let mut out = QueueStatistics::default();
        let mut lowest = u32::MAX;
        for (_, c) in self.waiting_in(parts) {
            out.max = out.max.max(c.length);
            out.max_pending = out.max_pending.max(c.pending);
            lowest = if c.length > 0 { lowest.min(c.length) } else { lowest };
        }
        // Time by length, from the lowest one on: a long queue changes little in a short window.
        let mut times: Vec<Ns> = Vec::new();
        for (ns, c) in self.waiting_in(parts).filter(|(_, c)| c.length > 0) {
            out.wait += i128::from(c.length) * i128::from(ns);
            out.full += if u64::from(c.length) >= full { ns } else { 0 };
            let at = (c.length - lowest) as usize;
            times.resize(times.len().max(at + 1), 0);
            times[at] += ns;
        }
        let whole: Ns = parts.iter().map(|p| p.len()).sum();
        out.empty = whole - times.iter().sum::<Ns>();
        if whole > 0 {
            let mut lengths: Vec<(u32, Ns)> = (lowest..).zip(times).chain([(0, out.empty)]).collect();
            (out.p50, out.p95) =
                (weighted_percentile(&mut lengths, 50), weighted_percentile(&mut lengths, 95));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    ///   queue length   n    n+1   n        room is needed for two lengths, not for all up to n + 1
    ///   window            [=========)
    /// ```
    #[test]
    fn a_window_needs_room_for_the_lengths_in_it_however_long_the_queue_is() {
        let n = 3_000_000_000;
        let change = |(at, length)| QueueChange { at, length, pending: length };
        let changes = [(0, n), (10, n + 1), (20, n), (30, 0)].map(change).to_vec();
        let span = Span::new(0, 30);
        let queue = StreamQueue { device: None, stream: None, changes, entries: Vec::new(), span };
        let found = queue.in_parts(&[Span::new(4, 24)], 1 << 10);
        assert_eq!((found.max, found.p50, found.p95), (n + 1, Some(n), Some(n + 1)));
        assert_eq!((found.wait, found.full, found.empty), (i128::from(n) * 20 + 10, 20, 0));
    }
}
