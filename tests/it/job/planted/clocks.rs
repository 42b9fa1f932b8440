//! Clocks with offsets of milliseconds, or with drift, are recovered from the ends of collectives.

use super::job::{Action, Job, Join, Kind, about, all_reduce, draw, forward};
use super::recording::{Clock, Recording};
use super::simulate::{Simulated, simulate};
use super::truth::{check_matches, check_waits};
use crate::run::{Answer, options};
use hta::analysis::api::Options;
use hta::job::ClockMode;
use hta_testkit::{Detail, ms, us};

const OFFSETS: [i64; 8] = [0, ms(7) + 123, -ms(4), us(350), -us(2_750), ms(12) + 1, us(-90), ms(3)];

fn program(rank: u32, step: u64) -> Vec<Action> {
    let mut actions = forward(rank, step);
    actions.push(all_reduce(0, 4_000_000, us(300)));
    actions.push(super::job::kernel("backward", about(us(1_700), 5, rank, step, 50)));
    actions.push(all_reduce(0, 90_000, us(60)));
    actions
}

fn job(steps: u64, end_skew: i64) -> Simulated {
    simulate(&Job::new(8, steps, &program).end_skew(end_skew))
}

fn with(mode: ClockMode) -> Options {
    let mut o = options();
    o.across.clock = mode;
    o
}

/// By rank: offset found, planted offset at that moment, and the tolerance.
fn found(answer: &Answer, recording: &Recording) -> Vec<(i64, i64, i64)> {
    let rows = answer.rows("ranks");
    let one = |r: &crate::run::Record| {
        let clock = recording.clock(r.int("rank") as u32);
        // The planted offset at a time of the rank's own clock.
        let true_time = r.int("clock_at_ts_ns") - ORIGIN - clock.offset;
        let planted = clock.offset + (i128::from(clock.drift) * i128::from(true_time) / 1_000_000_000) as i64;
        (r.int("clock_found_ns"), planted, r.int("clock_residual_ns").max(us(1)))
    };
    rows.iter().map(one).collect()
}

/// Unix time of the simulator's time 0.
const ORIGIN: i64 = hta_testkit::DEFAULT_BASE_NS + 1_000_000_000_000;

/// Found and planted offsets differ by one common shift.
fn check_offsets(what: &str, answer: &Answer, recording: &Recording) {
    let found = found(answer, recording);
    assert_eq!(found.len(), 8);
    let least = found.iter().map(|(f, p, tolerance)| f - p + tolerance).min();
    let most = found.iter().map(|(f, p, tolerance)| f - p - tolerance).max();
    assert!(most <= least, "{what}: found, planted, tolerance: {found:?}");
}

fn states(answer: &Answer) -> Vec<String> {
    answer.rows("ranks").iter().map(|r| r.text("clock_state").to_string()).collect()
}

#[test]
fn planted_offsets_are_recovered_and_applied() {
    for skew in [0, us(25)] {
        let job = job(if skew > 0 { 30 } else { 10 }, skew);
        let steps = job.calls().count() / 16;
        let mut ways = Recording::unnumbered();
        ways.extend([Recording::full(), Recording::new(Detail::Positional)]);
        for recording in ways.into_iter().map(|r| r.clocks(&OFFSETS)) {
            let what = format!("{:?} steps {} skew {skew}", recording.detail, recording.has_steps);
            let answer = recording.answer(&job);
            check_offsets(&what, &answer, &recording);
            check_matches(&what, &answer, &job, &recording);
            let compared = check_waits(&what, &answer, &job, &recording, us(2).max(2 * skew));
            assert_eq!(compared, 8 * 2 * steps);
            // Relative to the median rank, whose offset is 0 or 350 us; only its neighbour at -90 us may be
            // too close.
            let applied = states(&answer).iter().filter(|s| *s == "applied").count();
            assert!(applied >= 6, "{what}: {:?}", states(&answer));
        }
    }
}

#[test]
fn offsets_travel_along_groups_that_share_a_rank() {
    // No group contains all ranks: 0-3, 3-5, 5-7.
    let groups = [(1, 0..4), (2, 3..6), (3, 5..8)];
    let program = |rank: u32, step: u64| {
        let mut actions = Vec::new();
        for (group, ranks) in groups.clone() {
            if ranks.contains(&rank) {
                actions.push(super::job::kernel("gemm", about(us(500), 20, rank, step, group as u64)));
                actions.push(Action::Join(Join::new(group, Kind::AllGather, 30_000, us(40))));
            }
        }
        actions
    };
    let names = ["a", "b", "c"];
    let groups =
        groups.clone().into_iter().zip(names).map(|((_, r), n)| super::job::Group::new(n, "undefined", r));
    let job = simulate(&Job::new(8, 12, &program).groups(groups));
    let recording = Recording::full().clocks(&OFFSETS);
    let answer = recording.answer(&job);
    check_offsets("chain of groups", &answer, &recording);
    check_waits("chain of groups", &answer, &job, &recording, us(2));
}

#[test]
fn times_of_tables_across_ranks_are_aligned() {
    let job = job(10, 0);
    let recording = Recording::full().clocks(&OFFSETS);
    let rows = recording.answer(&job).rows("collectives");
    for id in 0..20 {
        let ends: Vec<i64> = rows
            .iter()
            .filter(|r| r.opt_int("collective") == Some(id))
            .map(|r| r.int("ts_ns") + r.int("dur_ns"))
            .collect();
        let apart = ends.iter().max().expect("an end") - ends.iter().min().expect("an end");
        // Offsets below 20 us are reported but not applied; all planted ones are larger.
        assert!(ends.len() == 8 && apart <= us(2), "{id}: {apart}");
    }
}

