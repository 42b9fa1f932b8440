//! The tables of `pipeline`, and what is printed of them.

use crate::pipeline::bubble_words::shape_words;
use crate::pipeline::measured::{ChunkTimes, PipelineRun, PipelineStep};
use crate::pipeline::stages::StagedPipelines;
use crate::pipeline::what_if::{PipelineChange, changes};
use hta_base::table;
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_base::table::view::{Keep, Note, ViewSpec};
use hta_base::units::{Ns, percent};
use hta_base::wording::ranks::rank_list;
use hta_job::delay::StepKey;

table! {
    /// One row per pipeline and step. T is the time from the first start to the last end of a chunk; the
    /// bubble is T minus the mean busy time of a rank. schedule + imbalance + jitter + transfer + lag =
    /// bubble.
    pub struct PipelineTable, PipelineRow = "pipelines" by "pipeline, step, step_label" {
        pipeline: u32, "", "number of the pipeline, by its first rank";
        step: Option<u32>, "", "index of the step, where steps have no number";
        step_label;
        ranks: Text, "", "its ranks";
        schedule_name: Option<Text>, "", "the schedule whose order is the recorded one; null: an own order";
        rank_count: u32, "ranks", "ranks of the pipeline (p)";
        stages_per_rank: u32, "", "stages of a rank (v)";
        micro_batches: u32, "", "micro-batches (m)";
        t_ns: i64, "ns", "first start to last end of a chunk", "time";
        busy_mean_ns: i64, "ns", "mean time of a rank in chunks, of the recorded ranks";
        bubble_ns: i64, "ns", "t minus busy_mean";
        bubble_pct: Option<f64>, "%", "of t", "bubble";
        schedule_ns: Option<i64>, "ns",
            "bubble of the recorded order with equal chunks and no transfer; null without reasons (see note)";
        imbalance_ns: Option<i64>, "ns", "added by stages of unequal length";
        jitter_ns: Option<i64>, "ns", "added by single chunks of other length; may be negative";
        transfer_ns: Option<i64>, "ns",
            "added by messages beyond waiting; null where that is not known, and then part of lag";
        lag_ns: Option<i64>, "ns", "the rest: launches, the host, other work";
        ideal_pct: Option<f64>, "%", "bubble of the recorded order with equal chunks, of its own time";
        input_count: u64, "", "inputs of chunks";
        violation_count: u64, "", "inputs that end after their chunk has started";
        missing_ranks: Option<Text>, "", "ranks that are not recorded";
        note: Option<Text>, "", "why the bubble is not divided by reason";
        is_typical: bool, "", "the step of the pipeline whose bubble is in the middle";
        shape: Text, "", "schedule, stages and micro-batches in words", "schedule";
        schedule_pct: Option<f64>, "%", "schedule_ns, of t", "of it by the order";
        imbalance_pct: Option<f64>, "%", "imbalance_ns, of t", "unequal stages";
        jitter_pct: Option<f64>, "%", "jitter_ns, of t", "jitter";
        transfer_pct: Option<f64>, "%", "transfer_ns, of t", "transfer";
        lag_pct: Option<f64>, "%", "lag_ns, of t", "lag";
    }
}

table! {
    /// One row per rank of a pipeline and step; busy + fill + steady + drain = t of the pipeline.
    pub struct PipelineRanks, PipelineRankRow = "pipeline_ranks" by "pipeline, step, step_label, position" {
        pipeline: u32, "", "number of the pipeline";
        step: Option<u32>, "", "index of the step, where steps have no number";
        step_label;
        position: u32, "", "place in the pipeline, from 0";
        rank;
        busy_ns: i64, "ns", "time in chunks";
        fill_ns: i64, "ns", "idle before its first backward chunk";
        steady_ns: i64, "ns", "idle between";
        drain_ns: i64, "ns", "idle after its last forward chunk";
        bubble_pct: Option<f64>, "%", "fill + steady + drain, of t", "bubble";
        is_worst: bool, "", "of the typical step of the pipeline with the largest bubble";
    }
}

table! {
    /// One row per chunk: what a rank computes for a micro-batch in a stage. Times are on the common axis of
    /// the ranks. Before the chunk, wait_input + transfer + lag is the gap since the chunk before it.
    pub struct PipelineChunks, PipelineChunkRow = "pipeline_chunks" by
        "pipeline, step, step_label, rank, start_ns" {
        pipeline: u32, "", "number of the pipeline";
        step: Option<u32>, "", "index of the step, where steps have no number";
        step_label;
        rank;
        stage: Option<u32>, "", "stage; null if the stages of a rank cannot be told apart";
        kind: Text, "", "F forward, B backward, I and W its parts for inputs and weights";
        micro_batch: Option<u32>, "", "micro-batch";
        with_stage: Option<u32>, "", "stage of the backward chunk at the same time";
        with_micro_batch: Option<u32>, "", "its micro-batch";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
        busy_ns: i64, "ns", "time that no earlier chunk of the rank covers";
        inner_wait_ns: i64, "ns", "inside, waiting for other ranks without computing";
        inner_idle_ns: i64, "ns", "inside, the device does nothing";
        wait_input_ns: Option<i64>, "ns", "before it, until the last input is computed";
        transfer_ns: Option<i64>, "ns", "before it, until that input has arrived";
        lag_ns: Option<i64>, "ns", "before it, the rest";
        ideal_start_ns: Option<i64>, "ns", "start with the order alone: equal chunks of a kind, no transfer";
        ideal_end_ns: Option<i64>, "ns", "end with the order alone";
        work_count: u32, "", "kernels, or operators where there is no device";
        source: Text, "", "annotation, or run: computing of one direction between messages";
    }
}

