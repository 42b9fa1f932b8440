//! The parts of the bubble on small pipelines, by eye.

use super::*;
use crate::pipeline::order::KnownSchedule;
use crate::pipeline::ordered::PipelineShape;
use proptest::prelude::*;

/// Runs a pipeline of 1F1B: the chunks at the times that a replay gives.
fn run(
    (p, m): (u32, u32),
    length: impl Fn(&OrderedChunk) -> Ns,
    transfer: Ns,
    lag: Ns,
) -> (Vec<Vec<TimedChunk>>, OrderGraph) {
    let shape = PipelineShape { p, v: 1, m };
    let orders: Vec<Vec<OrderedChunk>> = (0..p)
        .map(|s| KnownSchedule::OneForwardOneBackward.order(shape, s).expect("the schedule exists"))
        .collect();
    let graph = OrderGraph::of(&orders).expect("no circle");
    let own = |(r, i): ChunkPlace| length(&orders[r][i]);
    let between = |from: ChunkPlace, to: ChunkPlace| if from.0 == to.0 { 0 } else { transfer + lag };
    let ends = graph.ends(own, between);
    let timed = |r: usize, i: usize| {
        let end = 1_000_000 + ends[r][i];
        TimedChunk { chunk: orders[r][i], span: Span::new(end - own((r, i)), end) }
    };
    let ranks = (0..orders.len()).map(|r| (0..orders[r].len()).map(|i| timed(r, i)).collect()).collect();
    (ranks, graph)
}

fn length(chunk: &OrderedChunk) -> Ns {
    if chunk.first.kind == ChunkKind::Forward { 1000 } else { 2000 }
}

/// ```text
///   rank 0   |F0 |F1 |...........|B0     |....|B1     |     F 1000, B 2000
///   rank 1   |...|F0 |B0     |F1 |B1     |............|
/// ```
#[test]
fn a_rank_fills_before_its_first_backward_and_drains_after_its_last_forward() {
    let (ranks, _) = run((2, 2), length, 0, 0);
    let whole = extent_of(&ranks).expect("chunks");
    assert_eq!(whole.len(), 9000);
    let parts = |r: usize| by_position(&ranks[r], whole);
    assert_eq!(parts(0), PositionParts { busy: 6000, fill: 2000, steady: 0, drain: 1000 });
    assert_eq!(parts(1), PositionParts { busy: 6000, fill: 1000, steady: 0, drain: 2000 });
}

/// The planted pipeline of four stages, with stage 2 heavier: what the parts of its bubble are is known.
#[test]
fn a_heavy_stage_is_imbalance_and_messages_are_transfer() {
    let heavy = |c: &OrderedChunk| if c.first.stage == 2 { length(c) * 13 / 10 } else { length(c) };
    let (ranks, graph) = run((4, 8), heavy, 20, 0);
    let between = |from: ChunkPlace, to: ChunkPlace| if from.0 == to.0 { 0 } else { 20 };
    let parts = by_reason(&ranks, &graph, Some(&between)).expect("parts");
    assert_eq!((parts.schedule, parts.imbalance, parts.jitter, parts.lag), (9675, 3825, 0, 0));
    assert_eq!(parts.ideal_time, 35475);
    let without = by_reason(&ranks, &graph, None).expect("parts");
    assert_eq!((without.transfer, Some(without.lag)), (None, parts.transfer));
    assert_eq!(order_violations(&ranks, &graph, 0).1, 0);
}

#[test]
fn a_chunk_that_starts_before_its_input_ends_is_a_violation() {
    let (mut ranks, graph) = run((2, 2), length, 0, 0);
    let early = &mut ranks[1][0].span;
    *early = Span::new(early.start - 50, early.end);
    assert_eq!(order_violations(&ranks, &graph, 0), (8, 1));
    assert_eq!(order_violations(&ranks, &graph, 50), (8, 0));
}

proptest! {
    /// Positions sum to the bubble of each rank and reasons to that of the pipeline, to the nanosecond.
    #[test]
    fn parts_sum_to_the_bubble(
        p in 2u32..6, m in 1u32..9, seed in 1i64..1000, transfer in 0i64..300, lag in 0i64..200,
    ) {
        let uneven = |c: &OrderedChunk| {
            let key = c.first;
            1000 + (i64::from(key.stage) * 97 + i64::from(key.batch) * 31 + seed) * 7919 % 900
        };
        let (ranks, graph) = run((p, m), uneven, transfer, lag);
        let whole = extent_of(&ranks).expect("chunks");
        let mut busy = 0;
        for chunks in &ranks {
            let parts = by_position(chunks, whole);
            prop_assert_eq!(parts.busy + parts.bubble(), whole.len());
            prop_assert!(parts.fill >= 0 && parts.steady >= 0 && parts.drain >= 0);
            busy += parts.busy;
        }
        let between = |from: ChunkPlace, to: ChunkPlace| if from.0 == to.0 { 0 } else { transfer };
        let parts = by_reason(&ranks, &graph, Some(&between)).expect("parts");
        let sum = parts.schedule + parts.imbalance + parts.jitter + parts.transfer.unwrap_or(0) + parts.lag;
        prop_assert_eq!(busy / i64::from(p) + sum, whole.len());
        prop_assert!(parts.schedule >= -1 && parts.lag >= 0);
    }
}
