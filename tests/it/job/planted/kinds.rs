//! Which members wait for which, by kind of collective.
//!
//! ```text
//! broadcast   root     [transfer]                 leaves early
//!             other    [wait....][transfer]
//!             late               ...  [transfer]  waits for no one else
//! reduce      root     [wait............][transfer]
//!             other      [transfer]               leaves early
//! ```

use super::job::{Action, Group, Job, Join, Kind, about, draw, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::{check_matches, check_waits, rows};
use crate::run::Record;
use hta_testkit::{Detail, us};

const STEPS: u64 = 10;
const ELEMENTS: u64 = 5_000;

fn job(join: Join) -> Simulated {
    let program = move |rank: u32, step: u64| {
        let all = Action::Join(Join::new(0, Kind::AllReduce, 77, us(10)));
        vec![kernel("gemm", about(us(800), 60, rank, step, 1)), Action::Join(join), all]
    };
    simulate(&Job::new(4, STEPS, &program))
}

fn numbered_and_not() -> [Recording; 2] {
    [Recording::full(), Recording { has_numbers: false, ..Recording::new(Detail::NoSequence) }]
}

fn waits(job: &Simulated, recording: &Recording, kind: Kind) -> Vec<(Record, u32)> {
    let answer = recording.answer(job);
    check_matches(kind.name(), &answer, job, recording);
    assert_eq!(check_waits(kind.name(), &answer, job, recording, 0) as u64, 2 * 4 * STEPS);
    let of_kind = rows(&answer, job, recording).into_iter().filter_map(|(row, call)| Some((row, call?)));
    of_kind.filter(|(_, c)| c.kind == kind && c.elements == ELEMENTS).map(|(row, c)| (row, c.rank)).collect()
}

#[test]
fn members_of_synchronous_collectives_wait_for_the_last_of_all() {
    let kinds = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::Barrier];
    for kind in kinds {
        let job = job(Join::new(0, kind, ELEMENTS, us(40)));
        for recording in numbered_and_not() {
            let rows = waits(&job, &recording, kind);
            assert!(rows.iter().all(|(r, _)| r.text("kind") == kind.name()), "{:?}", rows[0]);
            // The last one does not wait.
            let last = |r: &Record| r.int("last_rank") == r.int("rank");
            assert!(rows.iter().all(|(r, _)| last(r) == (r.int("wait_ns") == 0)), "{kind:?}");
            assert!(rows.iter().all(|(r, _)| r.int("transfer_ns") == us(40)), "{kind:?}");
        }
    }
}

#[test]
fn members_of_a_broadcast_wait_for_its_root_and_the_root_for_nobody() {
    for root in [0, 2] {
        let job = job(Join::new(0, Kind::Broadcast, ELEMENTS, us(40)).root(root));
        for recording in numbered_and_not() {
            let rows = waits(&job, &recording, Kind::Broadcast);
            assert!(rows.iter().all(|(r, rank)| *rank != root || r.int("wait_ns") == 0));
            assert!(rows.iter().any(|(r, rank)| *rank != root && r.int("wait_ns") > us(40)));
        }
    }
}

#[test]
fn the_root_of_a_reduce_waits_for_all_and_the_others_for_nobody() {
    let job = job(Join::new(0, Kind::Reduce, ELEMENTS, us(40)));
    for recording in numbered_and_not() {
        let rows = waits(&job, &recording, Kind::Reduce);
        assert!(rows.iter().all(|(r, rank)| *rank == 0 || r.int("wait_ns") == 0));
        assert!(rows.iter().any(|(r, rank)| *rank == 0 && r.int("wait_ns") > us(40)));
    }
}

/// The root leaves up to half a millisecond before the others, and the next broadcast follows at once.
#[test]
fn broadcasts_without_numbers_are_matched_though_the_root_leaves_early() {
    let program = |rank: u32, step: u64| {
        let slow = if rank == 0 { 0 } else { us(300) + draw(&[u64::from(rank), step], us(100)) };
        let join = Join::new(0, Kind::Broadcast, ELEMENTS, us(40));
        let one = |place| kernel("copy_weights", about(us(60), 10, rank, step, place));
        let mut actions = vec![Action::Join(Join::new(0, Kind::AllReduce, 77, us(10)))];
        actions.push(kernel("gemm", us(50) + slow));
        actions.extend((0..6).flat_map(|i| [one(i), Action::Join(join)]));
        actions
    };
    let job = simulate(&Job::new(4, 6, &program));
    for recording in numbered_and_not() {
        let answer = recording.answer(&job);
        check_matches("broadcasts", &answer, &job, &recording);
        check_waits("broadcasts", &answer, &job, &recording, 0);
    }
}

/// Ends of broadcasts and reductions are not used for clocks.
#[test]
fn collectives_with_a_root_do_not_set_clocks() {
    let program = |rank: u32, step: u64| {
        let join = Join::new(1, Kind::Broadcast, ELEMENTS, us(40));
        vec![kernel("gemm", about(us(800), 60, rank, step, 1)), Action::Join(join)]
    };
    let job = simulate(&Job::new(4, 10, &program).groups([Group::new("1", "weights", 0..4)]));
    let answer = Recording::full().answer(&job);
    for row in answer.rows("ranks") {
        assert_eq!((row.text("clock_state"), row.int("clock_instances")), ("unaligned", 0), "{}", row.0);
    }
}
