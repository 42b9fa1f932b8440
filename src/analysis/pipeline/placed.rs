//! Gives every chunk of a pipeline its stage and micro-batch, and names the schedule.
//!
//! Where annotations name them, they are taken. Else a rank with one stage has its micro-batches in order,
//! and ranks with several stages have the generated order whose sequence of forward and backward is the
//! recorded one on all ranks, and in which no chunk starts before its inputs end.

use crate::pipeline::bubble::{TimedChunk, order_violations};
use crate::pipeline::chain::{ChainRank, StageChain};
use crate::pipeline::order::KnownSchedule;
use crate::pipeline::ordered::{ChunkKey, OrderedChunk, PipelineShape};
use crate::pipeline::replay::OrderGraph;
use hta_base::units::{Ns, Span};
use hta_facts::chunks::{ChunkKind, ChunkName, PipelineChunk};
use hta_job::Job;
use hta_job::delay::StepKey;
use std::collections::{BTreeMap, BTreeSet};

/// By how much a chunk may seem to start before its input ends, ns: the accuracy of aligned clocks.
pub(crate) const CLOCK_SLACK: Ns = 20_000;

/// A rank of a pipeline in one step, with its chunks in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedRank {
    pub(crate) at: ChainRank,
    pub(crate) chunks: Vec<TimedChunk>,
    /// Index of each chunk in its part.
    pub(crate) index: Vec<usize>,
}

/// A pipeline in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPipeline {
    pub step: Option<StepKey>,
    /// Index of the step in time.
    pub(crate) index: Option<u32>,
    pub(crate) ranks: Vec<PlacedRank>,
    pub(crate) shape: PipelineShape,
    /// `None` if the order is that of no known schedule.
    pub(crate) schedule: Option<KnownSchedule>,
    /// Whether stages and micro-batches are known; else they are counted on, for the kinds alone.
    pub(crate) has_stages: bool,
}

/// The chunks of a chain in each step, and the steps that are left out: those in which the recorded ranks do
/// not have equally many chunks, because the recording cuts them off or chunks were not told apart.
pub(crate) fn placed_steps(job: &Job, chain: &StageChain) -> (Vec<PlacedPipeline>, Vec<Option<StepKey>>) {
    let mut steps: BTreeMap<Option<StepKey>, Vec<PlacedRank>> = BTreeMap::new();
    let mut index_of: BTreeMap<StepKey, u32> = BTreeMap::new();
    for (position, at) in chain.ranks.iter().enumerate() {
        let Some(p) = at.part.and_then(|part| job.parts.get(part as usize)) else { continue };
        for (i, c) in p.chunks.iter().enumerate() {
            let step = c.step.and_then(|s| p.steps.get(s as usize));
            let key = step.map(|s| StepKey::new(s.index, s.label));
            index_of.extend(key.zip(step.map(|s| s.index)));
            let ranks = steps.entry(key).or_insert_with(|| {
                let rank = |at: &ChainRank| PlacedRank { at: *at, chunks: Vec::new(), index: Vec::new() };
                chain.ranks.iter().map(rank).collect()
            });
            let Some(rank) = ranks.get_mut(position) else { continue };
            let span = job.aligned_span(at.part.unwrap_or(0), c.span);
            let start =
                rank.chunks.last().map_or(span.start, |before: &TimedChunk| before.span.end.max(span.start));
            let span = Span::new(start, span.end.max(start));
            // Stage and micro-batch are set below.
            rank.chunks.push(TimedChunk { chunk: OrderedChunk::of(c.name.kind, 0, 0), span });
            rank.index.push(i);
        }
    }
    let has_steps = steps.keys().any(Option::is_some);
    let (mut placed, mut left_out) = (Vec::new(), Vec::new());
    for (key, ranks) in steps.into_iter().filter(|(key, _)| key.is_some() || !has_steps) {
        match place(job, chain, key, ranks) {
            Some(pipeline) => {
                let index = key.and_then(|key| index_of.get(&key).copied());
                placed.push(PlacedPipeline { index, ..pipeline });
            }
            None => left_out.push(key),
        }
    }
    (placed, left_out)
}

