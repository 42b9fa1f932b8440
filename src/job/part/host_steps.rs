//! The steps of a rank, with what its launching threads do in them.

use crate::part::PartStep;
use hta_base::units::Span;
use hta_facts::host_activity::HostNames;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::Step;
use std::collections::BTreeSet;

/// `launching`: the threads.
pub(super) fn host_steps(trace: &RankTrace, launching: &BTreeSet<u32>) -> Vec<PartStep> {
    let mut before = None;
    let step = |s: &Step| {
        let host_start = before.replace(s.host.end).unwrap_or(s.host.start).min(s.host.end);
        let host = Span::new(host_start, s.host.end).intersect(trace.capture);
        let host = HostNames::of(trace).sums(trace, launching, host);
        let (index, label, window, is_partial) = (s.index, s.label, s.window, s.is_partial);
        PartStep { index, label, window, is_partial, host_start, host }
    };
    trace.steps.steps.iter().map(step).collect()
}
