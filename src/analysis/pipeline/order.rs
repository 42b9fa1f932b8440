//! The orders of the known pipeline schedules: which chunks the rank at a position of the pipeline computes,
//! one after the other. `p` is the number of ranks, `v` the number of stages of a rank, `m` the number of
//! micro-batches.
//!
//! ```text
//!   1F1B, p 3, m 4     rank 0   F0 F1 F2 B0 F3 B1 B2 B3
//!                      rank 1   F0 F1 B0 F2 B1 F3 B2 B3
//!                      rank 2   F0 B0 F1 B1 F2 B2 F3 B3
//! ```
//!
//! A rank of an interleaved schedule has the stages s, s + p, s + 2p ..., one of a V the stages s and
//! 2p - 1 - s.

use crate::facts::chunks::ChunkKind;
use crate::pipeline::dual_pipe::dual_pipe_v;
use crate::pipeline::zero_bubble::{interleaved_zero_bubble, zero_bubble_v};

/// One chunk of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkKey {
    pub(crate) kind: ChunkKind,
    pub(crate) stage: u32,
    pub(crate) batch: u32,
}

impl ChunkKey {
    pub(crate) fn new(kind: ChunkKind, stage: u32, batch: u32) -> Self {
        Self { kind, stage, batch }
    }

    /// As people write it: `2F5`.
    pub(crate) fn shown(self) -> String {
        format!("{}{}{}", self.stage, self.kind.letter(), self.batch)
    }
}

/// What a rank does at one place of its order: one chunk, or a forward and a backward chunk at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OrderedChunk {
    pub(crate) first: ChunkKey,
    pub(crate) with: Option<ChunkKey>,
}

impl OrderedChunk {
    pub(crate) fn of(kind: ChunkKind, stage: u32, batch: u32) -> Self {
        Self { first: ChunkKey::new(kind, stage, batch), with: None }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = ChunkKey> {
        std::iter::once(self.first).chain(self.with)
    }

    pub(crate) fn has(&self, holds: impl Fn(ChunkKind) -> bool) -> bool {
        self.keys().any(|k| holds(k.kind))
    }

    /// As people write it: `2F5`, or `0F7+7B3`.
    pub(crate) fn shown(&self) -> String {
        self.keys().map(ChunkKey::shown).collect::<Vec<_>>().join("+")
    }
}

/// A schedule whose order is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KnownSchedule {
    GPipe,
    OneForwardOneBackward,
    BreadthFirst,
    Interleaved,
    InterleavedZeroBubble,
    ZeroBubbleV,
    DualPipeV,
}

impl KnownSchedule {
    pub(crate) const ALL: [KnownSchedule; 7] = [
        KnownSchedule::GPipe,
        KnownSchedule::OneForwardOneBackward,
        KnownSchedule::BreadthFirst,
        KnownSchedule::Interleaved,
        KnownSchedule::InterleavedZeroBubble,
        KnownSchedule::ZeroBubbleV,
        KnownSchedule::DualPipeV,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            KnownSchedule::GPipe => "GPipe",
            KnownSchedule::OneForwardOneBackward => "1F1B",
            KnownSchedule::BreadthFirst => "breadth first",
            KnownSchedule::Interleaved => "interleaved 1F1B",
            KnownSchedule::InterleavedZeroBubble => "interleaved zero bubble",
            KnownSchedule::ZeroBubbleV => "ZBV",
            KnownSchedule::DualPipeV => "DualPipeV",
        }
    }

    /// The order of the rank at `position`; `None` if the schedule does not exist for such a pipeline.
    pub(crate) fn order(self, shape: PipelineShape, position: u32) -> Option<Vec<OrderedChunk>> {
        let PipelineShape { p, v, m } = shape;
        if p < 2 || m == 0 || v == 0 || position >= p {
            return None;
        }
        match self {
            KnownSchedule::GPipe => (v == 1).then(|| gpipe(position, m)),
            KnownSchedule::OneForwardOneBackward => {
                (v == 1).then(|| one_forward_one_backward(p, position, m))
            }
            KnownSchedule::BreadthFirst => (v > 1).then(|| breadth_first(shape, position)),
            KnownSchedule::Interleaved => interleaved(shape, position),
            KnownSchedule::InterleavedZeroBubble => interleaved_zero_bubble(shape, position),
            KnownSchedule::ZeroBubbleV => (v == 2).then(|| zero_bubble_v(p, position, m)),
            KnownSchedule::DualPipeV => (v == 2 && m >= 2 * p).then(|| dual_pipe_v(p, position, m)),
        }
    }
}