fn place(
    job: &Job,
    chain: &StageChain,
    step: Option<StepKey>,
    mut ranks: Vec<PlacedRank>,
) -> Option<PlacedPipeline> {
    let p = u32::try_from(chain.ranks.len()).ok()?;
    if let Some(shape) = by_names(job, &mut ranks, p) {
        let schedule = known_schedule(&ranks, shape);
        return Some(PlacedPipeline { step, index: None, ranks, shape, schedule, has_stages: true });
    }
    let forward = equal_counts(&ranks)?;
    if !chain.is_ring {
        let shape = PipelineShape { p, v: 1, m: forward };
        count_batches(&mut ranks);
        let schedule = known_schedule(&ranks, shape);
        return Some(PlacedPipeline { step, index: None, ranks, shape, schedule, has_stages: true });
    }
    let found = by_generated_order(&ranks, p, forward);
    let has_stages = found.is_some();
    let (schedule, shape) = match found {
        Some((schedule, shape, placed)) => {
            ranks = placed;
            (Some(schedule), shape)
        }
        None => {
            count_batches(&mut ranks);
            (None, PipelineShape { p, v: 1, m: forward })
        }
    };
    Some(PlacedPipeline { step, index: None, ranks, shape, schedule, has_stages })
}

fn chunk_of(job: &Job, at: ChainRank, index: usize) -> Option<&PipelineChunk> {
    job.parts.get(at.part? as usize)?.chunks.get(index)
}

/// Sets what annotations name, and gives the shape; `None` if they leave something open. Without a named
/// stage, a rank has that of its position.
fn by_names(job: &Job, ranks: &mut [PlacedRank], p: u32) -> Option<PipelineShape> {
    let mut keys: Vec<Vec<OrderedChunk>> = Vec::new();
    for (position, rank) in (0u32..).zip(ranks.iter()) {
        let key =
            |name: &ChunkName| Some(ChunkKey::new(name.kind, name.stage.unwrap_or(position), name.batch?));
        let of_rank = rank.index.iter().map(|i| {
            let chunk = chunk_of(job, rank.at, *i)?;
            let with = match &chunk.with {
                Some(name) => Some(key(name)?),
                None => None,
            };
            Some(OrderedChunk { first: key(&chunk.name)?, with })
        });
        keys.push(of_rank.collect::<Option<_>>()?);
    }
    let all: Vec<ChunkKey> = keys.iter().flatten().flat_map(|c| c.keys()).collect();
    let distinct: BTreeSet<ChunkKey> = all.iter().copied().collect();
    let (stages, batches) = (all.iter().map(|k| k.stage).max()? + 1, all.iter().map(|k| k.batch).max()? + 1);
    // A step that is cut misses chunks; one that has a chunk twice is two.
    let forward = distinct.iter().filter(|k| k.kind == ChunkKind::Forward).count();
    let recorded = ranks.iter().filter(|r| r.at.part.is_some()).count();
    let v = stages.div_ceil(p);
    if distinct.len() != all.len() || forward != recorded * v as usize * batches as usize {
        return None;
    }
    for (rank, keys) in ranks.iter_mut().zip(keys) {
        rank.chunks.iter_mut().zip(keys).for_each(|(c, key)| c.chunk = key);
    }
    Some(PipelineShape { p, v, m: batches })
}

/// Number of forward chunks, which is that of the backward ones, and equal on all recorded ranks.
fn equal_counts(ranks: &[PlacedRank]) -> Option<u32> {
    let count = |r: &PlacedRank, kind| r.chunks.iter().filter(|c| c.chunk.first.kind == kind).count();
    let mut recorded = ranks.iter().filter(|r| r.at.part.is_some());
    let first = recorded.next()?;
    let forward = count(first, ChunkKind::Forward);
    let is_equal =
        |r: &PlacedRank| count(r, ChunkKind::Forward) == forward && count(r, ChunkKind::Backward) == forward;
    let all_equal = is_equal(first) && recorded.all(is_equal);
    u32::try_from(forward).ok().filter(|n| all_equal && *n > 0)
}