table! {
    /// One row per change of a pipeline that was replayed, with the medians of its chunks by stage and kind.
    pub struct PipelineWhatIf, PipelineChangeRow = "pipeline_what_if" by "pipeline, position" {
        pipeline: u32, "", "number of the pipeline";
        change: Text, "",
            "what changes: equal stages, move work of the longest stage, shorten the longest stage, \
             micro-batches, stages per rank, transfers";
        value: Text, "", "to what";
        replay_ns: i64, "ns", "time of the changed pipeline in the replay, without transfers and lag";
        gain_ns: Option<i64>, "ns", "what a step saves; null if it has another number of micro-batches";
        step_ns: Option<i64>, "ns", "median t minus the gain", "then";
        per_micro_batch_ns: i64, "ns", "replayed time of a micro-batch", "a micro-batch";
        needs: Text, "", "what the change needs";
        replay_error_pct: Option<f64>, "%", "replay of the recorded order against the median t";
        is_worst: bool, "", "of the pipeline with the largest bubble";
    }
}

/// In the order in which the command writes them.
pub const ALL: &[&TableSpec] =
    &[PipelineTable::SPEC, PipelineRanks::SPEC, PipelineChunks::SPEC, PipelineWhatIf::SPEC];

/// The one of the views below which notes stand.
pub(super) const BUBBLE: &str = "Bubble of each pipeline, in its typical step";
/// The ranks of the worst pipeline.
pub(super) const RANKS: &str = "Ranks of the pipeline with the largest bubble";

pub(super) const VIEWS: [ViewSpec; 3] = [
    ViewSpec {
        title: BUBBLE,
        columns: &[
            "pipeline?",
            "ranks",
            "missing_ranks?",
            "shape",
            "t_ns",
            "bubble_pct",
            "schedule_pct",
            "imbalance_pct",
            "jitter_pct",
            "transfer_pct",
            "lag_pct",
        ],
        keep: &[Keep::Positive("is_typical")],
        ..ViewSpec::of(PipelineTable::SPEC)
    },
    ViewSpec {
        title: RANKS,
        columns: &["pipeline?", "rank", "busy_ns", "fill_ns", "steady_ns", "drain_ns", "bubble_pct"],
        keep: &[Keep::Positive("is_worst")],
        notes: &[Note::Text("fill: before the first backward chunk; drain: after the last forward chunk")],
        ..ViewSpec::of(PipelineRanks::SPEC)
    },
    ViewSpec {
        title: "What that pipeline would take with other stages or micro-batches",
        columns: &["pipeline?", "change", "value", "gain_ns", "step_ns", "per_micro_batch_ns", "needs"],
        keep: &[Keep::Positive("is_worst")],
        notes: &[Note::Text(
            "replays with the median chunks of each stage, without transfers and lag: about",
        )],
        ..ViewSpec::of(PipelineWhatIf::SPEC)
    },
];

pub(super) fn build(job: &hta_job::Job, staged: &StagedPipelines) -> Vec<Batch> {
    let (mut table, mut ranks, mut chunks, mut what_if) = (
        PipelineTable::default(),
        PipelineRanks::default(),
        PipelineChunks::default(),
        PipelineWhatIf::default(),
    );
    let worst = staged.worst().map(|worst| worst.number as u32);
    for (pipeline, run) in (0u32..).zip(&staged.pipelines.runs) {
        let (typical, is_worst) = (run.typical(), worst == Some(pipeline));
        for s in &run.steps {
            let is_typical = typical.is_some_and(|typical| std::ptr::eq(typical, s));
            push_step(&mut table, pipeline, run, s, is_typical);
            push_ranks(&mut ranks, pipeline, s, is_worst && is_typical);
            push_chunks(&mut chunks, job, pipeline, s);
        }
        changes(run).iter().for_each(|c| push_change(&mut what_if, pipeline, c, is_worst));
    }
    vec![table.finish(), ranks.finish(), chunks.finish(), what_if.finish()]
}