/// Ranks, stages of a rank, and micro-batches of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PipelineShape {
    pub(crate) p: u32,
    pub(crate) v: u32,
    pub(crate) m: u32,
}

impl PipelineShape {
    /// Micro-batches of a round of an interleaved schedule: torch and Megatron go through `p` at a time, or
    /// as close to it as divides `m`.
    pub(crate) fn round(self) -> Option<u32> {
        let rounds = (self.m / self.p.max(1)).max(1);
        self.m.is_multiple_of(rounds).then_some(self.m / rounds)
    }
}

fn gpipe(s: u32, m: u32) -> Vec<OrderedChunk> {
    let all = |kind| (0..m).map(move |b| OrderedChunk::of(kind, s, b));
    all(ChunkKind::Forward).chain(all(ChunkKind::Backward)).collect()
}

fn one_forward_one_backward(p: u32, s: u32, m: u32) -> Vec<OrderedChunk> {
    let warm_up = (p - s).min(m);
    let mut out: Vec<OrderedChunk> =
        (0..warm_up).map(|b| OrderedChunk::of(ChunkKind::Forward, s, b)).collect();
    for b in 0..m {
        out.push(OrderedChunk::of(ChunkKind::Backward, s, b));
        if warm_up + b < m {
            out.push(OrderedChunk::of(ChunkKind::Forward, s, warm_up + b));
        }
    }
    out
}

/// All micro-batches of a stage, then all of the next; backward in the opposite order.
fn breadth_first(PipelineShape { p, v, m }: PipelineShape, s: u32) -> Vec<OrderedChunk> {
    let forward =
        (0..v).flat_map(|c| (0..m).map(move |b| OrderedChunk::of(ChunkKind::Forward, c * p + s, b)));
    let backward = (0..v)
        .rev()
        .flat_map(|c| (0..m).rev().map(move |b| OrderedChunk::of(ChunkKind::Backward, c * p + s, b)));
    forward.chain(backward).collect()
}

/// The k-th forward and backward chunk of a rank in an interleaved schedule, by rounds of micro-batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct InterleavedPlaces {
    pub(super) shape: PipelineShape,
    pub(super) position: u32,
    pub(super) round: u32,
}

impl InterleavedPlaces {
    pub(super) fn of(shape: PipelineShape, position: u32) -> Option<Self> {
        Some(Self { shape, position, round: shape.round()? })
    }

    /// Chunks of each direction.
    pub(super) fn total(&self) -> u32 {
        self.shape.v * self.shape.m
    }

    pub(super) fn forward(&self, k: u32) -> ChunkKey {
        self.key(ChunkKind::Forward, k, (k / self.round) % self.shape.v)
    }

    pub(super) fn backward(&self, kind: ChunkKind, k: u32) -> ChunkKey {
        self.key(kind, k, self.shape.v - 1 - (k / self.round) % self.shape.v)
    }

    /// Forward chunks before the first backward one, where each hop to the last stage adds `hop`.
    pub(super) fn warm_up(&self, hop: u32) -> u32 {
        let last = (self.shape.v - 1) * self.round;
        (last + hop * (self.shape.p - 1 - self.position)).min(self.total())
    }

    fn key(&self, kind: ChunkKind, k: u32, local: u32) -> ChunkKey {
        let of_round = self.round * self.shape.v;
        let batch = (k / of_round) * self.round + k % self.round;
        ChunkKey::new(kind, local * self.shape.p + self.position, batch)
    }
}

fn interleaved(shape: PipelineShape, position: u32) -> Option<Vec<OrderedChunk>> {
    if shape.v < 2 {
        return None;
    }
    let places = InterleavedPlaces::of(shape, position)?;
    let (warm_up, total) = (places.warm_up(2), places.total());
    let one = |first| OrderedChunk { first, with: None };
    let mut out: Vec<OrderedChunk> = (0..warm_up).map(|k| one(places.forward(k))).collect();
    for k in 0..total {
        if warm_up + k < total {
            out.push(one(places.forward(warm_up + k)));
        }
        out.push(one(places.backward(ChunkKind::Backward, k)));
    }
    Some(out)
}

#[cfg(test)]
mod tests;
