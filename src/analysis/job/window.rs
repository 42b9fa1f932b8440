//! The local time of a rank before each of its calls: from its last meeting with the others to the moment
//! when it is ready.

use super::joined::Job;
use super::matching::Member;
use super::part::RankSummary;
use hta_base::units::{Ns, Span};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The windows of every part, by call.
pub(crate) type Windows = Vec<Vec<Option<LocalWindow>>>;

/// Where a window starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowStart {
    /// At the end of a call of the part.
    Call(u32),
    Step,
    Capture,
}

/// A part's local time before it is ready for a call, on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalWindow {
    pub(crate) lane: u32,
    pub(crate) span: Span,
    pub(crate) from: WindowStart,
}

/// The windows of a part, by call. On the host only the first call after a meeting point has one, because the
/// following ones were submitted while others were running.
fn windows(job: &Job, part: u32) -> Vec<Option<LocalWindow>> {
    let p = &job.parts[part as usize];
    let mut out = vec![None; p.calls.calls.len()];
    for lane in 0..p.lanes.len() {
        let points = job.sync_points(part, lane);
        let ends = ends_of_steps(job, part, lane);
        let mut before: Option<Ns> = None;
        for i in p.calls_by_ready(lane) {
            let t = p.readiness[i].ready;
            let (start, from) = match points.before(t) {
                Some((e, k)) => (e, WindowStart::Call(k as u32)),
                None => start_without_meeting(p, i),
            };
            let earlier =
                p.calls.calls[i].step.and_then(|s| ends.range(..s).next_back()).map(|(_, end)| *end);
            let (start, from) = match earlier.filter(|(end, _)| *end > start) {
                Some((end, k)) => (end.min(t), WindowStart::Call(k)),
                None => (start, from),
            };
            if !p.calls.calls[i].shape.on_host || before.is_none_or(|b| b <= start) {
                out[i] = Some(LocalWindow { lane: lane as u32, span: Span::new(start, t), from });
            }
            before = Some(t);
        }
    }
    out
}

/// By step: the latest end of the collectives of several ranks in it and in all before, with the call. A
/// delay belongs to the step in which it happened, so nobody's local time reaches back beyond the end of an
/// earlier step's collectives.
fn ends_of_steps(job: &Job, part: u32, lane: usize) -> BTreeMap<u32, (Ns, u32)> {
    let p = &job.parts[part as usize];
    let mut ends: BTreeMap<u32, (Ns, u32)> = BTreeMap::new();
    for call in p.calls_in(lane, Span::new(Ns::MIN, Ns::MAX)) {
        let c = &p.calls.calls[call as usize];
        let Some(step) = c.step.filter(|_| !c.shape.on_host && c.shape.kind.is_meeting()) else {
            continue;
        };
        if job.outcome(Member { part, call }).is_some_and(|o| !o.is_impossible) {
            let end = ends.entry(step).or_insert((c.released, call));
            *end = (*end).max((c.released, call));
        }
    }
    let mut latest = (Ns::MIN, 0);
    for end in ends.values_mut() {
        latest = latest.max(*end);
        *end = latest;
    }
    ends
}

/// Start of the local time before a call if the rank has not met the others before: the start of the step, or
/// else of the capture.
pub(crate) fn start_without_meeting(p: &RankSummary, call: usize) -> (Ns, WindowStart) {
    let t = p.readiness[call].ready;
    let step = p.step_of(&p.calls.calls[call]).map(|s| s.window.start);
    match step.filter(|s| *s <= t) {
        Some(s) => (s, WindowStart::Step),
        None => (p.capture.start.min(t), WindowStart::Capture),
    }
}

pub(crate) fn all_windows(job: &Job) -> Windows {
    (0..job.parts.len() as u32).into_par_iter().map(|p| windows(job, p)).collect()
}
