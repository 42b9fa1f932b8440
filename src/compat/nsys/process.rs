//! Processes and threads of a rank.

use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// Process and thread of a host event.
pub(crate) fn thread_of(trace: &RankTrace, row: u32) -> (Option<StrId>, Option<StrId>) {
    let lane = trace.columns.lane.get(row as usize).and_then(|l| trace.columns.lanes.get(*l as usize));
    (lane.map(|l| l.pid), lane.map(|l| l.tid))
}

/// The process of the rank: that of its main thread, or of its first launching call.
pub(crate) fn process(trace: &RankTrace) -> Option<StrId> {
    let main = trace.main_thread().and_then(|l| trace.columns.lanes.get(l as usize)).map(|l| l.pid);
    main.or_else(|| trace.launches().iter().next().and_then(|(call, _)| thread_of(trace, call).0))
}
