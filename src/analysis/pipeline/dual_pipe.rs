//! The order of DualPipeV: a V whose forward and backward chunks overlap in the middle part.

use crate::pipeline::ordered::{ChunkKey, OrderedChunk};
use hta_facts::chunks::ChunkKind;
use std::collections::VecDeque;

/// An order under construction, for the two stages of a rank.
struct OrderOfDualPipe {
    stages: [u32; 2],
    /// Next micro-batch by stage: forward, and backward.
    forward: [u32; 2],
    backward: [u32; 2],
    /// Backward chunks of weights that are still to do.
    weights: VecDeque<ChunkKey>,
    out: Vec<OrderedChunk>,
}

impl OrderOfDualPipe {
    fn next_forward(&mut self, local: usize) -> ChunkKey {
        let key = ChunkKey::new(ChunkKind::Forward, self.stages[local], self.forward[local]);
        self.forward[local] += 1;
        key
    }

    fn next_backward(&mut self, kind: ChunkKind, local: usize) -> ChunkKey {
        let key = ChunkKey::new(kind, self.stages[local], self.backward[local]);
        self.backward[local] += 1;
        if kind == ChunkKind::Input {
            self.weights.push_back(ChunkKey { kind: ChunkKind::Weight, ..key });
        }
        key
    }

    fn push(&mut self, first: ChunkKey) {
        self.out.push(OrderedChunk { first, with: None });
    }

    fn add_forward(&mut self, local: usize) {
        let key = self.next_forward(local);
        self.push(key);
    }

    /// A whole backward pass, or, with `zero_bubble`, only that of inputs.
    fn add_backward(&mut self, local: usize, zero_bubble: bool) {
        let kind = if zero_bubble { ChunkKind::Input } else { ChunkKind::Backward };
        let key = self.next_backward(kind, local);
        self.push(key);
    }

    fn add_weight(&mut self) {
        if let Some(key) = self.weights.pop_front() {
            self.push(key);
        }
    }

    fn add_both(&mut self, forward: usize, backward: usize) {
        let first = self.next_forward(forward);
        let with = Some(self.next_backward(ChunkKind::Backward, backward));
        self.out.push(OrderedChunk { first, with });
    }
}

/// The order of the rank at `position`; there are at least as many micro-batches as stages.
pub(super) fn dual_pipe_v(p: u32, position: u32, m: u32) -> Vec<OrderedChunk> {
    let mut order = OrderOfDualPipe {
        stages: [position, 2 * p - 1 - position],
        forward: [0; 2],
        backward: [0; 2],
        weights: VecDeque::new(),
        out: Vec::new(),
    };
    let to_last = p - position - 1;
    for _ in 0..2 * to_last {
        order.add_forward(0);
    }
    for _ in 0..=position {
        order.add_forward(0);
        order.add_forward(1);
    }
    for _ in 0..to_last {
        order.add_backward(1, true);
        order.add_weight();
        order.add_forward(1);
    }
    for i in 0..(m + position + 1).saturating_sub(2 * p) {
        if i == 0 && to_last == 0 {
            // The last rank does not overlap its first two, to start the backward passes earlier.
            order.add_forward(0);
            order.add_backward(1, false);
        } else {
            order.add_both(0, 1);
        }
        order.add_both(1, 0);
    }
    for _ in 0..to_last {
        order.add_backward(1, false);
        order.add_both(1, 0);
    }
    let half = position.div_ceil(2);
    let (from_second, from_first) = if position.is_multiple_of(2) { (half + 1, half) } else { (half, half) };
    for i in 0..=position {
        order.add_backward(1, i >= from_second);
        order.add_backward(0, i >= from_first);
    }
    for _ in 0..to_last {
        order.add_weight();
        order.add_backward(0, true);
    }
    for _ in 0..=position {
        order.add_weight();
    }
    order.out
}
