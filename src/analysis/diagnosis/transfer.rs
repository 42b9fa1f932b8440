//! Exposed communication by the call that runs: transfers that are queued behind others or slow, and waits between the
//! stages of a pipeline.
//!
//! ```text
//!   stream   [ all_reduce a ][ all_gather b           ]
//!   ready for b      ^       |-queued-|-slow-|-- bare -|
//! ```

use crate::diagnosis::account::{JobAccount, Lost, TimePart};
use crate::diagnosis::kind::CauseKind;
use crate::diagnosis::slow_groups::{self, SlowGroups};
use crate::efficiency::account::PartDevice;
use crate::job::exposed::{ExposedKind, ExposedPiece, divide};
use crate::job::{Group, Job, Member, is_queued_behind};
use hta_base::units::{Ns, Span};
use hta_trace::collective::CollectiveCall;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A call that starts this soon after another one on its stream was queued behind it, ns.
const QUEUED_MAX: Ns = 20_000;

/// What stages of a pipeline call.
const MESSAGES: &str = "send and recv";

/// What is lost in exposed communication of each cell, by step and place. Waits between stages are at most what the
/// owners of waiting leave.
pub fn find(job: &Job, account: &JobAccount) -> BTreeMap<(usize, PartDevice), Vec<Lost>> {
    let is_exposed = |part| account.sum(part) > 0;
    if !is_exposed(TimePart::Transfer) && !is_exposed(TimePart::Synchronizing) {
        return BTreeMap::new();
    }
    let known = KnownGroups {
        pipelines: job.matched.groups.iter().map(|g| is_named_pipeline(g) || is_chain(job, g)).collect(),
        slow: job.shared(SlowGroups::of),
    };
    let mut out: BTreeMap<(usize, PartDevice), Vec<Lost>> = BTreeMap::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        for (l, lane) in p.lanes.iter().enumerate() {
            let calls: Vec<u32> = p.calls_in(l, Span::new(Ns::MIN, Ns::MAX)).collect();
            let runs: Vec<_> = calls.iter().map(|call| job.run(Member { part, call: *call })).collect();
            let pieces = cut(job, part, &calls, &divide(&lane.exposed, &runs), &known);
            if pieces.is_empty() {
                continue;
            }
            for (s, step) in account.steps.iter().enumerate() {
                let place = (part, lane.device);
                let Some(windows) = step.windows.get(&place) else { continue };
                let lost = out.entry((s, place)).or_default();
                windows.iter().for_each(|w| add(job, part, &pieces, *w, lost));
            }
        }
    }
    out
}

/// What is known of the groups of a job.
struct KnownGroups {
    /// By group: whether its ranks are stages of a pipeline.
    pipelines: Vec<bool>,
    slow: Arc<SlowGroups>,
}

/// A stretch of exposed communication with its cause.
struct TransferPiece {
    span: Span,
    kind: CauseKind,
    call: u32,
    is_of_slow_group: bool,
}

/// Adds the time of pieces in a window to what is lost.
fn add(job: &Job, part: u32, pieces: &[TransferPiece], window: Span, lost: &mut Vec<Lost>) {
    let first = pieces.partition_point(|p| p.span.end <= window.start);
    for p in pieces[first..].iter().take_while(|p| p.span.start < window.end) {
        let call = job.call(Member { part, call: p.call });
        // Waiting between stages is one cause, whichever call it shows in.
        let key = match p.kind {
            CauseKind::PipelineBubble => MESSAGES,
            CauseKind::TransferBandwidth if p.is_of_slow_group => slow_groups::KEY,
            _ => call.kind.name(),
        };
        let time = p.span.intersect(window).len();
        if let Some(known) = lost.iter_mut().find(|l| l.kind == p.kind && l.key == key) {
            known.time += time;
            known.count += 1;
            continue;
        }
        let bubble = p.kind == CauseKind::PipelineBubble;
        let of = if bubble { TimePart::Synchronizing } else { TimePart::Transfer };
        let detail = group_of(job, part, call).and_then(|g| g.desc.clone().or_else(|| g.name.clone()));
        let detail = detail.unwrap_or_default();
        lost.push(Lost { part: of, kind: p.kind, key: key.to_string(), detail, time, count: 1 });
    }
}

fn group_of<'a>(job: &'a Job, part: u32, call: &CollectiveCall) -> Option<&'a Group> {
    job.matched.groups.get(job.matched.group_of(part, call.group)? as usize)
}

