//! The bubble of a pipeline in words, for its own report and for the diagnosis.

use crate::pipeline::bubble::ReasonParts;
use crate::pipeline::measured::{PipelineRun, PipelineStep, Pipelines};
use crate::pipeline::placed::PlacedRank;
use crate::pipeline::repairs::{StageRepairs, saved};
use crate::pipeline::stages::{LongestStage, StageVerdict, StagedPipelines, WorstPipeline};
use crate::pipeline::what_if::{EQUAL_STAGES, MORE_CHUNKS, MOVE_WORK, PipelineChange, changes};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::ranks::rank_list;
use hta_job::Job;
use std::collections::BTreeMap;

/// The schedule with its size: `1F1B, 4 stages x 8 micro-batches`.
pub(crate) fn shape_words(s: &PipelineStep) -> String {
    let shape = s.placed.shape;
    let name = match s.placed.schedule {
        Some(schedule) => schedule.name(),
        None if s.placed.has_stages => "own schedule",
        None => "unknown schedule",
    };
    match (s.placed.has_stages, shape.v) {
        (false, _) => format!("{name}, {} ranks, {} forward chunks a rank", shape.p, shape.m),
        (true, 1) => format!("{name}, {} stages x {} micro-batches", shape.p, shape.m),
        (true, v) => {
            format!("{name}, {} stages on {} ranks x {} micro-batches", shape.p * v, shape.p, shape.m)
        }
    }
}

/// What is said of the longest stage, and of those that are long like it.
pub(crate) fn stage_words(stage: &LongestStage) -> String {
    let all: Vec<u32> = stage.all().into_keys().collect();
    let (s, its) = if all.len() == 1 { ("", "its device") } else { ("s", "their devices") };
    let named = format!("stage{s} {}", rank_list(&all));
    match stage.verdict {
        StageVerdict::TooMuchWork if stage.is_of_all => format!("{named} of every replica too heavy"),
        StageVerdict::TooMuchWork => format!("{named} too heavy"),
        StageVerdict::SlowRank => format!("{named} slow on rank {}", stage.rank),
        StageVerdict::CannotTell => format!("{named} too heavy or {its} slow"),
    }
}

/// How many times as large as jitter a gain must be.
const JITTER_TIMES: Ns = 3;

/// Smallest imbalance for which a stage is named, percent of T.
const NAMED_PCT: f64 = 1.0;

/// Whether stages are unequal beyond what single chunks differ: some stage is always the longest.
fn is_clear(imbalance: Ns, jitter: Ns, whole: Ns) -> bool {
    imbalance >= JITTER_TIMES * jitter && percent(imbalance, whole).is_some_and(|pct| pct >= NAMED_PCT)
}

/// The parts of the bubble that are at least a tenth of a percent, as shares of T.
pub(crate) fn parts_words(s: &PipelineStep, stage: Option<&LongestStage>) -> Option<String> {
    let parts = s.reasons.as_ref().ok()?;
    let is_named = is_clear(parts.imbalance, parts.jitter.abs(), s.whole.len());
    let imbalance = stage.filter(|_| is_named).map_or("imbalance".to_string(), stage_words);
    let all = [
        ("schedule".to_string(), parts.schedule),
        (imbalance, parts.imbalance),
        ("jitter".to_string(), parts.jitter),
        ("transfer".to_string(), parts.transfer.unwrap_or(0)),
        ("lag".to_string(), parts.lag),
    ];
    let shown = all.into_iter().filter_map(|(name, ns)| {
        let pct = percent(ns, s.whole.len()).filter(|p| p.abs() >= 0.1)?;
        Some(format!("{name} {pct:.1}"))
    });
    Some(shown.collect::<Vec<_>>().join(", "))
}

/// What the diagnosis says of the pipelines of a job: of the one with the largest bubble, and of them all.
#[derive(Debug, Clone)]
pub struct ToldBubble {
    /// Recorded ranks of all pipelines.
    pub ranks: Vec<u32>,
    pub what: String,
    pub why: String,
    pub action: String,
    /// What equal stages save over all steps, or a rank that is slow no more, ns; `None` if the stages are as
    /// equal as single chunks.
    pub gain: Option<Ns>,
    /// What a replay with equal stages saves then, which may be chance, ns.
    pub replayed: Option<Ns>,
    /// Whether the gain takes for work what may be a slow device.
    pub is_open: bool,
}

