//! The local time of a rank before each of its calls: from its last meeting with the others to the moment
//! when it is ready.

use super::joined::Job;
use super::matching::Member;
use super::part::RankSummary;
use hta_base::units::{Ns, Span};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The windows of every part, by call.
pub type Windows = Vec<Vec<Option<LocalWindow>>>;

/// Where a window starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowStart {
    /// At the end of a call of the part.
    Call(u32),
    Step,
    Capture,
}

/// A part's local time before it is ready for a call, on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalWindow {
    pub lane: u32,
    pub span: Span,
    pub from: WindowStart,
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

pub fn all_windows(job: &Job) -> Windows {
    let mut out: Windows = (0..job.parts.len() as u32).into_par_iter().map(|p| windows(job, p)).collect();
    start_together(job, &mut out);
    out
}

/// Local times of one collective are compared, so if one of them starts with the capture, all do. A step that
/// was inferred begins where its first rank calls a collective: this rank was ready before, so its local time
/// reaches back to the capture, and those of the others must not begin with the step.
///
/// ```text
///   rank 0   capture]-------work------------[call        ready after the step began
///   rank 1   capture]-------work-----[call               ready before it
///   inferred step                    |
/// ```
fn start_together(job: &Job, windows: &mut Windows) {
    let starts_with =
        |w: &Option<LocalWindow>, from: WindowStart| w.is_some_and(|w: LocalWindow| w.from == from);
    let members = |part: usize, call: usize| {
        let outcome = job.outcome(Member { part: part as u32, call: call as u32 });
        outcome.and_then(|o| job.instances().get(o.instance as usize)).map_or(&[][..], |i| job.members(i))
    };
    let mut late: Vec<Member> = Vec::new();
    for (part, calls) in windows.iter().enumerate() {
        let with_capture = calls.iter().enumerate().filter(|(_, w)| starts_with(w, WindowStart::Capture));
        let others = with_capture.flat_map(|(call, _)| members(part, call));
        late.extend(
            others.filter(|m| starts_with(&windows[m.part as usize][m.call as usize], WindowStart::Step)),
        );
    }
    for m in late {
        let start = job.parts[m.part as usize].capture.start;
        if let Some(w) = &mut windows[m.part as usize][m.call as usize] {
            (w.span.start, w.from) = (start.min(w.span.end), WindowStart::Capture);
        }
    }
}
