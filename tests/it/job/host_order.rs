//! Collectives of a CPU back end whose ends scatter as far as the calls are apart: `gloo_record_comm/plain` of two
//! ranks on two cores, and neighbours of it.
//!
//! ```text
//! rank 0   |c10d|  |gloo ............|        |c10d| |gloo .....|      ends up to 770 us after those of rank 1,
//! rank 1   |c10d|  |gloo ........|            |c10d| |gloo ........|   or up to 200 us before them
//! ```

use crate::run::{Answer, answer, options};
use hta_testkit::{Collective, TraceBuilder, us};
use std::collections::BTreeMap;
use std::ops::Range;

/// Submission and end of the calls of two ranks in us, as recorded.
const CALLS: [[(i64, i64); 2]; 12] = [
    [(159, 24_045), (842, 23_275)],
    [(24_251, 47_703), (23_657, 47_190)],
    [(47_879, 48_418), (47_433, 48_133)],
    [(48_578, 49_270), (48_289, 48_757)],
    [(49_558, 49_843), (49_092, 49_872)],
    [(50_202, 50_371), (49_980, 50_415)],
    [(50_656, 55_579), (50_496, 55_195)],
    [(55_727, 56_331), (55_405, 55_901)],
    [(56_586, 56_866), (56_186, 57_052)],
    [(56_947, 57_351), (57_151, 57_550)],
    [(57_428, 57_905), (57_644, 57_884)],
    [(57_991, 58_950), (58_183, 58_354)],
];

/// Starts and ends of the steps, between the calls.
const STEPS: [Range<i64>; 3] = [0..49_000, 49_000..56_000, 56_000..59_200];

/// A rank that recorded these calls; `like`: whose times it has; `later`: how much later it ends them, us.
fn rank(number: u32, world: u32, like: usize, later: i64, calls: Range<usize>, has_steps: bool) -> String {
    let mut t = TraceBuilder::new().rank(number).world(world).backend("gloo");
    for (label, step) in (1..).zip(STEPS).filter(|_| has_steps) {
        t.thread(1).step(label, us(step.start)..us(step.end));
    }
    for k in calls {
        let (submit, end) = CALLS[k][like];
        let name = if k % 2 == 0 { ("allreduce", 4096) } else { ("allgather", 256) };
        let c = Collective::new(name.0, name.1, "Float");
        // Gloo says nothing about its group.
        let worker = 7 + (k as i64 % 2);
        t.thread(1).gloo(&c, us(submit)..us(submit + 9), worker, us(submit + 30)..us(end + later));
    }
    t.to_json()
}

fn run(ranks: &[String]) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (i, text) in ranks.iter().enumerate() {
        std::fs::write(folder.path().join(format!("rank_{i}.json")), text).expect("it can be written");
    }
    answer(&[folder.path().to_path_buf()], &options())
}

/// For each collective the positions of its calls in `CALLS`; `first`: that of the first call of each rank.
fn instances(answer: &Answer, first: &[usize]) -> Vec<Vec<usize>> {
    let mut next: Vec<usize> = first.to_vec();
    let mut found: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    let mut rows = answer.rows("collectives");
    rows.sort_by_key(|r| (r.int("rank"), r.int("submit_ns")));
    for row in rows {
        let at = &mut next[row.int("rank") as usize];
        if let Some(id) = row.opt_int("collective") {
            found.entry(id).or_default().push(*at);
        }
        *at += 1;
    }
    found.into_values().filter(|calls| calls.len() > 1).collect()
}

fn are_right(found: &[Vec<usize>]) -> bool {
    found.iter().all(|calls| calls.iter().all(|k| *k == calls[0]))
}

#[test]
fn calls_in_one_order_are_matched_although_their_ends_scatter() {
    for has_steps in [true, false] {
        let ranks = [0, 1].map(|r| rank(r, 2, r as usize, 0, 0..12, has_steps));
        let answer = run(&ranks);
        let found = instances(&answer, &[0, 0]);
        assert_eq!((found.len(), are_right(&found)), (12, true), "{has_steps}: {found:?}");
        assert!(answer.rows("ranks").iter().all(|r| r.int("clock_offset_ns") == 0), "{has_steps}");
        let impossible = |r: &crate::run::Record| r.flag("ends_before_last_arrival") == Some(true);
        assert!(!answer.rows("collectives").iter().any(impossible), "{has_steps}");
    }
}

#[test]
fn three_ranks_are_matched_too() {
    for has_steps in [true, false] {
        let like = [(0, 0), (1, 0), (1, 35)];
        let ranks: Vec<String> =
            (0u32..).zip(like).map(|(r, (like, later))| rank(r, 3, like, later, 0..12, has_steps)).collect();
        let found = instances(&run(&ranks), &[0, 0, 0]);
        assert!(found.len() == 12 && found.iter().all(|calls| calls.len() == 3), "{found:?}");
        assert!(are_right(&found), "{has_steps}: {found:?}");
    }
}

#[test]
fn a_call_that_one_rank_did_not_record_shifts_no_other() {
    for (of_one, has_steps) in [(1..12, true), (0..11, true), (1..12, false), (0..11, false)] {
        let ranks = [rank(0, 2, 0, 0, 0..12, has_steps), rank(1, 2, 1, 0, of_one.clone(), has_steps)];
        let found = instances(&run(&ranks), &[0, of_one.start]);
        assert!(are_right(&found), "{of_one:?} {has_steps}: {found:?}");
        assert!(found.len() >= 9, "{of_one:?} {has_steps}: {found:?}");
    }
}

#[test]
fn captures_that_begin_a_turn_apart_are_not_matched_by_their_order() {
    // Ten equal turns of 10 to 14 ms; rank 1 began one turn later and ended one turn later.
    let one = |number: u32, turns: Range<i64>| {
        let mut t = TraceBuilder::new().rank(number).world(2).backend("gloo");
        for turn in turns {
            let s = us(10_000 * turn + 700 * (turn * turn % 7));
            let c = Collective::new("allreduce", 4096, "Float");
            t.thread(1).gloo(
                &c,
                s..s + us(9),
                7,
                s + us(30)..s + us(900 + 20 * (turn % 3) * i64::from(number)),
            );
        }
        t.to_json()
    };
    let found = instances(&run(&[one(0, 0..10), one(1, 1..11)]), &[0, 1]);
    assert_eq!((found.len(), are_right(&found)), (9, true), "{found:?}");
}
