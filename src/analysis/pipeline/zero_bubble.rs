//! Orders of schedules that divide the backward pass into the gradients of inputs (I) and of weights (W), and
//! fill waiting with the latter.

use crate::pipeline::ordered::{InterleavedPlaces, OrderedChunk, PipelineShape};
use hta_facts::chunks::ChunkKind;

/// One forward, one backward of inputs, and behind as many of these as the rank is deep a backward of weights
/// each.
pub(super) fn interleaved_zero_bubble(shape: PipelineShape, position: u32) -> Option<Vec<OrderedChunk>> {
    let places = InterleavedPlaces::of(shape, position)?;
    let (warm_up, total) = (places.warm_up(1), places.total());
    let one = |first| OrderedChunk { first, with: None };
    let mut out: Vec<OrderedChunk> = (0..warm_up).map(|k| one(places.forward(k))).collect();
    let mut weights = 0;
    for k in 0..total {
        if warm_up + k < total {
            out.push(one(places.forward(warm_up + k)));
        }
        out.push(one(places.backward(ChunkKind::Input, k)));
        if k >= position {
            out.push(one(places.backward(ChunkKind::Weight, weights)));
            weights += 1;
        }
    }
    out.extend((weights..total).map(|k| one(places.backward(ChunkKind::Weight, k))));
    Some(out)
}

/// The next micro-batch of each kind in one of the two stages of a rank.
#[derive(Default)]
struct NextBatches {
    forward: u32,
    input: u32,
    weight: u32,
}

/// An order under construction, for the two stages of a rank.
struct OrderOfV {
    stages: [u32; 2],
    next: [NextBatches; 2],
    out: Vec<OrderedChunk>,
}

impl OrderOfV {
    fn add(&mut self, kind: ChunkKind, local: usize) {
        let (Some(stage), Some(next)) = (self.stages.get(local), self.next.get_mut(local)) else { return };
        let batch = match kind {
            ChunkKind::Forward => &mut next.forward,
            ChunkKind::Weight => &mut next.weight,
            ChunkKind::Input | ChunkKind::Backward => &mut next.input,
        };
        self.out.push(OrderedChunk::of(kind, *stage, *batch));
        *batch += 1;
    }

    fn add_backward(&mut self, local: usize) {
        self.add(ChunkKind::Input, local);
        self.add(ChunkKind::Weight, local);
    }
}

/// The V of the zero-bubble schedules: forward goes down the ranks and up again.
pub(super) fn zero_bubble_v(p: u32, position: u32, m: u32) -> Vec<OrderedChunk> {
    // With fewer micro-batches, the order is that of the full one without those that do not exist.
    let full = m.max(2 * p - 1);
    let stages = [position, 2 * p - 1 - position];
    let mut order = OrderOfV { stages, next: Default::default(), out: Vec::new() };
    for _ in 0..2 * (p - position) - 1 {
        order.add(ChunkKind::Forward, 0);
    }
    for _ in 0..position {
        order.add(ChunkKind::Forward, 1);
        order.add(ChunkKind::Forward, 0);
    }
    for _ in 0..p - position {
        order.add(ChunkKind::Forward, 1);
        order.add_backward(1);
    }
    while order.next[1].forward < order.next[0].forward || order.next[0].forward < full {
        if order.next[0].forward < full {
            order.add(ChunkKind::Forward, 0);
        }
        order.add_backward(0);
        order.add(ChunkKind::Forward, 1);
        order.add_backward(1);
    }
    for _ in 0..position {
        order.add(ChunkKind::Input, 0);
        order.add(ChunkKind::Input, 1);
    }
    for _ in 0..p - position {
        order.add_backward(0);
    }
    for local in [1, 0] {
        while order.next[local].weight < order.next[local].input {
            order.add(ChunkKind::Weight, local);
        }
    }
    order.out.retain(|c| c.first.batch < m);
    order.out
}
