//! The bubble of a pipeline in one step, divided exactly.
//!
//! ```text
//!   rank 0   |F0|F1|....fill...|B0|steady|F2|..drain..|B1|..|      t0: first start of a chunk
//!            t0                                           t1       t1: last end
//! ```
//!
//! With T = t1 - t0, the bubble of a rank is T minus the time of its chunks. By position: idle before its
//! first backward chunk (fill), after its last forward chunk (drain), and between (steady). By reason, for
//! the whole pipeline: replays of the recorded order, each with one more of what happened, telescope from the
//! mean busy time to T:
//!
//! ```text
//!   schedule    every chunk as long as the mean of its kind              minus the mean busy time
//!   imbalance   every chunk as long as the mean of its stage and kind    minus the replay before
//!   jitter      measured chunks                                          minus the replay before
//!   transfer    and what each message takes beyond waiting               minus the replay before
//!   lag         T                                                        minus the replay before
//! ```

use crate::pipeline::ordered::OrderedChunk;
use crate::pipeline::replay::{ChunkPlace, OrderGraph};
use hta_base::units::{Ns, Span};
use hta_facts::chunks::ChunkKind;
use std::collections::BTreeMap;

/// A chunk at its place in the order of its rank, on the common axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimedChunk {
    pub(crate) chunk: OrderedChunk,
    /// Without what the chunk before on the rank covers.
    pub(crate) span: Span,
}

/// The bubble of one rank by position, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PositionParts {
    pub(crate) busy: Ns,
    pub(crate) fill: Ns,
    pub(crate) steady: Ns,
    pub(crate) drain: Ns,
}

impl PositionParts {
    pub(crate) fn bubble(&self) -> Ns {
        self.fill + self.steady + self.drain
    }
}

/// The bubble of a pipeline by reason, ns of each of its ranks; the sum is T minus the mean busy time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReasonParts {
    pub(crate) schedule: Ns,
    pub(crate) imbalance: Ns,
    pub(crate) jitter: Ns,
    /// `None` if what messages take beyond waiting is not known; then it is part of the lag.
    pub(crate) transfer: Option<Ns>,
    pub(crate) lag: Ns,
    /// T of the replay that has only the schedule.
    pub(crate) ideal_time: Ns,
}

/// The step of a pipeline: from the first start to the last end of a chunk.
pub(crate) fn extent_of(ranks: &[Vec<TimedChunk>]) -> Option<Span> {
    let chunks = || ranks.iter().flatten();
    let start = chunks().map(|c| c.span.start).min()?;
    Some(Span::new(start, chunks().map(|c| c.span.end).max()?))
}

/// The parts of a rank by position.
pub(crate) fn by_position(chunks: &[TimedChunk], whole: Span) -> PositionParts {
    let is_backward = |kind: ChunkKind| kind != ChunkKind::Forward;
    let first_backward = chunks.iter().find(|c| c.chunk.has(is_backward)).map(|c| c.span.start);
    let last_forward =
        chunks.iter().rev().find(|c| c.chunk.has(|k| k == ChunkKind::Forward)).map(|c| c.span.end);
    let filled = first_backward.unwrap_or(whole.end);
    let drains = last_forward.unwrap_or(whole.start).max(filled);
    let busy_in = |part: Span| chunks.iter().map(|c| c.span.intersect(part).len()).sum::<Ns>();
    let idle_in = |part: Span| part.len() - busy_in(part);
    PositionParts {
        busy: busy_in(whole),
        fill: idle_in(Span::new(whole.start, filled)),
        steady: idle_in(Span::new(filled, drains)),
        drain: idle_in(Span::new(drains, whole.end)),
    }
}

/// Sums and counts of chunk lengths.
#[derive(Default, Clone, Copy)]
struct LengthSum {
    sum: i128,
    count: i128,
}

/// Chunks of one kind; those that run two at once are a kind of their own.
type LengthKind = (ChunkKind, bool);

fn kind_of(chunk: &OrderedChunk) -> LengthKind {
    (chunk.first.kind, chunk.with.is_some())
}

