//! The local time of a rank before each of its calls: from its last meeting with the others to the moment when it is
//! ready.

use super::joined::Job;
use super::part::RankSummary;
use crate::units::{Ns, Span};
use rayon::prelude::*;

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

/// The windows of a part, by call. On the host only the first call after a meeting point has one, because the following
/// ones were submitted while others were running.
fn windows(job: &Job, part: u32) -> Vec<Option<LocalWindow>> {
    let p = &job.parts[part as usize];
    let mut out = vec![None; p.calls.calls.len()];
    for lane in 0..p.lanes.len() {
        let points = job.sync_points(part, lane);
        let mut before: Option<Ns> = None;
        for i in p.calls_by_ready(lane) {
            let t = p.readiness[i].ready;
            let (start, from) = match points.before(t) {
                Some((e, k)) => (e, WindowStart::Call(k as u32)),
                None => start_without_meeting(p, i),
            };
            if !p.calls.calls[i].on_host || before.is_none_or(|b| b <= start) {
                out[i] = Some(LocalWindow { lane: lane as u32, span: Span::new(start, t), from });
            }
            before = Some(t);
        }
    }
    out
}

/// Start of the local time before a call if the rank has not met the others before: the start of the step, or else of
/// the capture.
pub fn start_without_meeting(p: &RankSummary, call: usize) -> (Ns, WindowStart) {
    let t = p.readiness[call].ready;
    let step = p.step_of(&p.calls.calls[call]).map(|s| s.window.start);
    match step.filter(|s| *s <= t) {
        Some(s) => (s, WindowStart::Step),
        None => (p.capture.start.min(t), WindowStart::Capture),
    }
}

pub fn all_windows(job: &Job) -> Windows {
    (0..job.parts.len() as u32).into_par_iter().map(|p| windows(job, p)).collect()
}
