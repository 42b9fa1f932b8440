//! Invariants of every job, on small random ones.

use super::job::{Action, Group, Job, Join, Kind, all_reduce, draw, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::{check_matches, check_waits, lates, lates_without_steps};
use crate::run::{Answer, answer, options};
use hta_testkit::{Detail, ms, us};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KINDS: [Kind; 7] = [
    Kind::AllReduce,
    Kind::AllGather,
    Kind::ReduceScatter,
    Kind::AllToAll,
    Kind::Barrier,
    Kind::Broadcast,
    Kind::Reduce,
];

#[derive(Clone, Copy, Debug)]
enum Op {
    /// us, and how many percent ranks differ.
    Work(i64, i64),
    Loader(i64),
    /// Group, kind, elements, us.
    Meet(usize, usize, u64, i64),
}

#[derive(Clone, Debug)]
struct Small {
    world: u32,
    steps: u64,
    ops: Vec<Op>,
    seed: u64,
    is_numbered: bool,
    has_steps: bool,
    end_skew: i64,
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (20i64..900, 1i64..60).prop_map(|(us, percent)| Op::Work(us, percent)),
        1 => (50i64..400).prop_map(Op::Loader),
        4 => (0usize..3, 0usize..KINDS.len(), 1u64..100_000, 5i64..200).prop_map(|(g, k, n, t)| Op::Meet(g, k, n, t)),
    ]
}

fn small() -> impl Strategy<Value = Small> {
    let ops = prop::collection::vec(ops(), 1..10);
    (2u32..6, 2u64..5, ops, any::<u64>(), any::<bool>(), any::<bool>(), prop_oneof![Just(0i64), Just(3_000)])
        .prop_map(|(world, steps, ops, seed, is_numbered, has_steps, end_skew)| Small {
            world,
            steps,
            ops,
            seed,
            is_numbered,
            has_steps,
            end_skew,
        })
}

impl Small {
    /// The same with work before each collective, for which all members wait: so each is a separate delay.
    fn with_work_before_all(mut self) -> Self {
        let worked = |op| match op {
            Op::Meet(group, kind, elements, us) => {
                vec![Op::Work(40, 30), Op::Meet(group, kind % 5, elements, us)]
            }
            other => vec![other],
        };
        self.ops = self.ops.into_iter().flat_map(worked).collect();
        self
    }

    fn simulate(&self) -> Simulated {
        let more = [
            Group::new("1", "low", 0..self.world.div_ceil(2)),
            Group::new("2", "even", (0..self.world).step_by(2)),
        ];
        let groups: Vec<Group> = more.into_iter().filter(|g| g.ranks.len() > 1).collect();
        let known: Vec<Group> = std::iter::once(Group::world(self.world)).chain(groups.clone()).collect();
        let program = |rank: u32, step: u64| {
            let work = |place: usize, us_: i64, percent: i64| {
                let more =
                    draw(&[self.seed, u64::from(rank), step, place as u64], us(us_) * percent / 100 + 1);
                kernel("gemm", us(us_) + more)
            };
            let mut actions = Vec::new();
            for (place, op) in self.ops.iter().enumerate() {
                match *op {
                    Op::Work(us, percent) => actions.push(work(place, us, percent)),
                    Op::Loader(us_) => actions.push(Action::Loader(us(us_) + i64::from(rank))),
                    Op::Meet(g, k, elements, t) => {
                        let group = g % known.len();
                        if known[group].ranks.contains(&rank) {
                            actions.push(Action::Join(Join::new(group, KINDS[k], elements, us(t))));
                        }
                    }
                }
            }
            // Enough collectives to align clocks.
            for i in 0..5 {
                actions.push(work(100 + i, 150, 40));
                actions.push(all_reduce(0, 200_000 + i as u64, us(30)));
            }
            actions
        };
        simulate(&Job::new(self.world, self.steps, &program).groups(groups).end_skew(self.end_skew))
    }

