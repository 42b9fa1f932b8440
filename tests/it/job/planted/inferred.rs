//! Groups whose members no rank records: inferred from the ranks' calls, or left unmatched.

use super::groups::{tp_dp, work};
use super::job::{Action, Group, Job, about, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::{check_matches, check_waits, rows};
use hta_testkit::{Detail, us};
use std::collections::BTreeMap;

fn unnumbered(detail: Detail) -> Recording {
    Recording { has_numbers: false, ..Recording::new(detail) }
}

#[test]
fn groups_are_inferred_from_sizes_and_ends() {
    let program = work(8, 2);
    let job = simulate(&Job::new(8, 8, &program).groups(tp_dp(8, 2)));
    for has_numbers in [true, false] {
        let recording = Recording { has_numbers, ..Recording::new(Detail::Positional) };
        let answer = recording.answer(&job);
        let what = format!("numbers {has_numbers}");
        check_matches(&what, &answer, &job, &recording);
        assert_eq!(check_waits(&what, &answer, &job, &recording, 0), 8 * 8 * 3);
        let groups = answer.rows("process_groups");
        assert_eq!(groups.len(), 6, "{what}");
        assert!(groups.iter().all(|g| g.cell("is_inferred") == true), "{what}");
    }
}

#[test]
fn groups_are_inferred_under_wrong_clocks() {
    let program = work(8, 2);
    let job = simulate(&Job::new(8, 10, &program).groups(tp_dp(8, 2)));
    let offsets = [0, 7_000_000, -4_000_000, 350_000, -2_750_000, 12_000_000, -90_000, 3_000_000];
    let recording = Recording::new(Detail::Positional).clocks(&offsets);
    let answer = recording.answer(&job);
    check_matches("wrong clocks", &answer, &job, &recording);
    check_waits("wrong clocks", &answer, &job, &recording, us(2));
}

/// All matches are right; any calls may be left unmatched.
fn check_nothing_is_wrong(what: &str, job: &Simulated, recording: &Recording) {
    let answer = recording.answer(job);
    let mut keys: BTreeMap<i64, super::simulate::Key> = BTreeMap::new();
    for (row, call) in rows(&answer, job, recording) {
        let (Some(id), Some(call)) = (row.opt_int("collective"), call) else { continue };
        let key = *keys.entry(id).or_insert(call.key);
        assert_eq!(key, call.key, "{what}: collective {id} joins two: {}", row.0);
    }
}

#[test]
fn nothing_but_names_joins_no_two_collectives() {
    let program = work(8, 2);
    let job = simulate(&Job::new(8, 8, &program).groups(tp_dp(8, 2)));
    check_nothing_is_wrong("names", &job, &unnumbered(Detail::Nothing));
    // One rank of a pair is missing: its partner has no possible match.
    for detail in [Detail::Positional, Detail::Nothing] {
        check_nothing_is_wrong("one is absent", &job, &unnumbered(detail).absent(2));
    }
}

/// Four pairs with identical calls at the same times: any pairing would agree, except with the groups that the
/// files list.
#[test]
fn several_answers_are_left_unmatched() {
    let groups = (0..4).map(|g| Group::new("1", "tp", 2 * g..2 * g + 2));
    let program = |rank: u32, step: u64| -> Vec<Action> {
        let same = |place| kernel("gemm", about(us(400), 25, 0, step, place));
        vec![
            same(1),
            all_reduce(1 + (rank / 2) as usize, 65_536, us(20)),
            same(2),
            all_reduce(0, 1_000, us(30)),
        ]
    };
    let job = simulate(&Job::new(8, 8, &program).groups(groups));
    let recording = unnumbered(Detail::Positional);
    let answer = recording.answer(&job);
    check_matches(
        "listed groups",
        &Recording { lists_groups: true, ..recording.clone() }.answer(&job),
        &job,
        &recording,
    );
    for (row, call) in rows(&answer, &job, &recording) {
        let is_pair = call.expect("no extra calls").key.group > 0;
        assert_eq!(row.opt_int("collective").is_none(), is_pair, "{}", row.0);
    }
}
