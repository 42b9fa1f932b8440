//! A pipeline in one step with its bubble by position and by reason, and why there are no reasons.

use crate::pipeline::bubble::{
    PositionParts, ReasonParts, TimedChunk, by_position, by_reason, extent_of, ideal_spans, order_violations,
};
use crate::pipeline::chain::{ChunkMessage, StageChain, chains, sent_by_chunks};
use crate::pipeline::placed::{CLOCK_SLACK, PlacedPipeline, graph_of, placed_steps};
use crate::pipeline::replay::{ChunkPlace, OrderGraph};
use crate::pipeline::transfers::Transfers;
use hta_base::order_statistics::median_of_sorted;
use hta_base::units::{Ns, Span, percent};
use hta_base::wording::ranks::ranks_named;
use hta_facts::chunks::PipelineChunk;
use hta_job::delay::StepKey;
use hta_job::exposed::{ExposedKind, ExposedPiece, divide};
use hta_job::{Job, Member};
use hta_trace::rank_trace::StepFilter;
use std::sync::Arc;

/// Why the bubble of a pipeline is not divided by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoReasons {
    MissingRanks(Vec<u32>),
    StagesUnknown,
    /// Clocks differ by so much, ns.
    Clocks(Ns),
    /// Inputs that end after their chunk has started, of all.
    Violations(u64, u64),
    Circle,
}

impl NoReasons {
    /// The reason in words, with what to do.
    pub(crate) fn words(&self) -> String {
        match self {
            NoReasons::MissingRanks(ranks) => {
                let (who, are) = (ranks_named(ranks), if ranks.len() == 1 { "is" } else { "are" });
                format!(
                    "{who} {are} not recorded, so the bubble cannot be divided by reason: record all ranks"
                )
            }
            NoReasons::StagesUnknown => {
                "the stages of a rank cannot be told apart, because the order of its \
                 chunks is that of no known schedule: name them (record_function) or use a schedule of \
                 torch.distributed.pipelining"
                    .to_string()
            }
            NoReasons::Clocks(ns) => format!(
                "the clocks of its ranks agree to {} only, which is too little to compare them: synchronize \
                 clocks, or record collectives of all ranks",
                hta_base::units::fmt_ns(*ns)
            ),
            NoReasons::Violations(bad, all) => format!(
                "{bad} of {all} chunks start before their input ends, so that the order of the chunks is not \
                 understood"
            ),
            NoReasons::Circle => {
                "chunks wait for each other in a circle, so that the order of the chunks is \
                 not understood"
                    .to_string()
            }
        }
    }
}

/// What happened between the end of a rank's chunk and the start of the next, and inside, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChunkTimes {
    pub(crate) inner_wait: Ns,
    pub(crate) inner_idle: Ns,
    /// Before the chunk: for the end of an input; the rest of its transfer; and what is left. They sum to the
    /// gap. `None` without reasons.
    pub(crate) before: Option<(Ns, Ns, Ns)>,
}

/// A pipeline in one step.
#[derive(Debug, Clone)]
pub struct PipelineStep {
    pub placed: PlacedPipeline,
    pub whole: Span,
    /// By position of the rank; `None` where it is not recorded.
    pub(crate) positions: Vec<Option<PositionParts>>,
    pub(crate) reasons: Result<ReasonParts, NoReasons>,
    pub(crate) inputs: u64,
    pub(crate) violations: u64,
    pub(crate) times: Vec<Vec<ChunkTimes>>,
    /// Where the chunks would be with the order alone; `None` without reasons.
    pub(crate) ideal: Option<Vec<Vec<Span>>>,
    /// What messages take; `None` where that is part of the lag.
    pub(crate) transfers: Option<Transfers>,
}

impl PipelineStep {
    /// Mean busy time of its recorded ranks, ns.
    pub fn busy_mean(&self) -> Ns {
        let busy = || self.positions.iter().flatten().map(|p| p.busy);
        busy().sum::<Ns>() / (busy().count().max(1) as Ns)
    }

    pub(crate) fn bubble_pct(&self) -> Option<f64> {
        percent(self.whole.len() - self.busy_mean(), self.whole.len())
    }
}

/// A pipeline in all its steps.
#[derive(Debug, Clone)]
pub struct PipelineRun {
    pub chain: StageChain,
    pub(crate) steps: Vec<PipelineStep>,
    /// Steps in which the ranks do not have equally many chunks.
    pub(crate) left_out: Vec<Option<StepKey>>,
}

