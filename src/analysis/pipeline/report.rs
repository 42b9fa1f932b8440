//! What `pipeline` says below its views.

use crate::api::{TOP, ViewNote};
use crate::pipeline::measured::{PipelineRun, PipelineStep};
use crate::pipeline::stages::{LongestStage, StageVerdict, StagedPipelines};
use crate::pipeline::tables::{BUBBLE, RANKS, in_order};
use hta_job::{Job, RankSummary};

/// The lines below the views that follow from the job.
pub(super) fn notes(job: &Job, staged: &StagedPipelines) -> Vec<ViewNote> {
    let pipelines = &staged.pipelines;
    let mut lines: Vec<String> = Vec::new();
    for (run, s) in pipelines.runs.iter().take(TOP).filter_map(|run| Some((run, run.typical()?))) {
        if let Err(why) = &s.reasons {
            let ranks: Vec<u32> = run.chain.ranks.iter().map(|r| r.rank).collect();
            lines.push(format!("pipeline of ranks {}: {}", in_order(&ranks), why.words()));
        }
    }
    lines.extend(pipelines.runs.iter().chain(&pipelines.unknown).filter_map(left_out));
    if pipelines.runs.is_empty() && pipelines.unknown.is_empty() {
        lines.push(format!("no pipeline found: {}", why_none(job)));
    }
    lines.extend(staged.runs().take(TOP).filter_map(|(run, stage)| longest_stage(stage?, run.typical()?)));
    let mut notes: Vec<ViewNote> = lines.into_iter().map(|text| ViewNote { view: BUBBLE, text }).collect();
    let order = staged.worst().and_then(|worst| own_order(worst.step));
    notes.extend(order.map(|text| ViewNote { view: RANKS, text }));
    notes
}

fn longest_stage(stage: &LongestStage, s: &PipelineStep) -> Option<String> {
    let why = match stage.verdict {
        StageVerdict::TooMuchWork => "it has more work",
        StageVerdict::SlowRank => "the same stage of other pipelines is not longer: its rank is slow",
        StageVerdict::CannotTell => {
            "whether its work or its device is why, one pipeline with equal kernels cannot tell"
        }
    };
    s.reasons.is_ok().then(|| {
        format!(
            "stage {} (rank {}) takes {:.2} times as long as the usual stage: {why}",
            stage.stage, stage.rank, stage.ratio
        )
    })
}

/// The order of the chunks of the first rank, where it is that of no known schedule.
fn own_order(s: &PipelineStep) -> Option<String> {
    let is_own = s.placed.schedule.is_none() && s.placed.has_stages;
    let first = s.placed.ranks.iter().find(|r| is_own && r.at.part.is_some())?;
    let order: Vec<String> = first.chunks.iter().take(32).map(|c| c.chunk.shown()).collect();
    Some(format!("order of the first rank: {}", order.join(" ")))
}

/// Why no ranks are stages of a pipeline.
fn why_none(job: &Job) -> String {
    let has_messages = |p: &&RankSummary| p.calls.calls.iter().any(|c| c.shape.kind.is_point_to_point());
    let mut open: Vec<u32> = Vec::new();
    let mut count = 0;
    for p in job.parts.iter().filter(has_messages) {
        count += 1;
        open.extend(p.chunks.is_empty().then_some(p.rank));
    }
    match (count, &open[..]) {
        (0, _) => "no rank sends or receives messages".to_string(),
        (_, []) => "ranks exchange messages, but not as stages do, which send results of forward chunks to \
                    one rank and of backward chunks to another"
            .to_string(),
        _ => format!(
            "ranks exchange messages, but the forward and backward chunks of {} cannot be told: record \
             operators (ProfilerActivity.CPU), which show where autograd runs",
            job.words.plain(&open)
        ),
    }
}

/// Which steps of a pipeline were not measured, and why.
fn left_out(run: &PipelineRun) -> Option<String> {
    let steps: Vec<String> = run.left_out.iter().flatten().map(|key| key.shown()).collect();
    let which = match (run.left_out.len(), steps.len()) {
        (0, _) => return None,
        (_, 0) => "it is".to_string(),
        (1, _) => format!("step {} is", steps.concat()),
        (n, _) if n <= 8 => format!("steps {} are", steps.join(", ")),
        (n, _) => format!("{n} steps are"),
    };
    let ranks: Vec<u32> = run.chain.ranks.iter().map(|r| r.rank).collect();
    Some(format!(
        "pipeline of ranks {}: {which} left out, because its ranks do not have equally many forward and \
         backward chunks there",
        in_order(&ranks)
    ))
}
