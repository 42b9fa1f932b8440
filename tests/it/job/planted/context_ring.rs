//! Stages whose ranks pass the parts of a context around a ring while they compute: its messages end no chunk of the
//! pipeline.
//!
//! ```text
//!   stage 0     ranks 0 1     0 <-> 1 (cp)     0 -> 2 (pp)
//!   stage 1     ranks 2 3     2 <-> 3 (cp)     1 -> 3 (pp)
//! ```

use super::job::{Action, Group, Job, about, kernel};
use super::recording::Recording;
use super::simulate::simulate;
use hta_testkit::us;

const MICRO_BATCHES: u64 = 4;

/// A layer of 300 us, or with a ring two halves of it and an exchange between.
fn layer(rank: u32, place: [u64; 2], has_ring: bool) -> Vec<Action> {
    let half = |n: u64| kernel("flash", about(us(150), 2, rank, place[0], 10 * place[1] + n));
    let (group, elements, transfer) = (1 + rank as usize / 2, 100_000, us(10));
    let send = Action::Send { group, to: rank ^ 1, elements, transfer, is_eager: false };
    let receive = Action::Receive { group, from: rank ^ 1, elements, transfer };
    let exchange = if rank.is_multiple_of(2) { [send, receive] } else { [receive, send] };
    let exchange = if has_ring { exchange.to_vec() } else { Vec::new() };
    [vec![half(0)], exchange, vec![half(1)]].concat()
}

fn work(rank: u32, step: u64, has_ring: bool) -> Vec<Action> {
    let (group, elements, transfer) = (3 + rank as usize % 2, 400_000, us(30));
    let is_first = rank < 2;
    let peer = rank ^ 2;
    let hand_on = || Action::Send { group, to: peer, elements, transfer, is_eager: false };
    let take = || Action::Receive { group, from: peer, elements, transfer };
    let mut out = Vec::new();
    for pass in 0..2 {
        for batch in 0..MICRO_BATCHES {
            // Forward goes from the first stage to the last, backward the other way.
            let gives = is_first == (pass == 0);
            out.extend((!gives).then(take));
            (0..2).for_each(|n| out.extend(layer(rank, [step, 100 * pass + 10 * batch + n], has_ring)));
            out.extend(gives.then(hand_on));
        }
    }
    out
}

#[test]
fn messages_of_a_ring_are_no_micro_batches() {
    for has_ring in [false, true] {
        let rings = [[0, 1], [2, 3]].map(|ranks| Group::new("1", "cp", ranks));
        let pipes = [[0, 2], [1, 3]].map(|ranks| Group::new("2", "pp", ranks));
        let program = move |rank: u32, step: u64| work(rank, step, has_ring);
        let job = Job::new(4, 4, &program).groups(rings.into_iter().chain(pipes));
        let rows = Recording::full().answer(&simulate(&job)).rows("pipelines");
        assert_eq!(rows.len(), 8, "{rows:?}");
        for r in &rows {
            assert_eq!(r.int("micro_batches"), MICRO_BATCHES as i64, "{has_ring}: {}", r.0);
            assert_eq!(r.text("schedule_name"), "GPipe", "{has_ring}: {}", r.0);
        }
    }
}
