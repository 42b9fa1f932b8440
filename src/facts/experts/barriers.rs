//! The barriers of a library around its exchanges of tokens: the waiting for other ranks is in them.
//!
//! ```text
//!   stream 28   [sync......][dispatch][sync]        [sync....][combine][sync]         HybridEP
//!   stream 20   [notify....][dispatch]              [notify..][combine]               DeepEP
//! ```
//!
//! A barrier between two exchanges belongs to the later one.

use hta_base::units::Ns;
use hta_trace::collective::KernelRole;
use hta_trace::collective::{CollectiveCall, CollectiveKind, RankCalls};
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

/// The calls of each stream, by start.
pub(super) struct StreamOrder<'a> {
    trace: &'a RankTrace,
    calls: &'a RankCalls,
    streams: BTreeMap<[Option<i64>; 2], Vec<(Ns, u32)>>,
}

impl<'a> StreamOrder<'a> {
    pub(super) fn new(trace: &'a RankTrace, calls: &'a RankCalls) -> Self {
        let mut streams: BTreeMap<_, Vec<(Ns, u32)>> = BTreeMap::new();
        for (i, c) in (0u32..).zip(&calls.calls).filter(|(_, c)| !c.shape.on_host) {
            streams.entry([c.shape.device, c.shape.stream]).or_default().push((c.span.start, i));
        }
        streams.values_mut().for_each(|s| s.sort_unstable());
        Self { trace, calls, streams }
    }

    /// The barriers directly before and behind a call.
    pub(super) fn barriers(&self, call: u32) -> [Option<u32>; 2] {
        let place = || {
            let c = self.call(call).filter(|c| !c.shape.on_host)?;
            let stream = self.streams.get(&[c.shape.device, c.shape.stream])?;
            Some((stream, stream.binary_search(&(c.span.start, call)).ok()?))
        };
        let Some((stream, at)) = place() else { return [None; 2] };
        let near = |at: Option<usize>| stream.get(at?).map(|(_, call)| *call);
        let is_exchange = |i: u32| self.call(i).is_some_and(|c| c.shape.kind == CollectiveKind::AllToAll);
        let before = near(at.checked_sub(1)).filter(|i| self.is_barrier(*i));
        let behind = near(Some(at + 1)).filter(|i| self.is_barrier(*i));
        [before, behind.filter(|_| !near(Some(at + 2)).is_some_and(is_exchange))]
    }

    fn call(&self, call: u32) -> Option<&CollectiveCall> {
        self.calls.calls.get(call as usize)
    }

    fn is_barrier(&self, call: u32) -> bool {
        let all = &self.trace.activities;
        let activity = self.call(call).and_then(|c| {
            let at = all.partition_point(|a| (a.span.start, a.row) < (c.span.start, c.event));
            all.get(at).filter(|a| a.row == c.event)
        });
        activity.is_some_and(|a| a.role == Some(KernelRole::Barrier))
    }
}