    fn recording(&self) -> Recording {
        let detail = if self.is_numbered { Detail::Full } else { Detail::NoSequence };
        Recording { has_numbers: self.is_numbered, has_steps: self.has_steps, ..Recording::new(detail) }
    }
}

/// Every table as text, in its order.
fn tables(answer: &Answer) -> BTreeMap<&'static str, Vec<String>> {
    let mut all: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for batch in answer.batches() {
        let rows = hta::output::json::records(batch).into_iter().map(|r| r.to_string());
        all.entry(batch.spec.name).or_default().extend(rows);
    }
    all
}

/// Pattern, ranks and steps of each straggler.
fn stragglers(answer: &Answer) -> Vec<[String; 3]> {
    let rows = answer.rows("stragglers");
    rows.iter().map(|r| ["pattern", "ranks", "steps"].map(|c| r.text(c).to_string())).collect()
}

/// Waits of all calls and the excess of each rank in all steps and groups.
fn check_lateness(plan: Small) {
    let (job, recording) = (plan.simulate(), plan.recording());
    let answer = recording.answer(&job);
    check_matches("random", &answer, &job, &recording);
    assert_eq!(check_waits("random", &answer, &job, &recording, 0), job.calls().count());
    let mut known: BTreeMap<i64, i64> = BTreeMap::new();
    let all = if plan.has_steps { lates(&job) } else { lates_without_steps(&job) };
    all.iter().for_each(|l| *known.entry(i64::from(l.rank)).or_default() += l.excess);
    for rank in 0..i64::from(plan.world) {
        let all = |r: &crate::run::Record| r.int("rank") == rank && r.text("process_group").is_empty();
        let excess: i64 = answer.rows_where("straggler_delays", all).iter().map(|r| r.int("excess_ns")).sum();
        assert_eq!(excess, known.get(&rank).copied().unwrap_or(0), "rank {rank}");
    }
}

