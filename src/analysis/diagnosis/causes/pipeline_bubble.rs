//! `pipeline_bubble`: exposed waits of one pipeline stage for another, in messages and in the collective that
//! ends them, beyond those that a late host explains.

use crate::diagnosis::account::TimePart;
use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::certainty::CauseCertainty;
use crate::diagnosis::exposed_lane::{ExposedLane, TransferShare, TransferWords};
use crate::diagnosis::rule::{CauseFamily, CauseRule, TransferRule};
use crate::job::exposed::ExposedKind;
use crate::job::{Group, Job, Member};
use hta_base::units::Ns;
use hta_trace::collective::CollectiveCall;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: CauseRule = CauseRule {
    name: "pipeline_bubble",
    certainty: CauseCertainty::AtMost,
    evidence: "waits for messages in a group whose description says pipeline (pp), or whose ranks only send \
               to the next and back; and in the collective that follows them",
    owns: "S",
    shown_by: "tests/it/job/planted/transfers.rs",
    family: CauseFamily::Transfer(TransferRule {
        part: TimePart::Waiting,
        takes,
        filter: |_| "kind IN ('send', 'recv')".to_string(),
        words,
        ..TransferRule::DEFAULT
    }),
    ..CauseRule::COMMUNICATION
};

/// What stages of a pipeline call. Waiting between them is one cause, whichever call it shows in.
const MESSAGES: &str = "send and recv";

/// By group of a job: whether its ranks are stages of a pipeline.
struct PipelineGroups(Vec<bool>);

impl PipelineGroups {
    fn of(job: &Job) -> Self {
        Self(job.matched.groups.iter().map(|g| is_named_pipeline(g) || is_chain(job, g)).collect())
    }

    /// Whether a call is a message between the stages of a pipeline.
    fn has_message(&self, job: &Job, part: u32, call: &CollectiveCall) -> bool {
        let group = || job.matched.group_of(part, call.shape.group);
        call.shape.kind.is_point_to_point() && group().is_some_and(|g| self.0.get(g as usize) == Some(&true))
    }
}

fn takes(lane: &ExposedLane, left: &[Ns]) -> Vec<TransferShare> {
    let pipelines = lane.job.shared(PipelineGroups::of);
    let ends = ends_of_pipelines(lane, &pipelines);
    let is_message = |i: u32| {
        let call = lane.job.call(Member { part: lane.part, call: i });
        pipelines.has_message(lane.job, lane.part, call) || ends.contains(&i)
    };
    let waits = lane.exposed.iter().zip(left).enumerate().filter(|(_, (p, _))| p.what == ExposedKind::Sync);
    let of_stages = waits.filter(|(_, (p, _))| p.call.is_some_and(is_message));
    of_stages.map(|(piece, (_, left))| TransferShare { piece, time: *left, key: Some(MESSAGES) }).collect()
}

fn is_named_pipeline(g: &Group) -> bool {
    let text = g.desc.as_ref().or(g.name.as_ref()).map_or(String::new(), |t| t.to_ascii_lowercase());
    text.contains("pipe") || text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "pp")
}

/// Whether at least three ranks of a group only send to each other, each to the next and back, but the last
/// not to the first, as in a ring.
fn is_chain(job: &Job, g: &Group) -> bool {
    let mut neighbours: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (part, local) in &g.uses {
        let Some(p) = job.parts.get(*part as usize) else { return false };
        let is_of_group =
            |call: u32| p.calls.calls.get(call as usize).is_some_and(|c| c.shape.group == *local);
        if p.calls.calls.iter().any(|c| c.shape.group == *local && !c.shape.kind.is_point_to_point()) {
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

/// Calls of a lane of several stages of a pipeline, which come right after its messages: who is ready early
/// waits in them for the stages that are not.
fn ends_of_pipelines(lane: &ExposedLane, pipelines: &PipelineGroups) -> BTreeSet<u32> {
    let (job, part) = (lane.job, lane.part);
    let mut out = BTreeSet::new();
    let mut stages: Option<&Group> = None;
    for &i in lane.calls {
        let call = job.call(Member { part, call: i });
        let Some(group) = job.group_of(part, call) else { continue };
        if pipelines.has_message(job, part, call) {
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

fn words(w: &TransferWords) -> CauseWords {
    let (calls, ranks, time) = (&w.calls, w.ranks, &w.time);
    CauseWords::new(
        format!("Stages of a pipeline wait for each other in {calls} on {ranks}"),
        format!("A rank waits {time}"),
        "more micro-batches, interleaved stages, or move a layer from the slowest stage",
    )
}
