//! Replays of the known orders against their formulas.

use super::*;
use crate::pipeline::order::KnownSchedule;
use crate::pipeline::ordered::PipelineShape;

fn orders(schedule: KnownSchedule, (p, v, m): (u32, u32, u32)) -> Vec<Vec<OrderedChunk>> {
    let shape = PipelineShape { p, v, m };
    (0..p).map(|s| schedule.order(shape, s).expect("the schedule exists")).collect()
}

/// The share of the bubble if forward takes 1,000 and backward 2,000 ns.
fn share(schedule: KnownSchedule, shape: (u32, u32, u32)) -> f64 {
    let orders = orders(schedule, shape);
    let graph = OrderGraph::of(&orders).expect("no circle");
    let length = |(r, i): ChunkPlace| match orders[r][i].first.kind {
        ChunkKind::Backward => 2000,
        _ => 1000,
    };
    let time = graph.time(length, |_, _| 0);
    let (_, v, m) = shape;
    1.0 - (f64::from(v * m) * 3000.0) / time as f64
}

#[test]
fn the_bubble_of_one_chunk_a_rank_is_that_of_the_formula() {
    for (p, m, expected) in [(4, 8, 0.272_727), (8, 16, 0.304_348), (3, 7, 0.222_222)] {
        let formula = f64::from(p - 1) / f64::from(m + p - 1);
        for schedule in [KnownSchedule::GPipe, KnownSchedule::OneForwardOneBackward] {
            let found = share(schedule, (p, 1, m));
            assert!((found - formula).abs() < 1e-9, "{} {p} {m}: {found}", schedule.name());
            assert!((found - expected).abs() < 1e-6, "{} {p} {m}: {found}", schedule.name());
        }
    }
}

#[test]
fn the_bubble_of_interleaved_stages_is_that_of_the_formula() {
    for (p, v, m, expected) in [(4, 2, 8, 0.157_895), (8, 2, 16, 0.179_487), (2, 4, 6, 0.04)] {
        let found = share(KnownSchedule::Interleaved, (p, v, m));
        let formula = f64::from(p - 1) / f64::from(v * m + p - 1);
        assert!((found - formula).abs() < 1e-9, "{p} {v} {m}: {found}");
        assert!((found - expected).abs() < 1e-6, "{p} {v} {m}: {found}");
    }
}

#[test]
fn zero_bubble_schedules_leave_three_slots_of_51_if_all_chunks_are_equal() {
    for schedule in [KnownSchedule::ZeroBubbleV, KnownSchedule::InterleavedZeroBubble] {
        let orders = orders(schedule, (4, 2, 8));
        let graph = OrderGraph::of(&orders).expect("no circle");
        assert_eq!(graph.time(|_| 1, |_, _| 0), 51, "{}", schedule.name());
    }
}

#[test]
fn every_known_order_can_run() {
    for shape in [(2, 1, 1), (2, 2, 4), (3, 2, 7), (4, 1, 3), (4, 2, 8), (4, 3, 12), (8, 4, 16)] {
        let (p, v, m) = shape;
        for schedule in KnownSchedule::ALL {
            if schedule.order(PipelineShape { p, v, m }, 0).is_some() {
                assert!(OrderGraph::of(&orders(schedule, shape)).is_some(), "{} {shape:?}", schedule.name());
            }
        }
    }
}

/// Rank 0 wants the gradient of a micro-batch before it gives the forward of it.
#[test]
fn orders_that_wait_for_each_other_cannot_run() {
    let chunk = OrderedChunk::of;
    let orders = [
        vec![chunk(ChunkKind::Backward, 0, 0), chunk(ChunkKind::Forward, 0, 0)],
        vec![chunk(ChunkKind::Forward, 1, 0), chunk(ChunkKind::Backward, 1, 0)],
    ];
    assert!(OrderGraph::of(&orders).is_none());
}

/// ```text
///   rank 0   [F 10]                      [B 30]
///   rank 1        5  [F 10][B 20]   5               transfers of 5
/// ```
#[test]
fn a_chunk_waits_for_its_input_and_for_the_chunk_before() {
    let orders = orders(KnownSchedule::OneForwardOneBackward, (2, 1, 1));
    let graph = OrderGraph::of(&orders).expect("no circle");
    let lengths = [[10, 30], [10, 20]];
    let ends = graph.ends(|(r, i)| lengths[r][i], |from, to| if from.0 == to.0 { 0 } else { 5 });
    assert_eq!(ends, [vec![10, 80], vec![25, 45]]);
}