/// Periods are inferred that begin where rank 1 calls its first collective, while rank 0 still works.
#[test]
fn a_step_that_begins_between_two_arrivals_compares_both_from_the_capture() {
    check_lateness(Small {
        world: 2,
        steps: 3,
        ops: vec![
            Op::Work(451, 29),
            Op::Meet(0, 0, 1, 100),
            Op::Work(573, 54),
            Op::Meet(0, 1, 1, 5),
            Op::Work(89, 15),
        ],
        seed: 17_479_202_228_075_708_403,
        is_numbered: false,
        has_steps: false,
        end_skew: 0,
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn waits_and_lateness_equal_a_count_on_the_truth(plan in small()) {
        check_lateness(plan.with_work_before_all());
    }

    #[test]
    fn parts_of_durations_and_windows_sum_exactly(plan in small(), lost in 0u64..8) {
        let job = plan.simulate();
        let key = super::simulate::Key { group: 0, wire: None, nth: lost };
        let recording = plan.recording().without(1, key);
        let answer = recording.answer(&job);
        for r in answer.rows_where("collectives", |r| r.opt_int("collective").is_some()) {
            prop_assert_eq!(r.int("dur_ns"), r.int("wait_ns") + r.int("transfer_ns"), "{}", r.0);
            prop_assert!(r.int("wait_ns") >= 0 && r.int("transfer_ns") >= 0);
        }
        for r in answer.rows_where("collective_ranks", |_| true) {
            // Unknown if nothing matched.
            let matched = ["wait_sum_ns", "transfer_sum_ns"].map(|c| r.opt_int(c));
            let is_known = r.int("unmatched_count") < r.int("count");
            prop_assert_eq!(matched.map(|v| v.is_some()), [is_known; 2], "{}", r.0);
            let parts = matched.iter().flatten().sum::<i64>() + r.int("unmatched_sum_ns");
            prop_assert_eq!(r.int("dur_sum_ns"), parts, "{}", r.0);
        }
        let rows = answer.rows_where("sync", |r| r.text("process_group").is_empty());
        prop_assert!(rows.len() >= 2 * plan.world as usize);
        for r in rows {
            let parts = [
                "compute_only_ns",
                "overlapped_communication_ns",
                "waiting_ns",
                "transfer_ns",
                "unmatched_ns",
                "other_ns",
            ];
            prop_assert_eq!(r.int("dur_ns"), parts.iter().map(|c| r.int(c)).sum::<i64>(), "{}", r.0);
            prop_assert!(parts.iter().all(|c| r.int(c) >= 0), "{}", r.0);
        }
    }

    #[test]
    fn what_some_ranks_lost_costs_no_other_match(
        plan in small(),
        lost in prop::collection::vec((0u32..6, 0u64..12), 0..5),
        heads in prop::collection::vec(0i64..40, 6),
        tails in prop::collection::vec(0i64..40, 6),
        offsets in prop::collection::vec(-5i64..5, 6),
    ) {
        // Kinds with a root have no common end, so their order is not sufficient if a member lacks some.
        let kinds = |op: Op| match op {
            Op::Meet(g, k, n, t) => Op::Meet(g, k % 5, n, t),
            other => other,
        };
        // Without numbers, equal calls in quick succession are ambiguous when some are lost.
        let apart = |op: Op| match op {
            Op::Meet(..) if !plan.is_numbered => vec![Op::Work(200, 40), op],
            _ => vec![op],
        };
        let ops = plan.ops.iter().copied().map(kinds).flat_map(apart).collect();
        // Without numbers, few regular steps of which two ranks share only one or two are ambiguous.
        let has_steps = plan.has_steps || !plan.is_numbered;
        let plan = Small { ops, end_skew: 0, steps: 10, has_steps, ..plan };
        let job = plan.simulate();
        let end = job.calls().map(|c| c.run.end).max().unwrap_or(0);
        let offsets: Vec<i64> = offsets.into_iter().map(ms).collect();
        let mut recording = plan.recording().clocks(&offsets);
        for (rank, nth) in lost {
            recording = recording.without(rank, super::simulate::Key { group: 0, wire: None, nth });
        }
        for rank in 0..plan.world {
            // Several cuts inside steps at once, without numbers, are ambiguous, too; `matching` tests one at a time.
            let cut = |of: &[i64]| if plan.is_numbered { of[rank as usize] } else { 0 };
            let (head, tail) = (cut(&heads), cut(&tails));
            recording = recording.only(rank, end * head / 100..us(1) + end - end * tail / 100);
        }
        let answer = recording.answer(&job);
        check_matches("losses", &answer, &job, &recording);
    }

    #[test]
    fn order_of_files_and_threads_change_no_table(plan in small(), turn in 1usize..5) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut paths = plan.recording().write(&plan.simulate(), folder.path());
        let pool = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("threads can be made");
        let first = tables(&pool(1).install(|| answer(&paths, &options())));
        paths.reverse();
        let n = paths.len();
        paths.rotate_left(turn % n);
        let other = tables(&pool(4).install(|| answer(&paths, &options())));
        prop_assert!(first.keys().eq(other.keys()));
        for (name, rows) in &first {
            prop_assert_eq!(rows, &other[name], "{}", name);
        }
    }

    #[test]
    fn a_shifted_clock_changes_no_straggler_and_no_wait(plan in small(), who in 0u32..6) {
        let plan = Small { end_skew: 0, ..plan };
        let (job, right) = (plan.simulate(), plan.recording());
        let mut offsets = vec![0; plan.world as usize];
        offsets[(who % plan.world) as usize] = ms(1);
        let shifted = plan.recording().clocks(&offsets);
        let (first, other) = (right.answer(&job), shifted.answer(&job));
        prop_assert_eq!(stragglers(&first), stragglers(&other));
        check_matches("shifted", &other, &job, &shifted);
        check_waits("shifted", &other, &job, &shifted, us(2));
    }
}
