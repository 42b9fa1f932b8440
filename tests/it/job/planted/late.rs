//! Late ranks: which, in which steps, and by how much. One rank, several in turn, two together, from a step on, none.
//!
//! ```text
//! rank 5     |work..............extra][transfer]
//! others     |work..........][wait....|transfer]      gain: 5's arrival minus the second last
//! ```

use super::job::{Action, Job, Join, Kind, about, all_reduce, forward, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::{Late, gain_of_repair, lates, within};
use crate::run::{Answer, Record};
use hta_testkit::{Detail, ms, us};
use std::collections::BTreeMap;

pub const WORLD: u32 = 8;
pub const STEPS: u64 = 8;

/// Work of 3 ms and an all-reduce, preceded by `extra`.
pub fn plain(rank: u32, step: u64, extra: Vec<Action>) -> Vec<Action> {
    let mut actions = forward(rank, step);
    actions.extend(extra);
    actions.push(all_reduce(0, 4_000_000, us(300)));
    actions
}

pub fn simulated(program: super::job::Program) -> Simulated {
    simulate(&Job::new(WORLD, STEPS, program))
}

/// The only finding.
pub fn one(answer: &Answer) -> Record {
    let mut rows = answer.rows("stragglers");
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

/// Of one step of few ranks nobody can tell whether a delay lasts. The rank that all wait for is told first.
#[test]
fn of_one_step_the_rank_that_comes_last_each_time_is_told_first() {
    let program = |rank: u32, step: u64| -> Vec<Action> {
        let extra = || if rank == 1 { vec![kernel("extra", ms(3))] } else { Vec::new() };
        (0..10).flat_map(|_| plain(rank, step, extra())).collect()
    };
    let answer = Recording::full().answer(&simulate(&Job::new(4, 1, &program)));
    let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    assert!(told.lines[0].starts_with("Cannot tell whether this lasts: rank 1 late by "), "{:?}", told.lines);
}

/// Compares `straggler_delays` of every rank, step and group with the truth; every collective is a chain.
pub fn check_delays(answer: &Answer, job: &Simulated) {
    let mut known: BTreeMap<(i64, i64, usize), (i64, i64)> = BTreeMap::new();
    for l in lates(job) {
        let sum = known.entry((i64::from(l.rank), l.step as i64, l.key.group)).or_default();
        *sum = (sum.0 + l.gain, sum.1 + l.excess);
    }
    let rows = answer.rows_where("straggler_delays", |r| !r.text("process_group").is_empty());
    assert_eq!(rows.len(), known.len());
    for r in rows {
        let group = job.groups.iter().position(|g| {
            let shown = hta_group(g);
            r.text("process_group") == shown
        });
        let key =
            (r.int("rank"), r.int("step_label"), group.unwrap_or_else(|| panic!("no group of {}", r.0)));
        assert_eq!((r.int("gain_ns"), r.int("excess_ns")), known[&key], "{}", r.0);
    }
}

/// A group as tables name it: `1 (tp) [0, 1]`.
pub fn hta_group(g: &super::job::Group) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(first) = g.ranks.get(at) {
        let run = g.ranks[at..].iter().zip(*first..).take_while(|(r, n)| *r == n).count();
        let last = first + run as u32 - 1;
        parts.push(match run {
            1 => first.to_string(),
            2 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        });
        at += run;
    }
    format!("{} ({}) [{}]", g.name, g.description, parts.join(", "))
}

/// The lateness of one rank in each step, where it has one.
pub fn of_rank(job: &Simulated, rank: u32) -> Vec<Late> {
    lates(job).into_iter().filter(|l| l.rank == rank && l.own_gain() > 0).collect()
}

fn sums(lates: &[Late]) -> (i64, i64) {
    (lates.iter().map(Late::own_gain).sum(), lates.iter().map(|l| l.excess).sum())
}

fn amounts(row: &Record) -> (i64, i64) {
    (row.int("gain_sum_ns"), row.int("excess_sum_ns"))
}

#[test]
fn one_late_rank_is_named_with_its_gain_and_excess() {
    let program = |rank: u32, step: u64| {
        plain(rank, step, vec![kernel("extra", if rank == 5 { ms(2) } else { us(100) })])
    };
    let job = simulated(&program);
    let ways = [Recording::full(), Recording { has_numbers: false, ..Recording::new(Detail::Nothing) }];
    for recording in ways {
        let answer = recording.answer(&job);
        let row = one(&answer);
        assert_eq!((row.text("pattern"), row.text("ranks")), ("persistent", "5"));
        assert_eq!((row.int("late_step_count"), row.int("step_count")), (8, 8));
        assert_eq!(amounts(&row), sums(&of_rank(&job, 5)));
        check_delays(&answer, &job);
    }
}

#[test]
fn nobody_is_named_when_the_work_is_balanced() {
    let program = |rank: u32, step: u64| plain(rank, step, Vec::new());
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    assert_eq!(answer.rows("stragglers").len(), 0);
    check_delays(&answer, &job);
}

/// About 3 % of the step, in every step, while the others are alike.
#[test]
fn a_rank_that_is_a_little_late_is_named_where_it_stands_apart() {
    let of = |others: [i64; 8]| {
        let program =
            move |rank: u32, step: u64| plain(rank, step, vec![kernel("extra", us(others[rank as usize]))]);
        Recording::full().answer(&simulated(&program))
    };
    let row = one(&of([20, 140, 20, 20, 20, 20, 20, 20]));
    assert_eq!((row.text("pattern"), row.text("ranks")), ("persistent", "1"));
    // The others differ by as much for as long: jitter that lasts.
    let answer = of([20, 190, 110, 10, 10, 60, 90, 40]);
    assert_eq!(answer.rows("stragglers").len(), 0);
    let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    let said = [told.lines.to_vec(), told.notes].concat().join(" ").to_lowercase();
    assert!(said.contains("cannot tell whether this lasts: rank 1 late in 7 of 8 steps"), "{said}");
}

/// About 1 % of the step, in every step: below the default threshold of 2 %.
#[test]
fn a_rank_that_is_hardly_late_is_not_named_until_asked_for() {
    let program =
        |rank: u32, step: u64| plain(rank, step, vec![kernel("extra", us(if rank == 1 { 60 } else { 20 }))]);
    let job = simulated(&program);
    assert_eq!(Recording::full().answer(&job).rows("stragglers").len(), 0);
    let mut options = crate::run::options();
    options.across.straggler_min_pct = 0.5;
    let row = one(&Recording::full().answer_with(&job, &options));
    assert_eq!(row.text("ranks"), "1");
}

#[test]
fn a_rank_that_is_late_from_a_step_on_is_named_since_then() {
    let program = |rank: u32, step: u64| {
        let slow = rank == 6 && step >= 13;
        plain(rank, step, vec![kernel("extra", if slow { ms(2) } else { us(100) })])
    };
    let job = simulated(&program);
    let row = one(&Recording::full().answer(&job));
    assert_eq!((row.text("pattern"), row.text("ranks"), row.text("since_step")), ("persistent", "6", "13"));
    assert_eq!(row.text("steps"), "13, 14, 15, 16, 17");
    let late: Vec<Late> = of_rank(&job, 6).into_iter().filter(|l| l.step >= 13).collect();
    assert_eq!(amounts(&row), sums(&late));
}

#[test]
fn a_rank_that_is_late_in_few_steps_is_named_in_those() {
    let program = |rank: u32, step: u64| {
        let slow = rank == 2 && (step == 12 || step == 16);
        plain(rank, step, vec![kernel("extra", if slow { ms(2) } else { us(100) })])
    };
    let job = simulated(&program);
    let row = one(&Recording::full().answer(&job));
    assert_eq!((row.text("pattern"), row.text("ranks"), row.text("steps")), ("in_steps", "2", "12, 16"));
    let late: Vec<Late> = of_rank(&job, 2).into_iter().filter(|l| [12, 16].contains(&l.step)).collect();
    assert_eq!(amounts(&row), sums(&late));
}

#[test]
fn another_late_rank_in_each_step_is_one_rotating_finding() {
    let program = |rank: u32, step: u64| {
        let slow = u64::from(rank) == (3 * step) % 8;
        plain(rank, step, vec![kernel("extra", if slow { ms(2) } else { us(100) })])
    };
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    assert_eq!((row.text("pattern"), row.text("ranks")), ("rotating", "0-7"));
    let steps: Vec<String> = (10..18).map(|s| format!("{s}: {}", (3 * s) % 8)).collect();
    assert_eq!(row.text("steps"), steps.join("; "));
    let late: Vec<Late> = lates(&job).into_iter().filter(|l| u64::from(l.rank) == (3 * l.step) % 8).collect();
    assert_eq!((late.len(), amounts(&row)), (8, sums(&late)));
    check_delays(&answer, &job);
}

/// Repairing either one alone gains nothing, because the other would still be late.
#[test]
fn twins_are_judged_together() {
    let program = |late: i64| {
        move |rank: u32, step: u64| {
            let extra = if rank == 2 || rank == 6 { about(late, 1, rank, step, 70) } else { us(100) };
            plain(rank, step, vec![kernel("extra", extra)])
        }
    };
    let job = simulated(&program(ms(2)));
    let row = one(&Recording::full().answer(&job));
    assert_eq!((row.text("pattern"), row.text("ranks"), row.int("late_step_count")), ("together", "2, 6", 8));
    within("gain", row.int("gain_sum_ns"), gain_of_repair(&job, &simulated(&program(us(100)))), 1);
}

/// Repairing 3 leaves 5 late.
#[test]
fn a_second_straggler_is_named_behind_the_first() {
    let program = |rank: u32, step: u64| {
        let extra = [(3, ms(4)), (5, ms(2))].iter().find(|(r, _)| *r == rank).map_or(us(100), |(_, ns)| *ns);
        plain(rank, step, vec![kernel("extra", extra)])
    };
    let rows = Recording::full().answer(&simulated(&program)).rows("stragglers");
    let who: Vec<(&str, &str)> = rows.iter().map(|r| (r.text("ranks"), r.text("behind_ranks"))).collect();
    assert_eq!(who, [("3", ""), ("5", "3")]);
}

/// Buckets of gradients are reduced while the backward pass continues: one late forward pass delays all of them.
///
/// ```text
/// compute    |forward....|b1...|b2...|b3...|
/// stream 20                    [ar1] [ar2] [ar3]
/// ```
#[test]
fn a_delay_that_goes_through_all_buckets_counts_once() {
    let of = |late: i64, rank: u32, step: u64| {
        let mut actions = forward(rank, step);
        actions.push(kernel("extra", if rank == 4 { late } else { us(100) }));
        for bucket in 0..3 {
            actions.push(kernel("backward", about(us(900), 2, rank, step, 30 + bucket)));
            actions.push(Action::Async(Join::new(0, Kind::AllReduce, 500_000 + bucket, us(200))));
        }
        // Runs across the end of the last one on the late rank, too.
        actions.push(kernel("backward", about(us(500), 2, rank, step, 40)));
        actions.push(Action::Wait);
        actions.push(kernel("adam", us(80)));
        actions.push(all_reduce(0, 1, us(10)));
        actions
    };
    let job = simulated(&|rank, step| of(ms(2), rank, step));
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    assert_eq!((row.text("pattern"), row.text("ranks"), row.int("late_step_count")), ("persistent", "4", 8));
    let expected = gain_of_repair(&job, &simulated(&|rank, step| of(us(100), rank, step)));
    // The repaired rank is given the work of the typical rank, which differs from its own by 2 % of each kernel.
    within("gain", row.int("gain_sum_ns"), expected, 2);
    within("excess", row.int("excess_sum_ns"), expected, 1);
    assert!(expected > 8 * us(1_800) && expected < 8 * us(2_200));
}

/// Ranks that are late at once hide each other, and rank 5 hides both: they are told with it.
#[test]
fn ranks_that_are_late_at_once_in_few_steps_are_told_behind_a_slower_one() {
    let program = |rank: u32, step: u64| {
        let slow = if rank == 5 { ms(4) } else { us(100) };
        let slower = if [1, 4].contains(&rank) && [12, 16].contains(&step) { ms(2) } else { us(100) };
        plain(rank, step, vec![kernel("slow", slow), kernel("slower", slower)])
    };
    let answer = Recording::full().answer(&simulated(&program));
    let rows = answer.rows("stragglers");
    let who: Vec<(&str, &str, &str)> =
        rows.iter().map(|r| (r.text("pattern"), r.text("ranks"), r.text("behind_ranks"))).collect();
    assert_eq!(who, [("persistent", "5", ""), ("in_steps", "1, 4", "5")]);
    assert_eq!(rows[1].int("late_step_count"), 2);
    let first = &answer.rows("findings")[0];
    let behind =
        "Behind it ranks 1, 4 are late in steps 12, 16 (2 of 8) as well: its kernel `slower` takes 2.00 ms";
    assert_eq!(first.text("ranks"), "5");
    assert!(first.text("detail").contains(behind), "{}", first.text("detail"));
}

/// One late rank of the step and another that is not as late are no set.
#[test]
fn ranks_that_are_late_by_different_amounts_are_told_apart() {
    let program = |rank: u32, step: u64| {
        let slow = if rank == 5 { ms(6) } else { us(100) };
        let late = if step == 12 { [(1, 3_000), (4, 1_000)].into_iter().collect() } else { BTreeMap::new() };
        plain(
            rank,
            step,
            vec![kernel("slow", slow), kernel("slower", us(late.get(&rank).copied().unwrap_or(100)))],
        )
    };
    let answer = Recording::full().answer(&simulated(&program));
    let rows = answer.rows("stragglers");
    let who: Vec<(&str, &str)> = rows.iter().map(|r| (r.text("ranks"), r.text("behind_ranks"))).collect();
    assert_eq!(who, [("5", ""), ("1", "5"), ("4", "1, 5")]);
}

/// All wait for their data, two of them for longer, and all wait for rank 5: the two are named beside all.
#[test]
fn ranks_that_have_most_of_what_all_have_are_named() {
    let program = |rank: u32, step: u64| {
        let wait = if [2, 6].contains(&rank) { ms(3) } else { ms(1) + us(10 * i64::from(rank)) };
        let slow = kernel("slow", if rank == 5 { ms(6) } else { us(100) });
        plain(rank, step, vec![Action::Loader(wait), slow])
    };
    let answer = Recording::full().answer(&simulated(&program));
    let found = answer.rows_where("findings", |r| r.text("kind") == "data_loader");
    let detail = found[0].text("detail");
    assert!(detail.ends_with("; most on ranks 2, 6: 3.00 ms, on the others 1.07 ms at most"), "{detail}");
}

/// A step in which another rank is nearly as late does not hide a rank that is late in more steps than chance
/// explains.
#[test]
fn a_rank_that_is_late_in_some_steps_is_told_by_its_average() {
    let program = |late: i64| {
        move |rank: u32, step: u64| {
            let extra = match (rank, step) {
                (2, 11 | 13 | 16 | 18 | 19) => us(late),
                (6, 14) => us(400),
                _ => us(100),
            };
            plain(rank, step, vec![kernel("extra", about(extra, 5, rank, step, 70))])
        }
    };
    let of = |late: i64| simulate(&Job::new(WORLD, 12, &program(late)));
    let (job, usual) = (of(600), of(100));
    let rows = Recording::full().answer(&job).rows("stragglers");
    let first = &rows[0];
    assert_eq!((first.text("pattern"), first.text("ranks")), ("in_steps", "2"), "{rows:?}");
    assert_eq!(first.int("late_step_count"), 5, "{rows:?}");
    within("gain", first.int("gain_sum_ns"), gain_of_repair(&job, &usual), 10);
    assert!(first.float("p_value").is_some_and(|p| p <= 0.02), "{rows:?}");
    // Once in as many steps is no pattern.
    let rows = Recording::full().answer(&usual).rows("stragglers");
    assert!(rows.iter().all(|r| r.text("ranks") != "2"), "{rows:?}");
}
