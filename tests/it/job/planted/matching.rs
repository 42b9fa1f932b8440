//! Matching of calls when ranks recorded different parts of a job, with sequence numbers and without.
//!
//! ```text
//! rank 0   1...2...3...4...5...6...7...8
//! rank 1           3...4...5...6...7...8      started late
//! rank 2   1...2...3...4.......6...7...8      lost one
//! rank 3   1...2...3...4.x.5...6...7...8      has one too many
//! ```

use super::job::{Action, Job, about, all_reduce, forward};
use super::recording::{Extra, Recording};
use super::simulate::{Key, Simulated, simulate};
use super::truth::{check_matches, check_waits};
use hta_testkit::us;

const STEPS: u64 = 8;
const PER_STEP: u64 = 3;

fn program(rank: u32, step: u64) -> Vec<Action> {
    let mut actions = forward(rank, step);
    // Two of one size and one of another.
    for (place, elements) in [(20, 1_000_000), (21, 1_000_000), (22, 250_000)] {
        actions.push(super::job::kernel("backward", about(us(600), 5, rank, step, place)));
        actions.push(all_reduce(0, elements, us(150)));
    }
    actions
}

fn job() -> Simulated {
    simulate(&Job::new(4, STEPS, &program))
}

/// Recorded with sequence numbers, and in all ways without.
fn recordings() -> Vec<Recording> {
    let positional = Recording::new(hta_testkit::Detail::Positional);
    [Recording::full(), positional].into_iter().chain(Recording::unnumbered()).collect()
}

fn key(nth: u64) -> Key {
    Key { group: 0, wire: None, nth }
}

/// Checks all recordings after a change to each; `whole`: number of calls of complete collectives.
fn check(change: impl Fn(Recording) -> Recording, whole: u64) {
    let job = job();
    for recording in recordings().into_iter().map(change) {
        let what = format!("{:?} steps {}", recording.detail, recording.has_steps);
        let answer = recording.answer(&job);
        check_matches(&what, &answer, &job, &recording);
        assert_eq!(check_waits(&what, &answer, &job, &recording, 0) as u64, whole, "{what}");
    }
}

/// A moment at which a recording may begin: the middle of the wait before the end of a rank's n-th collective.
fn inside(job: &Simulated, rank: u32, nth: u64) -> i64 {
    let of = |nth: u64| job.calls().find(|c| c.rank == rank && c.key == key(nth)).expect("it was run");
    of(nth).submit.start + 1
}

#[test]
fn every_collective_is_matched_when_all_is_recorded() {
    check(|r| r, 4 * STEPS * PER_STEP);
}

#[test]
fn a_missing_head_shifts_nothing() {
    let job = job();
    // Rank 1 starts inside a step, after its first collective.
    let from = inside(&job, 1, 2 * PER_STEP);
    check(|r| r.only(1, from..i64::MAX), 4 * (STEPS * PER_STEP - 2 * PER_STEP - 1));
}

#[test]
fn a_missing_tail_shifts_nothing() {
    let job = job();
    let until = inside(&job, 2, 5 * PER_STEP);
    let kept = |c: &&super::simulate::Call| c.rank == 2 && c.run.end <= until;
    let kept = job.calls().filter(kept).count() as u64;
    assert!(kept > 0 && kept <= 5 * PER_STEP);
    check(|r| r.only(2, 0..until), 4 * kept);
}

#[test]
fn heads_and_tails_of_several_ranks_may_be_missing() {
    let job = job();
    let (a, b, c) = (inside(&job, 0, 4), inside(&job, 1, 10), inside(&job, 3, 20));
    let whole = |nth: u64| {
        let of = |rank: u32| job.calls().find(|c| c.rank == rank && c.key == key(nth)).expect("it was run");
        of(0).submit.start >= a && of(1).submit.start >= b && of(3).run.end <= c
    };
    let n = (0..STEPS * PER_STEP).filter(|n| whole(*n)).count() as u64;
    assert!((6..=10).contains(&n), "{n}");
    check(|r| r.only(0, a..i64::MAX).only(1, b..i64::MAX).only(3, 0..c), 4 * n);
}

#[test]
fn a_missing_instance_in_the_middle_touches_no_other() {
    check(|r| r.without(2, key(10)), 4 * (STEPS * PER_STEP - 1));
}

#[test]
fn missing_instances_of_several_ranks_touch_no_others() {
    let lost = [(0, 4), (1, 4), (2, 9), (3, 13), (0, 17), (1, 17), (2, 17)];
    let drop = |r: Recording| lost.iter().fold(r, |r, (rank, n)| r.without(*rank, key(*n)));
    check(drop, 4 * (STEPS * PER_STEP - 4));
}

/// An additional collective of the same size as its neighbours and one of another size, while the rank computes.
#[test]
fn one_collective_too_many_touches_no_other() {
    let job = job();
    for elements in [1_000_000, 777] {
        let at =
            job.calls().find(|c| c.rank == 3 && c.key == key(3 * PER_STEP)).expect("it was run").run.start;
        let run = at - us(1_500)..at - us(1_400);
        let extra = Extra { rank: 3, group: 0, run, elements, seq: 1_000 };
        let add = |r: Recording| Recording { extra: vec![extra.clone()], ..r };
        check(add, 4 * STEPS * PER_STEP);
    }
}

#[test]
fn without_one_rank_the_others_are_matched_and_partial() {
    check(|r| r.absent(1), 0);
    let job = job();
    for recording in recordings().into_iter().map(|r| r.absent(1)) {
        let answer = recording.answer(&job);
        let rows = answer.rows("collectives");
        assert_eq!(rows.len() as u64, 3 * STEPS * PER_STEP);
        assert!(rows.iter().all(|r| (r.int("member_count"), r.int("expected_count")) == (3, 4)));
        let groups = answer.rows("process_groups");
        assert_eq!((groups.len(), groups[0].int("complete_count")), (1, 0));
        assert_eq!(groups[0].int("matched_count"), groups[0].int("call_count"));
    }
}

#[test]
fn numbers_are_used_where_they_are_and_the_method_is_said() {
    let job = job();
    for recording in recordings() {
        let rows = recording.answer(&job).rows("collectives");
        let method = if recording.has_numbers { "seq" } else { "sequence" };
        assert!(rows.iter().all(|r| r.text("matched_by") == method), "{:?}", recording.detail);
    }
}