/// `None` without pipelines. `is_told`: whether ranks that make a stage long are a cause of their own.
pub fn told(job: &Job, staged: &StagedPipelines, is_told: impl Fn(&[u32]) -> bool) -> Option<ToldBubble> {
    let WorstPipeline { run, step: s, stage, .. } = staged.worst()?;
    let pipelines = &staged.pipelines;
    let mut ranks: Vec<u32> = pipelines
        .runs
        .iter()
        .flat_map(|r| &r.chain.ranks)
        .filter(|r| r.part.is_some())
        .map(|r| r.rank)
        .collect();
    ranks.sort_unstable();
    let parts = parts_words(s, stage).map_or(String::new(), |parts| format!(" ({parts})"));
    let mut what = format!("Pipeline {}: bubble {}{parts}", shape_words(s), fmt_pct(s.bubble_pct()));
    let is_of_late =
        stage.is_some_and(|stage| is_told(&[stage.rank]) || is_told(&ranks_of_stage(pipelines, stage.stage)));
    let by_stage = stage.filter(|_| !is_of_late).and_then(|stage| match stage.verdict {
        StageVerdict::SlowRank => gain_of_repair(pipelines, run, stage),
        _ => gain_of_equal_stages(run),
    });
    // What may be a slow device saves at most what a device as fast as the others does.
    let is_open = stage.is_some_and(|s| s.verdict == StageVerdict::CannotTell);
    let long = stage.filter(|_| by_stage.is_some()).map_or(BTreeMap::new(), LongestStage::all);
    let repairs = StageRepairs::of(job, run, (&long, pipelines.runs.len() == 1), |stage| {
        is_told(&ranks_of_stage(pipelines, stage))
    });
    let of_stages = by_stage.max(if is_open { repairs.of_stages } else { repairs.of_steps });
    let gain = of_stages.into_iter().chain(repairs.of_link).reduce(|a, b| a + b);
    let ideal = s.reasons.as_ref().ok().and_then(|r| percent(r.schedule, r.ideal_time));
    if by_stage.is_some() && stage.is_some_and(|s| s.verdict != StageVerdict::SlowRank) {
        what.push_str(&format!("; equal stages: {}", fmt_pct(ideal)));
    }
    repairs.words.iter().for_each(|words| what.push_str(&format!("; {words}")));
    let heavy = stage.filter(|stage| stage.verdict == StageVerdict::TooMuchWork && by_stage.is_some());
    let heavy = heavy.map_or(String::new(), |stage| {
        let who = job.words.named(&ranks_of_stage(pipelines, stage.stage));
        format!("Stage {} is on {who} and takes {:.2} times as long as usual; ", stage.stage, stage.ratio)
    });
    let why = match &s.reasons {
        Err(why) => why.words(),
        Ok(_) => format!(
            "{heavy}{} idles {} of {}{}",
            if heavy.is_empty() { "Each rank" } else { "each rank" },
            fmt_ns(s.whole.len() - s.busy_mean()),
            fmt_ns(s.whole.len()),
            if pipelines.runs.len() > 1 {
                format!(", in the worst of {} pipelines", pipelines.runs.len())
            } else {
                String::new()
            }
        ),
    };
    let is_open = is_open || gain > by_stage;
    let replayed = if gain.is_none() && !is_of_late { gain_by_replay(run) } else { None };
    let action = action(run, s, (stage, is_of_late), by_stage);
    Some(ToldBubble { ranks, what, why, action, gain, replayed, is_open })
}

/// What a replay with equal stages saves over all steps.
fn gain_by_replay(run: &PipelineRun) -> Option<Ns> {
    let equal = changes(run).into_iter().find(|c| c.change == EQUAL_STAGES)?;
    equal.gain.filter(|ns| *ns > 0).map(|ns| ns.saturating_mul(run.steps.len() as Ns))
}