impl PipelineRun {
    /// The step of a pipeline whose bubble is in the middle.
    pub(crate) fn typical(&self) -> Option<&PipelineStep> {
        let mut steps: Vec<&PipelineStep> = self.steps.iter().collect();
        steps.sort_by_key(|s| (s.reasons.is_err(), s.whole.len() - s.busy_mean()));
        let known = steps.iter().filter(|s| s.reasons.is_ok()).count();
        median_of_sorted(steps.get(..known).filter(|known| !known.is_empty()).unwrap_or(&steps))
    }
}

/// The pipelines of a job, by their first rank.
#[derive(Debug, Clone, Default)]
pub struct Pipelines {
    pub runs: Vec<PipelineRun>,
    /// Those of which no step can be measured.
    pub(crate) unknown: Vec<PipelineRun>,
}

impl Pipelines {
    pub fn of(job: &Job) -> Arc<Self> {
        job.shared(|job| {
            let facts: Vec<PartFacts> =
                (0u32..).zip(&job.parts).map(|(part, _)| PartFacts::of(job, part)).collect();
            let run = |chain: StageChain| {
                let (placed, left_out) = placed_steps(job, &chain);
                let steps = placed.into_iter().filter_map(|p| measure(job, &chain, &facts, p)).collect();
                PipelineRun { chain, steps, left_out }
            };
            let runs = chains(job).into_iter().map(run);
            let (runs, unknown) = runs.partition(|r: &PipelineRun| !r.steps.is_empty());
            Self { runs, unknown }
        })
    }

    /// The same with some steps only.
    pub(crate) fn in_steps(&self, filter: &StepFilter) -> Self {
        let is_asked = |s: &&PipelineStep| {
            let label = if let Some(StepKey::Label(label)) = s.placed.step { Some(label) } else { None };
            s.placed.index.is_some_and(|index| filter.keeps(index, label))
        };
        let run = |run: &PipelineRun| PipelineRun {
            steps: run.steps.iter().filter(is_asked).cloned().collect(),
            ..run.clone()
        };
        let runs = self.runs.iter().map(run).filter(|run| !run.steps.is_empty());
        Self { runs: runs.collect(), unknown: self.unknown.clone() }
    }
}

/// What is known of a part for all its chunks.
struct PartFacts {
    sent: Vec<ChunkMessage>,
    exposed: Vec<ExposedPiece>,
}

impl PartFacts {
    fn of(job: &Job, part: u32) -> Self {
        let Some(p) = job.parts.get(part as usize).filter(|p| !p.chunks.is_empty()) else {
            return Self { sent: Vec::new(), exposed: Vec::new() };
        };
        let mut exposed = Vec::new();
        for (l, lane) in p.lanes.iter().enumerate() {
            let calls = p.calls_in(l, Span::new(Ns::MIN, Ns::MAX));
            let runs: Vec<_> = calls.map(|call| job.run(Member { part, call })).collect();
            exposed.extend(divide(&lane.exposed, &runs));
        }
        exposed.sort_by_key(|e| (e.span.start, e.span.end));
        Self { sent: sent_by_chunks(p), exposed }
    }

    /// Time in a chunk in which the rank only waits for others, ns.
    fn waits_in(&self, chunk: &PipelineChunk) -> Ns {
        let first = self.exposed.partition_point(|e| e.span.end <= chunk.span.start);
        let inside = self.exposed.get(first..).unwrap_or_default();
        let inside = inside.iter().take_while(|e| e.span.start < chunk.span.end);
        inside.filter(|e| e.what == ExposedKind::Sync).map(|e| e.span.intersect(chunk.span).len()).sum()
    }
}

