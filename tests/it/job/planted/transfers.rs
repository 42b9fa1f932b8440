//! Causes in the communication itself: slow and queued transfers, and waits between the stages of a pipeline.

use super::job::{Action, Group, Job, Join, Kind, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::simulate;
use crate::run::{Answer, Record};
use hta_testkit::{ms, us};

/// Number of floats of a message of 4 MiB.
const LARGE: u64 = 1 << 20;

fn finding(answer: &Answer, kind: &str) -> Option<Record> {
    answer.rows_where("findings", |r| r.text("kind") == kind).into_iter().next()
}

/// Time that a kind of cause owns, ns.
fn owned(answer: &Answer, kind: &str) -> i64 {
    answer
        .rows_where("time_account", |r| r.cell("cause").as_str() == Some(kind))
        .iter()
        .map(|r| r.int("time_ns"))
        .sum()
}

fn near(a: i64, b: i64) -> bool {
    (a - b).abs() < us(200)
}

/// Of the ten all-reduces of a step, two take 4 ms instead of 1 ms.
#[test]
fn transfers_far_below_the_usual_bandwidth_are_a_cause() {
    let program = |_: u32, _: u64| -> Vec<Action> {
        let transfer = |i: u64| if i % 5 == 2 { ms(4) } else { ms(1) };
        (0..10).flat_map(|i| [kernel("gemm", ms(1)), all_reduce(0, LARGE, transfer(i))]).collect()
    };
    let answer = Recording::full().answer(&simulate(&Job::new(4, 3, &program)));
    let found = finding(&answer, "transfer_bandwidth").expect("a cause");
    assert_eq!((found.text("key"), found.text("rank_label")), ("all_reduce", "all 4 ranks"));
    assert!(near(found.int("recoverable_ns"), 3 * 2 * ms(3)), "{found:?}");
    assert!(near(owned(&answer, "transfer_bandwidth"), 4 * 3 * 2 * ms(3)));
    // What is usual remains without compute to hide it.
    assert!(near(owned(&answer, "transfer_bare"), 4 * 3 * 10 * ms(1)));
}

/// All transfers are equally fast, so none is slow.
#[test]
fn equal_transfers_are_only_bare() {
    let program = |_: u32, _: u64| -> Vec<Action> {
        (0..10).flat_map(|_| [kernel("gemm", ms(1)), all_reduce(0, LARGE, ms(2))]).collect()
    };
    let answer = Recording::full().answer(&simulate(&Job::new(4, 3, &program)));
    assert!(
        finding(&answer, "transfer_bandwidth").is_none() && finding(&answer, "transfer_queued").is_none()
    );
    assert!(near(owned(&answer, "transfer_bare"), 4 * 3 * 10 * ms(2)));
}

/// The all-reduce is ready at once, but the all-gather before it takes the stream for 4 ms, of which compute hides one.
#[test]
fn a_transfer_behind_another_kind_is_queued() {
    let program = |_: u32, _: u64| -> Vec<Action> {
        vec![
            kernel("gemm", ms(4)),
            Action::Async(Join::new(0, Kind::AllGather, LARGE, ms(4))),
            Action::Async(Join::new(0, Kind::AllReduce, LARGE, ms(3))),
            kernel("gemm", ms(1)),
            Action::Wait,
        ]
    };
    let answer = Recording::full().answer(&simulate(&Job::new(4, 4, &program)));
    let found = finding(&answer, "transfer_queued").expect("a cause");
    assert_eq!((found.text("key"), found.text("rank_label")), ("all_reduce", "all 4 ranks"));
    // It was delayed by 4 ms, longer than its own 3.
    assert!(near(owned(&answer, "transfer_queued"), 4 * 4 * ms(3)), "{}", owned(&answer, "transfer_queued"));
    assert!(near(owned(&answer, "transfer_bare"), 4 * 4 * ms(3)), "{}", owned(&answer, "transfer_bare"));
}

/// Two stages: the second waits for the first's forward, then the first for the second's backward.
#[test]
fn stages_that_wait_for_each_other_are_a_bubble() {
    for (description, is_pipeline) in
        [("PIPELINE_MODEL_PARALLEL_GROUP", true), ("CONTEXT_PARALLEL_GROUP", false)]
    {
        let program = |rank: u32, _: u64| -> Vec<Action> {
            let send =
                |to| Action::Send { group: 1, to, elements: LARGE, transfer: us(100), is_eager: false };
            let receive = |from| Action::Receive { group: 1, from, elements: LARGE, transfer: us(100) };
            match rank {
                0 => vec![kernel("forward", ms(5)), send(1), receive(1), kernel("backward", ms(5))],
                _ => vec![receive(0), kernel("forward", ms(5)), kernel("backward", ms(5)), send(0)],
            }
        };
        let job = Job::new(2, 3, &program).groups([Group::new("7", description, 0..2)]);
        let answer = Recording::full().answer(&simulate(&job));
        let found = finding(&answer, "pipeline_bubble");
        assert_eq!(found.is_some(), is_pipeline, "{description}");
        if is_pipeline {
            // Rank 0 waits 10 ms in each step, rank 1 for the first forward and then for backward and forward.
            let waits = 3 * ms(10) + ms(5) + 2 * ms(10);
            assert!(near(owned(&answer, "pipeline_bubble"), waits), "{}", owned(&answer, "pipeline_bubble"));
        }
    }
}
