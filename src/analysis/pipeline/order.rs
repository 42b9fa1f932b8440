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

use crate::pipeline::dual_pipe::dual_pipe_v;
use crate::pipeline::ordered::{InterleavedPlaces, OrderedChunk, PipelineShape};
use crate::pipeline::zero_bubble::{interleaved_zero_bubble, zero_bubble_v};
use hta_facts::chunks::ChunkKind;

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