fn measure(
    job: &Job,
    chain: &StageChain,
    facts: &[PartFacts],
    placed: PlacedPipeline,
) -> Option<PipelineStep> {
    let timed: Vec<Vec<TimedChunk>> = placed.ranks.iter().map(|r| r.chunks.clone()).collect();
    let whole = extent_of(&timed)?;
    let is_recorded = |i: usize| chain.ranks.get(i).is_some_and(|r| r.part.is_some());
    let positions = timed
        .iter()
        .enumerate()
        .map(|(i, chunks)| is_recorded(i).then(|| by_position(chunks, whole)))
        .collect();
    let graph = if placed.has_stages {
        graph_of(&timed).ok_or(NoReasons::Circle)
    } else {
        Err(NoReasons::StagesUnknown)
    };
    let (inputs, violations) =
        graph.as_ref().map_or((0, 0), |graph| order_violations(&timed, graph, CLOCK_SLACK));
    let sent: Vec<&[ChunkMessage]> = facts.iter().map(|f| f.sent.as_slice()).collect();
    let transfers = graph.as_ref().ok().map(|graph| Transfers::of(job, &sent, &placed, graph));
    let is_divided = graph.and_then(|graph| {
        let missing = chain.missing();
        if !missing.is_empty() {
            return Err(NoReasons::MissingRanks(missing));
        }
        let residual =
            chain.ranks.iter().filter_map(|r| job.clocks.get(r.part? as usize)).map(|c| c.residual);
        if let Some(ns) = residual.max().filter(|ns| ns.saturating_mul(100) > whole.len()) {
            return Err(NoReasons::Clocks(ns));
        }
        if violations * 100 > inputs {
            return Err(NoReasons::Violations(violations, inputs));
        }
        Ok(graph)
    });
    let times = times(job, facts, &placed, is_divided.as_ref().ok(), transfers.as_ref());
    let ideal = is_divided.as_ref().ok().map(|graph| ideal_spans(&timed, graph));
    let reasons = is_divided.and_then(|graph| {
        let known = transfers.as_ref().filter(|t| t.is_known);
        let between = |from: ChunkPlace, to: ChunkPlace| known.map_or(0, |t| t.between(from, to));
        let transfer: Option<&dyn Fn(ChunkPlace, ChunkPlace) -> Ns> = known.map(|_| &between as _);
        by_reason(&timed, &graph, transfer).ok_or(NoReasons::Circle)
    });
    let transfers = transfers.filter(|t| t.is_known);
    Some(PipelineStep { placed, whole, positions, reasons, inputs, violations, times, ideal, transfers })
}

/// What happens inside and before each chunk.
fn times(
    job: &Job,
    facts: &[PartFacts],
    placed: &PlacedPipeline,
    graph: Option<&OrderGraph>,
    transfers: Option<&Transfers>,
) -> Vec<Vec<ChunkTimes>> {
    let span = |(r, i): ChunkPlace| placed.ranks.get(r).and_then(|p| p.chunks.get(i)).map(|c| c.span);
    let whole = placed.ranks.iter().flat_map(|r| &r.chunks).map(|c| c.span.start).min().unwrap_or(0);
    let before = |at: ChunkPlace, graph: &OrderGraph| {
        let own = span(at)?;
        let from = at.1.checked_sub(1).and_then(|i| span((at.0, i))).map_or(whole, |s| s.end);
        let gap = (own.start - from).max(0);
        let ends = || graph.inputs(at).iter().filter_map(|input| Some((span(*input)?.end, *input)));
        let computed = ends().map(|(end, _)| end).fold(from, Ns::max);
        let wait = (computed - from).clamp(0, gap);
        let sent = |input| transfers.filter(|t| t.is_known).map_or(0, |t| t.between(input, at));
        let own = at.1.checked_sub(1).map_or(from, |i| from + sent((at.0, i)));
        let arrived = ends().map(|(end, input)| end + sent(input)).fold(own, Ns::max);
        let transfer = (arrived - computed).clamp(0, gap - wait);
        Some((wait, transfer, gap - wait - transfer))
    };
    let of_rank = |(r, rank): (usize, &crate::pipeline::placed::PlacedRank)| {
        let of_chunk = |(i, index): (usize, &usize)| {
            let part = rank.at.part.map_or(usize::MAX, |p| p as usize);
            let chunk = job.parts.get(part).and_then(|p| p.chunks.get(*index));
            let inner_wait = chunk.zip(facts.get(part)).map_or(0, |(chunk, facts)| facts.waits_in(chunk));
            ChunkTimes {
                inner_wait,
                inner_idle: chunk.map_or(0, |c| c.idle),
                before: graph.and_then(|graph| before((r, i), graph)),
            }
        };
        rank.index.iter().enumerate().map(of_chunk).collect()
    };
    placed.ranks.iter().enumerate().map(of_rank).collect()
}