/// Means by key, such that the chunks of a key keep their sum to less than a nanosecond each.
fn means<K: Ord>(ranks: &[Vec<TimedChunk>], key: impl Fn(&OrderedChunk) -> K) -> BTreeMap<K, Ns> {
    let mut sums: BTreeMap<K, LengthSum> = BTreeMap::new();
    for c in ranks.iter().flatten() {
        let sum = sums.entry(key(&c.chunk)).or_default();
        sum.sum += i128::from(c.span.len());
        sum.count += 1;
    }
    sums.into_iter().map(|(k, s)| (k, ((s.sum + s.count / 2) / s.count.max(1)) as Ns)).collect()
}

/// The parts by reason. `transfer` gives what the result of a chunk takes to another beyond waiting; `None`
/// where that is not known of the pipeline.
pub(crate) fn by_reason(
    ranks: &[Vec<TimedChunk>],
    graph: &OrderGraph,
    transfer: Option<&dyn Fn(ChunkPlace, ChunkPlace) -> Ns>,
) -> Option<ReasonParts> {
    let whole = extent_of(ranks)?;
    let count = Ns::try_from(ranks.len()).ok().filter(|n| *n > 0)?;
    let busy_mean = ranks.iter().flatten().map(|c| c.span.len()).sum::<Ns>() / count;
    let of_kind = means(ranks, kind_of);
    let of_stage = means(ranks, |c| (c.first.stage, kind_of(c)));
    let chunk = |(r, i): ChunkPlace| ranks.get(r).and_then(|chunks| chunks.get(i));
    let none = |_: ChunkPlace, _: ChunkPlace| 0;
    let by_kind =
        |at: ChunkPlace| chunk(at).and_then(|c| of_kind.get(&kind_of(&c.chunk)).copied()).unwrap_or(0);
    let by_stage = |at: ChunkPlace| {
        let length = |c: &TimedChunk| of_stage.get(&(c.chunk.first.stage, kind_of(&c.chunk))).copied();
        chunk(at).and_then(length).unwrap_or(0)
    };
    let measured = |at: ChunkPlace| chunk(at).map_or(0, |c| c.span.len());
    let with_schedule = graph.time(by_kind, none);
    let with_imbalance = graph.time(by_stage, none);
    let with_jitter = graph.time(measured, none);
    let with_transfer = transfer.map(|transfer| graph.time(measured, transfer));
    Some(ReasonParts {
        schedule: with_schedule - busy_mean,
        imbalance: with_imbalance - with_schedule,
        jitter: with_jitter - with_imbalance,
        transfer: with_transfer.map(|t| t - with_jitter),
        lag: whole.len() - with_transfer.unwrap_or(with_jitter),
        ideal_time: with_schedule,
    })
}

/// Where the chunks would be with the order alone: each as long as the mean of its kind, no transfer.
pub(crate) fn ideal_spans(ranks: &[Vec<TimedChunk>], graph: &OrderGraph) -> Vec<Vec<Span>> {
    let of_kind = means(ranks, kind_of);
    let start = extent_of(ranks).map_or(0, |s| s.start);
    let length = |c: &TimedChunk| of_kind.get(&kind_of(&c.chunk)).copied().unwrap_or(0);
    let of_chunk = |(r, i): ChunkPlace| ranks.get(r).and_then(|chunks| chunks.get(i)).map_or(0, length);
    let ends = graph.ends(of_chunk, |_, _| 0);
    let spans = ends.into_iter().zip(ranks).map(|(ends, chunks)| {
        let span = |(end, c): (Ns, &TimedChunk)| Span::new(start + end - length(c), start + end);
        ends.into_iter().zip(chunks).map(span).collect()
    });
    spans.collect()
}

/// Inputs of chunks, and how many of these end after the chunk has started, by more than clocks are accurate.
pub(crate) fn order_violations(ranks: &[Vec<TimedChunk>], graph: &OrderGraph, tolerance: Ns) -> (u64, u64) {
    let chunk = |(r, i): ChunkPlace| ranks.get(r).and_then(|chunks: &Vec<TimedChunk>| chunks.get(i));
    let (mut inputs, mut violated) = (0, 0);
    for (r, chunks) in ranks.iter().enumerate() {
        for (i, c) in chunks.iter().enumerate() {
            for from in graph.inputs((r, i)).iter().filter_map(|from| chunk(*from)) {
                inputs += 1;
                violated += u64::from(from.span.end > c.span.start + tolerance);
            }
        }
    }
    (inputs, violated)
}

#[cfg(test)]
mod tests;
