//! Costly ways of copying and synchronizing, with the time of each in each window.
//!
//! ```text
//!   kernels     [=====)                     [=====)
//!   calls            |cudaMemcpy.......|
//!   copy               ......[======)
//!   no kernel         ------------------           a call or a copy of the rule, and no kernel
//! ```
//!
//! The rules are those of the expert system of Nsight Systems (pageable memory in asynchronous copies,
//! synchronous copies, synchronous sets, calls that synchronize), and small copies. Their times overlap: a
//! small synchronous copy belongs to two rules.

use crate::api::Options;
use crate::copies::copy::{Api, Copy};
use crate::copies::{CopyRuleRow, CopyRules, kernels_run, spans};
use crate::inventory::profiler_calls::ProfilerCalls;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyRule {
    /// Copies from or to pageable memory that are not requested by a synchronous call: they are staged, and
    /// block the calling thread although the call is named asynchronous.
    Pageable,
    /// Copies by calls that return when they are done.
    SyncCopy,
    /// Sets by calls that return when they are done.
    SyncSet,
    /// Calls that wait for a stream, an event or the device.
    Synchronize,
    /// Copies (not sets) below [`SMALL_BYTES`](crate::copies::copy::SMALL_BYTES): their cost is the launch,
    /// not the transfer.
    Small,
}

impl CopyRule {
    pub(crate) const ALL: [CopyRule; 5] =
        [CopyRule::Pageable, CopyRule::SyncCopy, CopyRule::SyncSet, CopyRule::Synchronize, CopyRule::Small];

    pub(crate) fn name(self) -> &'static str {
        match self {
            CopyRule::Pageable => "pageable_copy",
            CopyRule::SyncCopy => "synchronous_copy",
            CopyRule::SyncSet => "synchronous_set",
            CopyRule::Synchronize => "synchronize_call",
            CopyRule::Small => "small_copy",
        }
    }

    fn holds(self, c: &Copy) -> bool {
        match self {
            CopyRule::Pageable => c.is_pageable() && c.api != Api::SyncCopy,
            CopyRule::SyncCopy => c.api == Api::SyncCopy && c.direction != "set",
            CopyRule::SyncSet => c.api == Api::SyncSet || (c.api == Api::SyncCopy && c.direction == "set"),
            CopyRule::Synchronize => false,
            CopyRule::Small => c.is_small(),
        }
    }
}

/// Rows of the calls that wait for the device, except those that the profiler makes.
pub(crate) fn synchronize_calls(trace: &RankTrace) -> Vec<u32> {
    let waits = trace.columns.strings.each(|t| t.to_ascii_lowercase().contains("synchronize"));
    let is_wait = |row: usize| trace.classes[row] == Class::Runtime && waits.holds(trace.columns.name(row));
    let profilers = ProfilerCalls::of(trace);
    let rows = (0..trace.columns.len()).filter(|&row| is_wait(row)).map(|row| row as u32);
    rows.filter(|&row| !profilers.contains(row)).collect()
}

/// Adds a row for every window and every rule that matches anything.
pub(crate) fn push(
    table: &mut CopyRules,
    trace: &RankTrace,
    work: &DeviceWork,
    options: &Options,
    all: &[Copy],
    syncs: &[u32],
) {
    let kernels = kernels_run(work);
    let windows = trace.windows(work, &options.model);
    // A call that was open when the lead ended waited for unrecorded work.
    let is_own = |call: u32| trace.span(call).start >= work.capture.start;
    let syncs: Vec<u32> = match trace.edges.lead_end(work.device) {
        Some(_) => syncs.iter().copied().filter(|&call| is_own(call)).collect(),
        None => syncs.to_vec(),
    };
    let is_measured = |c: &&Copy| trace.edges.lead_end(work.device).is_none() || c.call.is_none_or(is_own);
    let mut found: Vec<(CopyRule, RuleMatches)> = Vec::new();
    for rule in CopyRule::ALL {
        let own: Vec<&Copy> = all.iter().filter(|c| rule.holds(c)).filter(is_measured).collect();
        let syncs = if rule == CopyRule::Synchronize { syncs.as_slice() } else { &[] };
        if !(own.is_empty() && syncs.is_empty()) {
            found.push((rule, RuleMatches::new(trace, &own, syncs, &kernels)));
        }
    }
    for w in &windows {
        for (rule, f) in &found {
            let (count, size_bytes) = f.starts_in(w.parts());
            let len_in = |u: &Union| w.parts().iter().map(|p| u.len_in(*p)).sum::<Ns>();
            table.push(CopyRuleRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                is_partial: w.is_partial,
                ts_ns: w.start(),
                dur_ns: w.len(),
                rule: rule.name(),
                count,
                size_bytes,
                busy_ns: len_in(&f.busy),
                call_ns: len_in(&f.calls),
                no_kernel_ns: len_in(&f.no_kernel),
            });
        }
    }
}

/// What matches one rule.
struct RuleMatches {
    /// Start and size of each copy, in order of start.
    starts: Vec<(Ns, u64)>,
    busy: Union,
    calls: Union,
    no_kernel: Union,
}

impl RuleMatches {
    fn new(trace: &RankTrace, copies: &[&Copy], syncs: &[u32], kernels: &Union) -> Self {
        let of_copies = copies.iter().map(|c| (c.span.start, c.bytes.unwrap_or(0)));
        let mut starts: Vec<(Ns, u64)> =
            of_copies.chain(syncs.iter().map(|&r| (trace.span(r).start, 0))).collect();
        starts.sort_unstable();
        let busy = Union::new(copies.iter().map(|c| c.span));
        // The call of a graph launch does more than its copies.
        let calls = copies.iter().filter(|c| c.api != Api::Other).filter_map(|c| c.call);
        let calls = Union::new(spans(trace, calls.chain(syncs.iter().copied())));
        let either = Union::new(busy.spans().iter().chain(calls.spans()).copied());
        Self { starts, busy, calls, no_kernel: either.minus(kernels) }
    }

    fn starts_in(&self, parts: &[Span]) -> (u64, u64) {
        let at = |t: Ns| self.starts.partition_point(|s| s.0 < t);
        parts.iter().fold((0, 0), |(count, bytes), p| {
            let inside = &self.starts[at(p.start)..at(p.end.max(p.start))];
            let size = inside.iter().fold(0u64, |sum, s| sum.saturating_add(s.1));
            (count + inside.len() as u64, bytes + size)
        })
    }
}