/// The ranks of all pipelines that have a stage, ascending.
fn ranks_of_stage(pipelines: &Pipelines, stage: u32) -> Vec<u32> {
    let has = |r: &&PlacedRank| r.chunks.iter().any(|c| c.chunk.first.stage == stage);
    let of_run = |run: &PipelineRun| -> Vec<u32> {
        let placed = run.typical().map(|s| &s.placed.ranks);
        placed.into_iter().flatten().filter(has).map(|r| r.at.rank).collect()
    };
    let mut ranks: Vec<u32> = pipelines.runs.iter().flat_map(of_run).collect();
    ranks.sort_unstable();
    ranks
}

/// The gain of equal stages over all steps of a pipeline.
fn gain_of_equal_stages(run: &PipelineRun) -> Option<Ns> {
    let known = || run.steps.iter().filter_map(|s| Some((s.whole.len(), s.reasons.as_ref().ok()?)));
    let whole: Ns = known().map(|(whole, _)| whole).sum();
    let (gain, jitter) = known().fold((0, 0), |(gain, jitter), (_, r): (Ns, &ReasonParts)| {
        (gain + r.imbalance, jitter + r.jitter.abs())
    });
    is_clear(gain, jitter, whole).then_some(gain)
}

/// The gain over all steps if the longest stage took as long as in the other pipelines, which the step then
/// waits for.
fn gain_of_repair(pipelines: &Pipelines, run: &PipelineRun, stage: &LongestStage) -> Option<Ns> {
    let factor = stage.to_replicas.filter(|f| *f > 1.0)?;
    let mut gain = 0;
    for s in run.steps.iter().filter(|s| s.reasons.is_ok()) {
        let others = pipelines.runs.iter().filter(|other| other.chain != run.chain);
        let others = others.flat_map(|o| o.steps.iter().find(|step| step.placed.step == s.placed.step));
        let longest = others.map(|other| other.whole.len()).max().unwrap_or(0);
        let saved = saved(s, |of| if of == stage.stage { factor } else { 1.0 })?;
        gain += saved.min(s.whole.len() - longest).max(0);
    }
    (gain > 0).then_some(gain)
}

/// `is_told`: the longest stage is a cause of its own, which says what to do about it.
fn action(
    run: &PipelineRun,
    s: &PipelineStep,
    (stage, is_told): (Option<&LongestStage>, bool),
    gain: Option<Ns>,
) -> String {
    let changes = changes(run);
    let find = |name: &str| changes.iter().find(|c| c.change == name);
    let after = |c: &PipelineChange| c.step.map_or(String::new(), fmt_ns);
    let mut out = Vec::new();
    let slow = stage.filter(|s| s.verdict == StageVerdict::SlowRank && !is_told);
    out.extend(slow.map(|s| {
        let factor =
            s.to_replicas.map_or(String::new(), |f| format!(": {f:.2} x the time of this stage elsewhere"));
        format!("check the device and the host of rank {}{factor}", s.rank)
    }));
    if let (Some(stage), Some(c), Some(_), None) = (stage, find(MOVE_WORK), gain, slow)
        && let Some(saved) = c.gain.filter(|ns| *ns > 0)
    {
        let share = fmt_pct(percent(saved, s.whole.len()));
        out.push(format!(
            "move 1/10 of stage {} to another stage: {} -> {} ({share})",
            stage.stage,
            fmt_ns(s.whole.len()),
            after(c)
        ));
    }
    if let (None, Some(c), false) = (gain, find(EQUAL_STAGES), is_told)
        && c.gain.is_some_and(|ns| ns > 0)
    {
        out.push(format!("stages of equal work: about {}", after(c)));
    }
    if let Some(c) = find(MORE_CHUNKS).filter(|c| c.gain.is_some_and(|ns| ns > 0)) {
        let stages = c.value.split(',').next().unwrap_or_default();
        let stages = if stages == "2" { "two" } else { stages };
        out.push(format!("{stages} chunks a rank: about {}, more memory", after(c)));
    }
    if out.is_empty() {
        out.push(
            "more micro-batches, interleaved stages, or move a layer from the slowest stage".to_string(),
        );
    }
    if let Some(stage) = stage.filter(|s| s.verdict == StageVerdict::CannotTell && gain.is_some()) {
        out.push(format!("if its layers are those of the others, check the device of rank {}", stage.rank));
    }
    out.join("; ")
}
