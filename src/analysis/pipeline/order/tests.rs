//! Orders against those that torch and Megatron plan.

use super::*;
use crate::pipeline::ordered::ChunkKey;
use std::collections::BTreeSet;

fn shown(schedule: KnownSchedule, (p, v, m): (u32, u32, u32), position: u32) -> String {
    let order = schedule.order(PipelineShape { p, v, m }, position).expect("the schedule exists");
    order.iter().map(OrderedChunk::shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn one_forward_one_backward_warms_up_with_a_forward_for_each_stage_behind() {
    let of = |position| shown(KnownSchedule::OneForwardOneBackward, (3, 1, 4), position);
    assert_eq!(of(0), "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
    assert_eq!(of(1), "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
    assert_eq!(of(2), "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

#[test]
fn the_interleaved_order_is_that_of_torch() {
    let of = |position| shown(KnownSchedule::Interleaved, (4, 2, 8), position);
    assert_eq!(
        of(0),
        "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 0B1 0B2 0B3 4B4 \
         4B5 4B6 4B7 0B4 0B5 0B6 0B7"
    );
    assert_eq!(
        of(3),
        "3F0 3F1 3F2 3F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3F4 3B0 3F5 3B1 3F6 3B2 3F7 3B3 7F4 7B4 7F5 7B5 7F6 \
         7B6 7F7 7B7 3B4 3B5 3B6 3B7"
    );
}

#[test]
fn the_interleaved_zero_bubble_order_is_that_of_torch() {
    let of = |position| shown(KnownSchedule::InterleavedZeroBubble, (4, 2, 8), position);
    assert_eq!(
        of(0),
        "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 4I0 4W0 0F4 4I1 4W1 0F5 4I2 4W2 0F6 4I3 4W3 0F7 0I0 0W0 4F4 0I1 0W1 \
         4F5 0I2 0W2 4F6 0I3 0W3 4F7 4I4 4W4 4I5 4W5 4I6 4W6 4I7 4W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7"
    );
    assert_eq!(
        of(2),
        "2F0 2F1 2F2 2F3 6F0 6F1 6I0 6F2 6I1 6F3 6I2 6W0 2F4 6I3 6W1 2F5 2I0 6W2 2F6 2I1 6W3 2F7 2I2 2W0 6F4 \
         2I3 2W1 6F5 6I4 2W2 6F6 6I5 2W3 6F7 6I6 6W4 6I7 6W5 2I4 6W6 2I5 6W7 2I6 2W4 2I7 2W5 2W6 2W7"
    );
}

#[test]
fn the_zero_bubble_v_is_that_of_torch() {
    let of = |position| shown(KnownSchedule::ZeroBubbleV, (4, 2, 8), position);
    assert_eq!(
        of(0),
        "0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 7I3 7W3 0F7 0I0 0W0 7F4 7I4 7W4 \
         0I1 0W1 7F5 7I5 7W5 0I2 0W2 7F6 7I6 7W6 0I3 0W3 7F7 7I7 7W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7"
    );
    assert_eq!(
        of(2),
        "2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 5I1 5W1 2F5 2I0 2W0 5F4 5I2 5W2 2F6 2I1 2W1 5F5 5I3 5W3 \
         2F7 2I2 2W2 5F6 5I4 5W4 2I3 2W3 5F7 5I5 5W5 2I4 5I6 2I5 5I7 2I6 2W4 2I7 2W5 5W6 5W7 2W6 2W7"
    );
}

#[test]
fn dual_pipe_v_is_that_of_torch() {
    let expected = [
        "0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 0F7+7B3 7F4+0B0 7B4 7F5+0B1 7B5 \
         7F6+0B2 7B6 7F7+0B3 7B7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7",
        "1F0 1F1 1F2 1F3 1F4 6F0 1F5 6F1 6I0 6W0 6F2 6I1 6W1 6F3 1F6+6B2 6F4+1B0 1F7+6B3 6F5+1B1 6B4 6F6+1B2 \
         6B5 6F7+1B3 6B6 1B4 6I7 1I5 6W7 1I6 1W5 1I7 1W6 1W7",
        "2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 2F5+5B1 5F4+2B0 2F6+5B2 5F5+2B1 2F7+5B3 5F6+2B2 5B4 \
         5F7+2B3 5B5 2B4 5B6 2I5 5I7 2I6 2W5 2I7 5W7 2W6 2W7",
        "3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 3F4 4B0 4F4+3B0 3F5+4B1 4F5+3B1 3F6+4B2 4F6+3B2 3F7+4B3 4F7+3B3 4B4 \
         3B4 4B5 3B5 4I6 3I6 4I7 3I7 4W6 3W6 4W7 3W7",
    ];
    for (position, expected) in (0..).zip(expected) {
        assert_eq!(shown(KnownSchedule::DualPipeV, (4, 2, 8), position), expected);
    }
}

/// Whatever the schedule, a rank computes each chunk of its stages once, forward before backward.
#[test]
fn every_chunk_is_computed_once() {
    for (p, v, m) in
        [(2, 1, 1), (2, 2, 4), (3, 2, 7), (4, 1, 3), (4, 2, 8), (4, 3, 12), (5, 2, 13), (8, 4, 16)]
    {
        let shape = PipelineShape { p, v, m };
        for schedule in KnownSchedule::ALL {
            for position in 0..p {
                let Some(order) = schedule.order(shape, position) else { continue };
                let keys: Vec<ChunkKey> = order.iter().flat_map(|c| c.keys()).collect();
                let distinct: BTreeSet<ChunkKey> = keys.iter().copied().collect();
                assert_eq!(keys.len(), distinct.len(), "{} {shape:?} {position}", schedule.name());
                let of = |holds: fn(ChunkKind) -> bool| keys.iter().filter(|k| holds(k.kind)).count();
                let chunks = (v * m) as usize;
                assert_eq!(of(|k| k == ChunkKind::Forward), chunks, "{} {shape:?}", schedule.name());
                assert_eq!(
                    of(|k| matches!(k, ChunkKind::Backward | ChunkKind::Input)),
                    chunks,
                    "{} {shape:?}",
                    schedule.name()
                );
                assert_eq!(of(|k| k == ChunkKind::Input), of(|k| k == ChunkKind::Weight));
                let stages: BTreeSet<u32> = keys.iter().map(|k| k.stage).collect();
                assert_eq!(stages.len(), v as usize);
                assert!(stages.iter().all(|s| *s < p * v), "{} {shape:?}", schedule.name());
            }
        }
    }
}
