//! Time for which a rank waited for others inside a local window.

use super::exposed::{CallSpan, ExposedKind, ExposedPiece, divide};
use super::joined::Job;
use super::matching::Member;
use super::window::LocalWindow;
use hta_base::units::{Ns, Span};

/// Time for which a member waited for others within its local time, in exposed collectives of other groups,
/// ns.
pub(crate) fn waited_within(job: &Job, m: Member, w: &LocalWindow) -> Ns {
    let waits = pieces(job, m, w).into_iter().filter(|p| matches!(p.what, ExposedKind::Sync));
    waits.map(|p| p.span.len()).sum()
}

/// Exposed communication of a window, in pieces of waiting, transfer and unmatched calls.
pub(super) fn pieces(job: &Job, m: Member, w: &LocalWindow) -> Vec<ExposedPiece> {
    let p = &job.parts[m.part as usize];
    let Some(lane) = p.lanes.get(w.lane as usize).filter(|l| l.is_gpu) else { return Vec::new() };
    let first = lane.exposed.partition_point(|s| s.end <= w.span.start);
    let spans: Vec<Span> = lane.exposed[first..]
        .iter()
        .take_while(|s| s.start < w.span.end)
        .map(|s| s.intersect(w.span))
        .collect();
    if spans.is_empty() {
        return Vec::new();
    }
    let runs: Vec<CallSpan> =
        p.calls_in(w.lane as usize, w.span).map(|i| job.run(Member { part: m.part, call: i })).collect();
    divide(&spans, &runs)
}
