//! `pipeline_bubble`: exposed waits of one pipeline stage for another, in messages and in the collective that
//! ends them, beyond those that a late host explains. Where the chunks of the stages are known, it owns all
//! of the bubble but what a host explains, says why the pipeline waits, and gains what equal stages save; the
//! price of the schedule itself is a bound. A stage whose ranks are told as late is that cause, once.

use crate::account::TimePart;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::evidence::{Evidence, of_steps};
use crate::exposed_lane::{ExposedLane, KnownTransfers, TransferShare, TransferWords};
use crate::rule::{CauseFamily, CauseRule, LISTED_PCT, TransferRule};
use hta_analysis::pipeline::bubble_words::told;
use hta_analysis::pipeline::gaps::PipelineGaps;
use hta_analysis::pipeline::measured::Pipelines;
use hta_analysis::pipeline::stages::{StagedPipelines, WorstPipeline};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_job::delay::step_of;
use hta_job::exposed::{ExposedKind, ExposedPiece};
use hta_job::{Group, Job, Member, RankSummary};
use hta_trace::collective::Message;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: CauseRule = CauseRule {
    name: "pipeline_bubble",
    certainty: CauseCertainty::AtMost,
    is_price: true,
    evidence: "waits for messages between ranks that hand on the results of chunks to each other \
               (`hta pipeline`), in a group whose description says pipeline (pp), or whose ranks only send \
               to the next and back; and in the collective that follows them",
    owns: "S; where chunks are known all of the bubble: S, F and U of messages, and idle time of no cause",
    command: "pipeline",
    shown_by: "tests/it/job/planted/transfers.rs",
    family: CauseFamily::Transfer(TransferRule {
        part: TimePart::Waiting,
        takes,
        known,
        filter: |_| "kind IN ('send', 'recv')".to_string(),
        words,
    }),
    ..CauseRule::COMMUNICATION
};

/// What stages of a pipeline call. Waiting between them is one cause, whichever call it shows in.
const MESSAGES: &str = "send and recv";

/// Who exchanges messages as stages of a pipeline.
struct StageMessages {
    /// By group of a job: whether its ranks are stages.
    groups: Vec<bool>,
    /// By part: calls that are messages between ranks of a known pipeline.
    calls: Vec<BTreeSet<u32>>,
}

impl StageMessages {
    fn of(job: &Job) -> Self {
        let is_pipeline = |(i, g): (u32, &Group)| job.mesh.is_pipeline(i, g);
        let groups = (0..).zip(&job.matched.groups).map(is_pipeline).collect();
        let mut pipeline_of: BTreeMap<u32, usize> = BTreeMap::new();
        for (i, run) in Pipelines::of(job).runs.iter().enumerate() {
            run.chain.ranks.iter().for_each(|r| {
                pipeline_of.insert(r.rank, i);
            });
        }
        let is_inside = |m: &&Message| {
            let of = pipeline_of.get(&m.src);
            of.is_some() && of == pipeline_of.get(&m.dst)
        };
        let of_part = |p: &RankSummary| p.calls.edges.iter().filter(is_inside).map(|m| m.call).collect();
        Self { groups, calls: job.parts.iter().map(of_part).collect() }
    }

    /// Whether a call is a message between the stages of a pipeline.
    fn has(&self, job: &Job, m: Member) -> bool {
        let shape = &job.call(m).shape;
        let group = || job.matched.group_of(m.part, shape.group);
        let is_known = || self.calls.get(m.part as usize).is_some_and(|calls| calls.contains(&m.call));
        let is_named = || group().is_some_and(|g| self.groups.get(g as usize) == Some(&true));
        shape.kind.is_point_to_point() && (is_known() || is_named())
    }
}

/// What is known of the pipelines of the job.
fn known(context: &Context, _: &str) -> Option<KnownTransfers> {
    let staged = StagedPipelines::of(context.job);
    let told = told(context.job, &staged, |ranks| context.late.tell(ranks))?;
    let certainty = match told.gain {
        Some(_) if !told.is_open => CauseCertainty::Likely,
        _ => CauseCertainty::AtMost,
    };
    let words = CauseWords::new(told.what, told.why, told.action);
    let evidence = staged.worst().map(evidence).into_iter().collect();
    // A replay says more than the bound, unless what it offers is too small to be told.
    let is_told = |ns: &Ns| percent(*ns, context.account.length).is_some_and(|pct| pct >= LISTED_PCT);
    let gain = told.gain.or(told.replayed.filter(is_told));
    Some(KnownTransfers { ranks: told.ranks, gain, p_value: None, certainty, words, evidence })
}

/// The step of the pipeline that is told.
fn evidence(WorstPipeline { number, step: s, .. }: WorstPipeline) -> Evidence {
    let steps = of_steps(s.placed.step.as_slice());
    let only = if steps.is_empty() { String::new() } else { format!(" AND {steps}") };
    let idle = s.whole.len() - s.busy_mean();
    Evidence {
        table: "pipelines",
        filter: format!("pipeline = {number}{only}"),
        words: format!("bubble of {} in {}", fmt_ns(idle), fmt_ns(s.whole.len())),
    }
}

fn takes(lane: &ExposedLane, left: &[Ns]) -> Vec<TransferShare> {
    let (job, part) = (lane.job, lane.part);
    let (stages, bubbles) = (job.shared(StageMessages::of), job.shared(PipelineGaps::of));
    let ends = ends_of_pipelines(lane, &stages);
    let share = |(piece, (p, left)): (usize, (&ExposedPiece, &Ns))| {
        let member = Member { part, call: p.call? };
        let is_message = stages.has(job, member);
        let time = match bubbles.of_step(part, step_of(job, member)) {
            // The bubble ends with the last chunk: what the collective behind it waits for then is not in it.
            Some(bubble) if is_message || (p.what == ExposedKind::Sync && ends.contains(&member.call)) => {
                bubble.holds(job, part, p.span).min(*left)
            }
            None if p.what == ExposedKind::Sync && (is_message || ends.contains(&member.call)) => *left,
            _ => 0,
        };
        Some(TransferShare { piece, time, key: Some(MESSAGES.into()) })
    };
    lane.exposed.iter().zip(left).enumerate().filter_map(share).collect()
}

/// Calls of a lane of several stages of a pipeline, which come right after its messages: who is ready early
/// waits in them for the stages that are not.
fn ends_of_pipelines(lane: &ExposedLane, messages: &StageMessages) -> BTreeSet<u32> {
    let (job, part) = (lane.job, lane.part);
    let mut out = BTreeSet::new();
    let mut stages: Option<&Group> = None;
    for &i in lane.calls {
        let call = job.call(Member { part, call: i });
        let Some(group) = job.group_of(part, call) else { continue };
        if messages.has(job, Member { part, call: i }) {
            stages = Some(group);
        } else if let Some(pipeline) = stages.take() {
            let is_stage = |part: &u32| pipeline.parts().any(|p| p == *part);
            if group.parts().filter(is_stage).count() > 1 {
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