#[test]
fn drift_over_a_long_capture_is_recovered() {
    let drifts = [0, 50_000, 0, -20_000, 0, 0, 8_000, 0];
    // 25 s in total, because of pauses of the loader.
    let slow = |rank: u32, step: u64| {
        let mut actions = vec![Action::Loader(ms(250) + draw(&[step], ms(3)))];
        actions.extend(program(rank, step));
        actions
    };
    for (skew, detail) in [(0, Detail::Full), (us(10), Detail::Full), (0, Detail::NoSequence)] {
        let job = simulate(&Job::new(8, 100, &slow).end_skew(skew));
        let clocks = OFFSETS.iter().zip(drifts).map(|(&offset, drift)| Clock { offset, drift }).collect();
        let recording = Recording { clocks, ..Recording::new(detail) };
        let answer = recording.answer(&job);
        let what = format!("{detail:?} skew {skew}");
        for (row, planted) in answer.rows("ranks").iter().zip(drifts) {
            let found = row.int("clock_drift_ns_per_s");
            assert!((found - planted).abs() <= (planted.abs() / 10).max(200), "{what}: {planted} {}", row.0);
            assert_eq!(row.cell("clock_is_linear"), planted != 0, "{what}: {}", row.0);
        }
        check_offsets(&what, &answer, &recording);
        check_matches(&what, &answer, &job, &recording);
        // With the default, offsets below 20 us would not be applied.
        let asked = recording.answer_with(&job, &with(ClockMode::Collectives));
        check_waits(&what, &asked, &job, &recording, us(2).max(2 * skew));
    }
}

/// No rank has the true time: slopes and offsets are found up to a common one.
#[test]
fn clocks_that_all_drift_differently_are_brought_together() {
    let clock = |rank: i64| Clock { offset: OFFSETS[rank as usize], drift: 9_000 * rank - 31_000 };
    let slow = |rank: u32, step: u64| {
        let mut actions = vec![Action::Loader(ms(250) + draw(&[step], ms(3)))];
        actions.extend(program(rank, step));
        actions
    };
    let job = simulate(&Job::new(8, 100, &slow));
    let recording = Recording { clocks: (0..8).map(clock).collect(), ..Recording::full() };
    let answer = recording.answer_with(&job, &with(ClockMode::Collectives));
    check_offsets("all drift", &answer, &recording);
    let found: Vec<i64> = answer.rows("ranks").iter().map(|r| r.int("clock_drift_ns_per_s")).collect();
    for pair in found.windows(2) {
        assert!((pair[1] - pair[0] - 9_000).abs() <= 900, "{found:?}");
    }
    check_waits("all drift", &answer, &job, &recording, us(2));
}

#[test]
fn without_alignment_nothing_is_applied() {
    let job = job(10, 0);
    let recording = Recording::full().clocks(&OFFSETS);
    let answer = recording.answer_with(&job, &with(ClockMode::None));
    for row in answer.rows("ranks") {
        assert_eq!((row.int("clock_offset_ns"), row.text("clock_state")), (0, "reported"), "{}", row.0);
    }
    check_offsets("none", &answer, &recording);
    for (row, call) in super::truth::rows(&answer, &job, &recording) {
        let call = call.expect("no extra calls");
        assert_eq!(row.int("ts_ns"), ORIGIN + recording.clock(call.rank).shows(call.run.start));
    }
}

#[test]
fn small_offsets_are_reported_and_applied_only_when_asked_for() {
    let job = job(10, 0);
    let recording = Recording::full().clocks(&[0, us(15), 0, 0, -us(12), 0, 0, 0]);
    let auto = recording.answer(&job);
    check_offsets("auto", &auto, &recording);
    assert!(states(&auto).iter().all(|s| s == "reported"), "{:?}", states(&auto));
    let asked = recording.answer_with(&job, &with(ClockMode::Collectives));
    assert!(states(&asked).iter().all(|s| s == "applied"), "{:?}", states(&asked));
    check_waits("asked", &asked, &job, &recording, us(1));
}

#[test]
fn few_collectives_that_agree_prove_an_offset() {
    for (steps, offset) in [(1, ms(40)), (1, ms(10_000)), (3, ms(40)), (3, -us(350))] {
        let job = job(steps, 0);
        let recording = Recording::full().clocks(&[0, 0, 0, 0, offset, offset, offset, offset]);
        let what = format!("{steps} steps, {offset} ns");
        let answer = recording.answer(&job);
        check_offsets(&what, &answer, &recording);
        check_waits(&what, &answer, &job, &recording, us(2));
        assert!(!trust(&answer).iter().any(|rule| rule == "ends_before_arrival"), "{what}");
    }
}

#[test]
fn clocks_that_contradict_each_other_withhold_what_compares_ranks() {
    let recording = Recording::full().clocks(&OFFSETS);
    let answer = recording.answer_with(&job(3, 0), &with(ClockMode::None));
    assert!(trust(&answer).iter().any(|rule| rule == "ends_before_arrival"), "{:?}", trust(&answer));
}

/// The rules that find something.
fn trust(answer: &Answer) -> Vec<String> {
    answer.rows("trust").iter().map(|r| r.text("rule").to_string()).collect()
}
