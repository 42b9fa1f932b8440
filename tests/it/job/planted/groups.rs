//! Process groups: tensor times data parallel with names that are reused, and lists that torch cuts.

use super::job::{Action, Group, Job, Join, Kind, about, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::simulate;
use super::truth::{check_matches, check_waits};
use hta_testkit::{Detail, us};

/// `tp` neighbours form a tensor-parallel group, equal positions a data-parallel group; all have the same name.
pub fn tp_dp(world: u32, tp: u32) -> Vec<Group> {
    let tensor = (0..world / tp).map(|g| Group::new("1", "tp", g * tp..(g + 1) * tp));
    let data = (0..tp).map(|g| Group::new("2", "dp", (g..world).step_by(tp as usize)));
    tensor.chain(data).collect()
}

/// Indices of a rank's two groups.
pub fn own_groups(world: u32, tp: u32, rank: u32) -> (usize, usize) {
    (1 + (rank / tp) as usize, 1 + (world / tp + rank % tp) as usize)
}

/// Two tensor-parallel collectives and one data-parallel collective per step.
pub fn work(world: u32, tp: u32) -> impl Fn(u32, u64) -> Vec<Action> {
    move |rank, step| {
        let (tensor, data) = own_groups(world, tp, rank);
        let gemm = |place| kernel("gemm", about(us(400), 25, rank, step, place));
        vec![
            gemm(1),
            all_reduce(tensor, 65_536, us(20)),
            gemm(2),
            Action::Join(Join::new(tensor, Kind::AllGather, 16_384, us(25))),
            gemm(3),
            Action::Join(Join::new(data, Kind::ReduceScatter, 500_000, us(180))),
        ]
    }
}

fn check(what: &str, world: u32, tp: u32, steps: u64, recording: &Recording) {
    let program = work(world, tp);
    let job = simulate(&Job::new(world, steps, &program).groups(tp_dp(world, tp)));
    let answer = recording.answer(&job);
    check_matches(what, &answer, &job, recording);
    let compared = check_waits(what, &answer, &job, recording, 0) as u64;
    assert_eq!(compared, u64::from(world) * steps * 3, "{what}");
    let groups = answer.rows("process_groups");
    assert_eq!(groups.len() as u32, world / tp + tp, "{what}");
    for g in &groups {
        assert_eq!(g.int("complete_count"), g.int("collective_count"), "{what}: {}", g.0);
        assert_eq!((g.flag("is_inferred"), g.int("disagreement_count")), (Some(false), 0), "{what}");
    }
}

#[test]
fn groups_alike_in_name_are_kept_apart_by_their_members() {
    for recording in
        [Recording::full(), Recording { has_numbers: false, ..Recording::new(Detail::NoSequence) }]
    {
        check(&format!("{:?}", recording.detail), 8, 2, 8, &recording);
    }
}

#[test]
fn members_of_lists_cut_after_thirty_entries_are_found() {
    // the two data-parallel groups have 32 members, the default group 64
    for recording in
        [Recording::full(), Recording { has_numbers: false, ..Recording::new(Detail::NoSequence) }]
    {
        check(&format!("64 ranks {:?}", recording.detail), 64, 2, 3, &recording);
    }
}

/// `0 1 2 .. 15 32 33 .. 47` and the others: the truncated lists cannot be completed by a rule.
#[test]
fn irregular_groups_with_cut_lists_are_told_apart_by_what_is_listed() {
    let half = |first: u32| (first..first + 16).chain(first + 32..first + 48);
    let groups = [Group::new("3", "ep", half(0)), Group::new("3", "ep", half(16))];
    let program = |rank: u32, step: u64| {
        let own = 1 + usize::from(rank / 16 % 2 == 1);
        vec![kernel("gemm", about(us(400), 25, rank, step, 1)), all_reduce(own, 65_536, us(20))]
    };
    let job = simulate(&Job::new(64, 3, &program).groups(groups));
    for recording in
        [Recording::full(), Recording { has_numbers: false, ..Recording::new(Detail::NoSequence) }]
    {
        let answer = recording.answer(&job);
        check_matches("irregular", &answer, &job, &recording);
        assert_eq!(check_waits("irregular", &answer, &job, &recording, 0), 64 * 3);
    }
}

#[test]
fn two_groups_of_the_same_ranks_are_told_apart_by_name() {
    let groups = [Group::new("4", "a", 0..4), Group::new("5", "b", 0..4)];
    let program = |rank: u32, step: u64| {
        let gemm = |place| kernel("gemm", about(us(300), 25, rank, step, place));
        let mut actions =
            vec![gemm(1), all_reduce(1, 1_000, us(20)), gemm(2), all_reduce(2, 1_000, us(20)), gemm(3)];
        if step.is_multiple_of(2) {
            actions.push(all_reduce(1, 1_000, us(20)));
        }
        actions
    };
    let job = simulate(&Job::new(4, 8, &program).groups(groups));
    for recording in
        [Recording::full(), Recording { has_numbers: false, ..Recording::new(Detail::NoSequence) }]
    {
        let answer = recording.answer(&job);
        check_matches("same ranks", &answer, &job, &recording);
        assert_eq!(check_waits("same ranks", &answer, &job, &recording, 0), 4 * 20);
    }
}