/// Divides exposed pieces of a lane (in order of time) by cause; pieces without a cause are left out.
fn cut(job: &Job, part: u32, calls: &[u32], exposed: &[ExposedPiece], known: &KnownGroups) -> Vec<TransferPiece> {
    let call = |i: u32| job.call(Member { part, call: i });
    let exposed_calls: std::collections::HashSet<u32> = exposed.iter().filter_map(|p| p.call).collect();
    // How long each call was delayed by another one that is exposed itself.
    let mut queued: HashMap<u32, Ns> = HashMap::new();
    let mut last: HashMap<Option<i64>, u32> = HashMap::new();
    for &i in calls {
        let Some(before) = last.insert(call(i).stream, i) else { continue };
        let (previous, c) = (call(before), call(i));
        let ready = job.ready(Member { part, call: i });
        let is_other = (previous.group, previous.kind) != (c.group, c.kind);
        let is_late = ready < previous.span.end && c.span.start - previous.span.end < QUEUED_MAX;
        if is_other && is_late && is_queued_behind(previous, c) && exposed_calls.contains(&before) {
            queued.insert(i, c.span.start - ready);
        }
    }
    let ends_pipeline = ends_of_pipelines(job, part, calls, &known.pipelines);
    // What is left of each call's delay, and of its time beyond the usual one.
    let mut slow: HashMap<u32, f64> = HashMap::new();
    let mut out = Vec::new();
    for p in exposed {
        let Some(i) = p.call else { continue };
        match p.what {
            ExposedKind::Unmatched => {}
            ExposedKind::Sync
                if is_between_stages(job, part, call(i), &known.pipelines) || ends_pipeline.contains(&i) =>
            {
                let kind = CauseKind::PipelineBubble;
                out.push(TransferPiece { span: p.span, kind, call: i, is_of_slow_group: false });
            }
            ExposedKind::Sync => {}
            ExposedKind::Transfer => {
                let left = queued.entry(i).or_default();
                let behind = (*left).clamp(0, p.span.len());
                *left -= behind;
                let member = Member { part, call: i };
                let of_family = known.slow.share(job, member);
                let own = || of_family.unwrap_or_else(|| known.slow.excess_share(job, member));
                let share = *slow.entry(i).or_insert_with(own);
                let excess = ((p.span.len() - behind) as f64 * share) as Ns;
                let ends = [p.span.start, p.span.start + behind, p.span.start + behind + excess];
                for (from, to, kind) in
                    [(ends[0], ends[1], CauseKind::TransferQueued), (ends[1], ends[2], CauseKind::TransferBandwidth)]
                {
                    if from < to {
                        let is_of_slow_group = of_family.is_some();
                        out.push(TransferPiece { span: Span::new(from, to), kind, call: i, is_of_slow_group });
                    }
                }
            }
        }
    }
    out
}

/// Whether a call is a message between the stages of a pipeline.
fn is_between_stages(job: &Job, part: u32, call: &CollectiveCall, pipelines: &[bool]) -> bool {
    let group = || job.matched.group_of(part, call.group);
    call.kind.is_point_to_point() && group().is_some_and(|g| pipelines.get(g as usize) == Some(&true))
}

fn is_named_pipeline(g: &Group) -> bool {
    let text = g.desc.as_ref().or(g.name.as_ref()).map_or(String::new(), |t| t.to_ascii_lowercase());
    text.contains("pipe") || text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "pp")
}

/// Whether at least three ranks of a group only send to each other, each to the next and back, but the last not to the
/// first, as in a ring.
fn is_chain(job: &Job, g: &Group) -> bool {
    let mut neighbours: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (part, local) in &g.uses {
        let Some(p) = job.parts.get(*part as usize) else { return false };
        let is_of_group = |call: u32| p.calls.calls.get(call as usize).is_some_and(|c| c.group == *local);
        if p.calls.calls.iter().any(|c| c.group == *local && !c.kind.is_point_to_point()) {
            return false;
        }
        for m in p.calls.edges.iter().filter(|m| is_of_group(m.call)) {
            neighbours.entry(m.src).or_default().insert(m.dst);
        }
    }
    let is_mutual =
        neighbours.iter().all(|(a, to)| to.iter().all(|b| neighbours.get(b).is_some_and(|n| n.contains(a))));
    let with = |n: usize| neighbours.values().filter(|to| to.len() == n).count();
    is_mutual && neighbours.len() > 2 && with(1) == 2 && with(1) + with(2) == neighbours.len()
}

/// Calls of a lane (in order of start) of several stages of a pipeline, which come right after its messages: who is
/// ready early waits in them for the stages that are not.
fn ends_of_pipelines(job: &Job, part: u32, calls: &[u32], pipelines: &[bool]) -> BTreeSet<u32> {
    let mut out = BTreeSet::new();
    let mut stages: Option<&Group> = None;
    for &i in calls {
        let call = job.call(Member { part, call: i });
        let Some(group) = group_of(job, part, call) else { continue };
        if is_between_stages(job, part, call, pipelines) {
            stages = Some(group);
        } else if let Some(pipeline) = stages.take() {
            let is_stage = |part: u32| pipeline.uses.iter().any(|(p, _)| *p == part);
            if group.uses.iter().filter(|(p, _)| is_stage(*p)).count() > 1 {
                out.insert(i);
            }
        }
    }
    out
}
