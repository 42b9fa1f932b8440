//! Pipelines whose schedule, stages and lengths are planted: what their bubble is made of.
//!
//! ```text
//!   stage 0   |F0|F1|F2|......................|B0    |B1    |B2    |      GPipe: all forward, then all backward
//!   stage 1      |F0|F1|F2|...........|B0    |B1    |B2    |
//!   stage 2         |F0|F1|F2|B0    |B1    |B2    |
//! ```

use super::job::{Action, Group, Job, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use crate::run::{Answer, Record};
use hta_testkit::us;

const STAGES: u32 = 4;
const BATCHES: u64 = 6;
const TRANSFER: i64 = 35;

/// A step of GPipe; the chunks of the rank are longer by `heavy` percent, and messages between ranks 2 and 3 take
/// `slow` times as long.
fn gpipe_with(rank: u32, heavy: i64, slow: i64) -> Vec<Action> {
    let long = |ns: i64| ns + ns * heavy / 100;
    let (elements, transfer) = (200_000, |to: u32| us(TRANSFER) * if rank.min(to) == 2 { slow } else { 1 });
    let send = |to| Action::Send { group: 1, to, elements, transfer: transfer(to), is_eager: false };
    let receive = |from| Action::Receive { group: 1, from, elements, transfer: transfer(from) };
    let mut actions = Vec::new();
    for _ in 0..BATCHES {
        actions.extend((rank > 0).then(|| receive(rank - 1)));
        actions.push(kernel("forward", long(us(1000))));
        actions.extend((rank + 1 < STAGES).then(|| send(rank + 1)));
    }
    for _ in 0..BATCHES {
        actions.extend((rank + 1 < STAGES).then(|| receive(rank + 1)));
        actions.push(kernel("backward", long(us(2000))));
        actions.extend((rank > 0).then(|| send(rank - 1)));
    }
    actions.push(all_reduce(0, 100, us(15)));
    actions
}

fn gpipe(rank: u32, heavy: i64) -> Vec<Action> {
    gpipe_with(rank, heavy, 1)
}

/// `heavy` makes the chunks of stage 2 longer by so many percent.
fn job(description: &'static str, heavy: i64) -> Simulated {
    let program = move |rank: u32, _: u64| gpipe(rank, if rank == 2 { heavy } else { 0 });
    simulate(&Job::new(STAGES, 3, &program).groups([Group::new("7", description, 0..STAGES)]))
}

fn steps(answer: &Answer) -> Vec<Record> {
    answer.rows_where("pipelines", |_| true)
}

fn check_sums(answer: &Answer) {
    for step in steps(answer) {
        let reasons = ["schedule_ns", "imbalance_ns", "jitter_ns", "transfer_ns", "lag_ns"];
        let sum: i64 = reasons.iter().map(|part| step.opt_int(part).unwrap_or(0)).sum();
        assert_eq!(step.int("busy_mean_ns") + step.int("bubble_ns"), step.int("t_ns"));
        if step.opt_int("schedule_ns").is_some() {
            assert_eq!(sum, step.int("bubble_ns"), "reasons sum to the bubble");
        }
        let of_step = |r: &Record| r.cell("step_label") == step.cell("step_label");
        for rank in answer.rows_where("pipeline_ranks", of_step) {
            let parts: i64 =
                ["busy_ns", "fill_ns", "steady_ns", "drain_ns"].iter().map(|p| rank.int(p)).sum();
            assert_eq!(parts, step.int("t_ns"), "positions sum to the time");
        }
    }
}

/// The groups that the calls name do not matter, only who hands on to whom.
#[test]
fn a_pipeline_is_found_whatever_its_group_is_called() {
    for description in ["pp", "undefined"] {
        let answer = Recording::full().answer(&job(description, 0));
        let steps = steps(&answer);
        assert_eq!(steps.len(), 3, "{description}");
        for step in steps {
            let shape = ["rank_count", "stages_per_rank", "micro_batches"].map(|c| step.int(c));
            assert_eq!((step.text("schedule_name"), shape), ("GPipe", [4, 1, 6]), "{description}");
            assert_eq!((step.int("violation_count"), step.int("busy_mean_ns")), (0, us(18_000)));
            // (p-1)/(m+p-1) of its own time: 9,000 of 27,000 us.
            assert_eq!((step.int("schedule_ns"), step.int("imbalance_ns")), (us(9_000), 0), "{description}");
            assert!(step.float("ideal_pct").is_some_and(|pct| (pct - 100.0 / 3.0).abs() < 1e-9));
        }
        check_sums(&answer);
        answer.batches().for_each(crate::registry::follows_its_declaration);
        assert_eq!(answer.rows_where("pipeline_chunks", |_| true).len(), 3 * 4 * 12);
    }
}

/// Stage 2 takes 1.3 times as long: forward and backward of the other stages wait for it.
#[test]
fn a_heavy_stage_is_imbalance() {
    let answer = Recording::full().answer(&job("pp", 30));
    check_sums(&answer);
    for step in steps(&answer) {
        // Means: F 1,075 and B 2,150 us, so 9 x 3,225 with the order alone; stage 2 adds 300 and 600 us a
        // micro-batch, of which the mean has a quarter.
        assert_eq!(step.int("schedule_ns"), us(9 * 3_225 - 6 * 3_225));
        assert_eq!(step.int("imbalance_ns"), us(3_900 * 6 + 3 * 3_000 - 9 * 3_225));
    }
    let equal = answer.rows_where("pipeline_what_if", |r| r.text("change") == "equal stages");
    assert_eq!(equal[0].int("replay_ns"), us(9 * 3_225));
    let found = answer.rows_where("findings", |r| r.text("kind") == "pipeline_bubble");
    assert!(found[0].text("sentence").contains("GPipe, 4 stages x 6 micro-batches"), "{found:?}");
    assert!(found[0].text("sentence").contains("stage 2 too heavy"), "{found:?}");
    // Its kernels are as many as those of the others: at most, a device that is as fast saves all that is longer.
    assert_eq!(found[0].int("recoverable_ns"), 3 * us(900 * 6));
}

/// What is told of a pipeline of one program, and what it saves.
fn told_of(program: &dyn Fn(u32, u64) -> Vec<Action>) -> (String, i64) {
    let job = Job::new(STAGES, 3, program).groups([Group::new("7", "pp", 0..STAGES)]);
    let answer = Recording::full().answer(&simulate(&job));
    check_sums(&answer);
    let found = answer.rows_where("findings", |r| r.text("kind") == "pipeline_bubble");
    (found[0].text("sentence").to_string(), found[0].int("recoverable_ns"))
}

/// Kernels are as many as elsewhere, so that the devices may be slow: what that saves at most is what devices as
/// fast as the others do.
#[test]
fn all_stages_that_are_long_are_named() {
    let (sentence, gain) = told_of(&|rank, _| gpipe(rank, if rank >= 2 { 30 } else { 0 }));
    assert!(sentence.contains("stages 2, 3 too heavy or their devices slow"), "{sentence}");
    // Seven of nine chunks of each direction, of 300 and 600 us more, are behind each other.
    assert_eq!(gain, 3 * us(7 * 900));
}

/// The typical step says nothing of it.
#[test]
fn a_stage_that_is_long_in_one_step_is_told_with_the_step() {
    let (sentence, gain) = told_of(&|rank, step| gpipe(rank, if (rank, step) == (1, 11) { 30 } else { 0 }));
    assert!(sentence.contains("; stage 1 takes 1.30 times as long in step 11 (1 of 3)"), "{sentence}");
    assert_eq!(gain, us(6 * 900));
}

#[test]
fn a_slow_link_between_stages_is_named() {
    let (sentence, gain) = told_of(&|rank, _| gpipe_with(rank, 0, 10));
    assert!(sentence.contains("; a message between ranks 2, 3 takes 35"), "{sentence}");
    assert!(sentence.contains("between others 36"), "{sentence}");
    assert_eq!(gain, 3 * us(12 * 315));
}

/// What the others wait for then is of the host, not of the schedule.
#[test]
fn waits_behind_a_host_that_pauses_in_a_chunk_are_of_the_host() {
    let program = |rank: u32, step: u64| {
        let mut actions = gpipe(rank, 0);
        if (rank, step) == (3, 11) {
            let first = actions.iter().position(|a| matches!(a, Action::Kernel { .. })).unwrap();
            let pause = [Action::Frame("train.py(7): checkpoint", us(4_000)), kernel("forward", us(500))];
            actions[first] = kernel("forward", us(500));
            actions.splice(first + 1..first + 1, pause);
        }
        actions
    };
    let job = Job::new(STAGES, 3, &program).groups([Group::new("7", "pp", 0..STAGES)]);
    let answer = Recording::full().answer(&simulate(&job));
    let of_host = answer.rows_where("time_account", |r| {
        r.text("part") == "waiting"
            && r.cell("cause").as_str().is_some_and(|cause| cause.starts_with("host_"))
    });
    let waits: i64 = of_host.iter().map(|r| r.int("time_ns")).sum();
    assert!(waits > us(3 * 2_000), "{waits}");
}

fn owned(answer: &Answer, kind: &str) -> i64 {
    let rows = answer.rows_where("time_account", |r| r.cell("cause").as_str() == Some(kind));
    rows.iter().map(|r| r.int("time_ns")).sum()
}

/// One cause owns the bubble: waits, transfers and the gaps between them, in all ranks.
#[test]
fn the_bubble_has_one_cause() {
    for heavy in [0, 30] {
        let answer = Recording::full().answer(&job("undefined", heavy));
        let bubble: i64 = steps(&answer).iter().map(|s| s.int("bubble_ns") * s.int("rank_count")).sum();
        let (pipeline, bare) = (owned(&answer, "pipeline_bubble"), owned(&answer, "transfer_bare"));
        // Up to the launches of a host, which have an owner of their own.
        assert!((bubble - pipeline).abs() * 200 <= bubble, "{pipeline} ns of {bubble} ns");
        assert!(bare <= 3 * 4 * us(2 * 15), "{bare}");
    }
}

/// A second pipeline is what the first one is compared with: the same stage takes longer on one rank only.
#[test]
fn a_stage_that_is_long_in_one_pipeline_is_a_slow_rank() {
    let program = move |rank: u32, _: u64| {
        let mut actions = gpipe(rank % STAGES, if rank == 6 { 30 } else { 0 });
        let first = rank / STAGES * STAGES;
        for action in &mut actions {
            match action {
                Action::Send { group, to: other, .. } | Action::Receive { group, from: other, .. } => {
                    (*group, *other) = (1 + (rank / STAGES) as usize, first + *other);
                }
                _ => {}
            }
        }
        actions
    };
    let groups = [Group::new("7", "pp", 0..STAGES), Group::new("8", "pp", STAGES..2 * STAGES)];
    let answer = Recording::full().answer(&simulate(&Job::new(2 * STAGES, 3, &program).groups(groups)));
    let found = answer.rows_where("findings", |r| r.text("kind") == "pipeline_bubble");
    assert!(found[0].text("sentence").contains("stage 2 slow on rank 6"), "{found:?}");
    // The rank is told as late, and what it costs is not told again as what the pipeline saves.
    let first = &answer.rows("findings")[0];
    assert_eq!((first.text("kind"), first.text("ranks")), ("straggler", "6"), "{first:?}");
    assert_eq!(found[0].text("basis"), "bound", "{found:?}");
    assert!(!found[0].text("action").contains("check the device"), "{found:?}");
}

/// What a rank that is not recorded did is not known, so that nobody is blamed.
#[test]
fn without_a_rank_there_are_no_reasons() {
    let answer = Recording::full().absent(2).answer(&job("pp", 30));
    check_sums(&answer);
    let steps = steps(&answer);
    assert_eq!(steps.len(), 3);
    for step in steps {
        assert_eq!((step.text("missing_ranks"), step.opt_int("schedule_ns")), ("2", None));
        assert!(step.text("note").contains("rank 2 is not recorded"), "{step:?}");
        assert_eq!(step.int("rank_count"), 4);
    }
    assert_eq!(answer.rows_where("pipeline_ranks", |r| r.int("rank") == 2).len(), 0);
    assert_eq!(answer.rows_where("pipeline_ranks", |r| r.int("rank") == 3).len(), 3);
}

/// Ranks of a ring hand on in one direction, in forward and in backward.
#[test]
fn a_ring_is_no_pipeline() {
    let program = |rank: u32, _: u64| -> Vec<Action> {
        let (elements, transfer) = (200_000, us(TRANSFER));
        let next = Action::Send { group: 1, to: (rank + 1) % 4, elements, transfer, is_eager: true };
        let before = Action::Receive { group: 1, from: (rank + 3) % 4, elements, transfer };
        let rounds = (0..8).flat_map(|_| [kernel("attention", us(500)), next.clone(), before.clone()]);
        rounds.chain([all_reduce(0, 100, us(15))]).collect()
    };
    let job = Job::new(STAGES, 3, &program).groups([Group::new("7", "cp", 0..STAGES)]);
    assert_eq!(steps(&Recording::full().answer(&simulate(&job))).len(), 0);
}
