//! Gradients that are reduced while the backward pass continues: which rank is slow, and what repairing it
//! gains. The truth is the same job simulated without the slowness.
//!
//! ```text
//! compute    |forward.....|b1...|b2...|b3...|b4...|b5...|b6...|       |adam|
//! stream 20                     [ar1]  [ar2]  [ar3] [ar4]  [ar5][ar6..]
//! ```

use super::job::{Action, Job, Join, Kind, about, forward, kernel};
use super::late::one;
use super::recording::Recording;
use super::simulate::simulate;
use super::truth::{gain_of_repair, within};
use crate::run::Answer;
use hta_testkit::us;

const STEPS: u64 = 6;
const BUCKETS: u64 = 6;

/// How much slower a rank is, percent.
#[derive(Clone, Copy, Debug)]
enum Slow {
    Device(i64),
    Backward(i64),
    Nothing,
}

impl Slow {
    fn forward(self) -> i64 {
        if let Slow::Device(pct) = self { pct } else { 0 }
    }

    fn backward(self) -> i64 {
        if let Slow::Device(pct) | Slow::Backward(pct) = self { pct } else { 0 }
    }
}

/// One step of data-parallel training; kernels vary by `noise` percent between ranks and steps.
fn step(rank: u32, step: u64, slow: Slow, noise: i64, transfer: i64) -> Vec<Action> {
    let longer = |dur: i64, pct: i64| dur + dur * pct / 100;
    let mut actions: Vec<Action> = forward(rank, step)
        .into_iter()
        .map(|a| match a {
            Action::Kernel { name, dur } => kernel(name, longer(dur, slow.forward())),
            other => other,
        })
        .collect();
    for bucket in 0..BUCKETS {
        for (place, (name, dur)) in
            [("dgrad", 420), ("wgrad", 430), ("norm_backward", 60)].into_iter().enumerate()
        {
            let dur = about(us(dur), noise, rank, step, 20 + 8 * bucket + place as u64);
            actions.push(kernel(name, longer(dur, slow.backward())));
        }
        actions.push(Action::Async(Join::new(0, Kind::AllReduce, 500_000 + bucket, transfer)));
    }
    actions.push(Action::Wait);
    actions.push(kernel("adam", us(150)));
    actions
}

/// Runs a job in which `who` is slow. Returns the answer, and how much shorter the mean step would be
/// without.
fn run(world: u32, who: u32, slow: Slow, seed: u64, noise: i64, transfer: i64) -> (Answer, i64) {
    let job = |slow: Slow| {
        let of = move |rank: u32, s: u64| {
            step(rank, s + 1000 * seed, if rank == who { slow } else { Slow::Nothing }, noise, transfer)
        };
        simulate(&Job::new(world, STEPS, &of))
    };
    let (late, usual) = (job(slow), job(Slow::Nothing));
    (Recording::full().answer(&late), gain_of_repair(&late, &usual) / STEPS as i64)
}

#[test]
fn a_rank_that_computes_slower_behind_collectives_is_named_with_its_gain() {
    for world in [8, 16] {
        for slow in [Slow::Device(10), Slow::Device(20), Slow::Backward(10), Slow::Backward(20)] {
            for (seed, transfer) in [(1, us(200)), (2, us(500))] {
                let who = (seed * 5 % u64::from(world)) as u32;
                let (answer, truth) = run(world, who, slow, seed, 3, transfer);
                let what = format!("{slow:?}, {world} ranks, transfer {transfer}");
                let row = one(&answer);
                assert_eq!(row.text("ranks"), who.to_string(), "{what}");
                assert_eq!(row.text("pattern"), "persistent", "{what}");
                assert_eq!(row.text("evidence"), "permutation", "{what}");
                assert!(row.float("p_value").is_some_and(|p| p <= 0.02), "{what}");
                within(&what, row.int("gain_per_step_ns"), truth, 15);
                let is_rank =
                    |r: &crate::run::Record| r.text("scope") == "rank" && r.text("what") == who.to_string();
                let repair = answer.rows_where("what_if", is_rank);
                within(&what, repair[0].int("gain_ns"), truth, 15);
                assert!(repair[0].float("replay_error_pct").is_some_and(|e| e < 0.1), "{what}");
                let cause = if matches!(slow, Slow::Device(_)) { "slow_device" } else { "slow_kernel" };
                assert_eq!(row.text("cause"), cause, "{what}");
            }
        }
    }
}

/// The transfers take longer than the backward pass, so a rank that computes longer costs less than its
/// excess.
#[test]
fn a_gain_is_no_more_than_what_transfers_leave_of_it() {
    let (answer, truth) = run(8, 3, Slow::Backward(20), 3, 3, us(1_000));
    let row = one(&answer);
    assert_eq!(row.text("ranks"), "3");
    within("stragglers", row.int("gain_per_step_ns"), truth, 15);
}

#[test]
fn nobody_is_named_when_the_same_job_is_balanced() {
    for world in [8, 16] {
        for seed in 0..6 {
            for noise in [2, 8] {
                let (answer, _) = run(world, 0, Slow::Nothing, 50 + seed, noise, us(200));
                assert_eq!(answer.rows("stragglers").len(), 0, "{world} ranks, seed {seed}, noise {noise} %");
            }
        }
    }
}

/// Two ranks and three steps, one rank 10 % slower: that may be chance, and the answer says how many steps to
/// record.
#[test]
fn two_ranks_and_three_steps_prove_nothing() {
    let job = |steps: u64| {
        let of = |rank: u32, s: u64| {
            step(rank, s, if rank == 1 { Slow::Device(20) } else { Slow::Nothing }, 3, us(200))
        };
        Recording::full().answer(&simulate(&Job::new(2, steps, &of)))
    };
    let few = job(3);
    assert_eq!(few.rows("stragglers").len(), 0);
    assert!(
        few.notes("stragglers").iter().any(|n| n.contains("record 7 steps")),
        "{:?}",
        few.notes("stragglers")
    );
    // It comes before what saves less.
    let told = |a: &Answer| a.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    assert!(
        told(&few).lines[0].starts_with("Cannot tell whether rank 1 is slower: "),
        "{:?}",
        told(&few).lines
    );
    assert!(told(&few).causes.first().is_none_or(|c| c.saved_pct < 5.0), "{:?}", told(&few).causes);
    let enough = job(8);
    assert_eq!(one(&enough).text("ranks"), "1");
    assert!(one(&enough).float("p_value").is_some_and(|p| p < 0.01));
}