fn push_step(
    table: &mut PipelineTable,
    pipeline: u32,
    run: &PipelineRun,
    s: &PipelineStep,
    is_typical: bool,
) {
    let (step, step_label) = StepKey::cells(s.placed.step);
    let all: Vec<u32> = run.chain.ranks.iter().map(|r| r.rank).collect();
    let (missing, reasons) = (run.chain.missing(), s.reasons.as_ref().ok());
    let note = s.reasons.as_ref().err().map(|why| why.words());
    let missing = (!missing.is_empty()).then(|| rank_list(&missing));
    let busy_mean_ns = s.busy_mean();
    let of_t = |ns: Option<Ns>| ns.and_then(|ns| percent(ns, s.whole.len()));
    table.push(PipelineRow {
        pipeline,
        step,
        step_label,
        ranks: &in_order(&all),
        schedule_name: s.placed.schedule.map(|k| k.name()),
        rank_count: s.placed.shape.p,
        stages_per_rank: s.placed.shape.v,
        micro_batches: s.placed.shape.m,
        t_ns: s.whole.len(),
        busy_mean_ns,
        bubble_ns: s.whole.len() - busy_mean_ns,
        bubble_pct: s.bubble_pct(),
        schedule_ns: reasons.map(|r| r.schedule),
        imbalance_ns: reasons.map(|r| r.imbalance),
        jitter_ns: reasons.map(|r| r.jitter),
        transfer_ns: reasons.and_then(|r| r.transfer),
        lag_ns: reasons.map(|r| r.lag),
        ideal_pct: reasons.and_then(|r| percent(r.schedule, r.ideal_time)),
        input_count: s.inputs,
        violation_count: s.violations,
        missing_ranks: missing.as_deref(),
        note: note.as_deref(),
        is_typical,
        shape: &shape_words(s),
        schedule_pct: of_t(reasons.map(|r| r.schedule)),
        imbalance_pct: of_t(reasons.map(|r| r.imbalance)),
        jitter_pct: of_t(reasons.map(|r| r.jitter)),
        transfer_pct: of_t(reasons.and_then(|r| r.transfer)),
        lag_pct: of_t(reasons.map(|r| r.lag)),
    });
}

/// Ranks in the order of their stages.
pub(super) fn in_order(ranks: &[u32]) -> String {
    if ranks.is_sorted() {
        rank_list(ranks)
    } else {
        ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    }
}

fn push_ranks(table: &mut PipelineRanks, pipeline: u32, s: &PipelineStep, is_worst: bool) {
    let (step, step_label) = StepKey::cells(s.placed.step);
    for ((position, rank), parts) in (0u32..).zip(&s.placed.ranks).zip(&s.positions) {
        let Some(parts) = parts else { continue };
        table.push(PipelineRankRow {
            pipeline,
            step,
            step_label,
            position,
            rank: rank.at.rank,
            busy_ns: parts.busy,
            fill_ns: parts.fill,
            steady_ns: parts.steady,
            drain_ns: parts.drain,
            bubble_pct: percent(parts.bubble(), s.whole.len()),
            is_worst,
        });
    }
}

fn push_chunks(table: &mut PipelineChunks, job: &hta_job::Job, pipeline: u32, s: &PipelineStep) {
    let (step, step_label) = StepKey::cells(s.placed.step);
    // In order of rank, which need not be that of the stages.
    let mut ranks: Vec<_> = s.placed.ranks.iter().zip(&s.times).enumerate().collect();
    ranks.sort_by_key(|(_, (r, _))| r.at.rank);
    for (position, (rank, times)) in ranks {
        let ideal = s.ideal.as_ref().and_then(|ranks| ranks.get(position));
        let part = rank.at.part.and_then(|part| job.parts.get(part as usize));
        for (i, ((c, index), t)) in rank.chunks.iter().zip(&rank.index).zip(times).enumerate() {
            let ideal = ideal.and_then(|spans| spans.get(i));
            let known = |n: u32| s.placed.has_stages.then_some(n);
            let (key, t): (_, &ChunkTimes) = (c.chunk.first, t);
            let of_part = part.and_then(|p| p.chunks.get(*index));
            table.push(PipelineChunkRow {
                pipeline,
                step,
                step_label,
                rank: rank.at.rank,
                stage: known(key.stage),
                kind: key.kind.letter(),
                micro_batch: known(key.batch),
                with_stage: c.chunk.with.map(|w| w.stage),
                with_micro_batch: c.chunk.with.map(|w| w.batch),
                start_ns: c.span.start,
                end_ns: c.span.end,
                busy_ns: c.span.len(),
                inner_wait_ns: t.inner_wait,
                inner_idle_ns: t.inner_idle,
                wait_input_ns: t.before.map(|b| b.0),
                transfer_ns: t.before.map(|b| b.1),
                lag_ns: t.before.map(|b| b.2),
                ideal_start_ns: ideal.map(|s| s.start),
                ideal_end_ns: ideal.map(|s| s.end),
                work_count: of_part.map_or(0, |c| c.work_count),
                source: if of_part.is_some_and(|c| c.is_named) { "annotation" } else { "run" },
            });
        }
    }
}

fn push_change(table: &mut PipelineWhatIf, pipeline: u32, c: &PipelineChange, is_worst: bool) {
    table.push(PipelineChangeRow {
        pipeline,
        change: c.change,
        value: &c.value,
        replay_ns: c.replay,
        gain_ns: c.gain,
        step_ns: c.step,
        per_micro_batch_ns: c.per_micro_batch,
        needs: c.needs,
        replay_error_pct: c.replay_error_pct,
        is_worst,
    });
}