/// Counts the micro-batches of one stage a rank.
fn count_batches(ranks: &mut [PlacedRank]) {
    for (position, rank) in (0u32..).zip(ranks.iter_mut()) {
        let mut next: BTreeMap<ChunkKind, u32> = BTreeMap::new();
        for c in &mut rank.chunks {
            let batch = next.entry(c.chunk.first.kind).or_default();
            c.chunk = OrderedChunk::of(c.chunk.first.kind, position, *batch);
            *batch += 1;
        }
    }
}

/// The one known schedule of several stages a rank whose order is the recorded one.
fn by_generated_order(
    ranks: &[PlacedRank],
    p: u32,
    forward: u32,
) -> Option<(KnownSchedule, PipelineShape, Vec<PlacedRank>)> {
    let mut found = Vec::new();
    for v in (2..=forward).filter(|v| forward.is_multiple_of(*v)) {
        let shape = PipelineShape { p, v, m: forward / v };
        for schedule in [KnownSchedule::Interleaved, KnownSchedule::BreadthFirst] {
            found.extend(with_order(ranks, schedule, shape).map(|placed| (schedule, shape, placed)));
        }
    }
    // Several orders fit: then the stages cannot be told apart.
    if found.len() > 1 { None } else { found.pop() }
}

fn with_order(
    ranks: &[PlacedRank],
    schedule: KnownSchedule,
    shape: PipelineShape,
) -> Option<Vec<PlacedRank>> {
    let mut out = ranks.to_vec();
    for (position, rank) in (0u32..).zip(&mut out).filter(|(_, r)| r.at.part.is_some()) {
        let order = schedule.order(shape, position)?;
        let is_same = order.len() == rank.chunks.len()
            && order.iter().zip(&rank.chunks).all(|(a, b)| a.first.kind == b.chunk.first.kind);
        if !is_same {
            return None;
        }
        rank.chunks.iter_mut().zip(order).for_each(|(c, key)| c.chunk = key);
    }
    let timed: Vec<Vec<TimedChunk>> = out.iter().map(|r| r.chunks.clone()).collect();
    let graph = graph_of(&timed)?;
    (order_violations(&timed, &graph, CLOCK_SLACK).1 == 0).then_some(out)
}

/// What each chunk of a pipeline needs.
pub(crate) fn graph_of(ranks: &[Vec<TimedChunk>]) -> Option<OrderGraph> {
    let orders: Vec<Vec<OrderedChunk>> =
        ranks.iter().map(|chunks| chunks.iter().map(|c| c.chunk).collect()).collect();
    OrderGraph::of(&orders)
}

/// The known schedule whose order is that of all recorded ranks. A first stage computes no gradients of
/// inputs, so that these may be missing there.
fn known_schedule(ranks: &[PlacedRank], shape: PipelineShape) -> Option<KnownSchedule> {
    let recorded = || (0u32..).zip(ranks).filter(|(_, r)| r.at.part.is_some());
    let is_of = |schedule: &KnownSchedule| {
        recorded().all(|(position, rank)| {
            let Some(order) = schedule.order(shape, position) else { return false };
            let is_first = |c: &OrderedChunk| c.first.kind == ChunkKind::Input && c.first.stage == 0;
            let has_first = rank.chunks.iter().any(|c| is_first(&c.chunk));
            let planned = order.iter().filter(|c| has_first || !is_first(c));
            planned.eq(rank.chunks.iter().map(|c| &c.chunk))
        })
    };
    KnownSchedule::ALL.into_iter().find(is_of)
}
