//! Stages that exchange messages: a receive waits for its sender, and a send for its receiver, up to its own end.
//!
//! ```text
//! stage 0   |f0|s|f1|s|f2|s|                 eager: the send ends when the bytes are sent
//! stage 1       |r|f0.....|r|f1.....|r|f2    receives lag further and further behind
//! ```

use super::job::{Action, Group, Job, about, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::{check_matches, check_waits, rows};
use hta_testkit::{Detail, us};

const STAGES: u32 = 4;
const BATCHES: u64 = 4;

/// Forward and backward of each microbatch, stage by stage; `slow` makes later stages slower.
fn stage(rank: u32, step: u64, is_eager: bool, slow: i64) -> Vec<Action> {
    let elements = 200_000;
    let transfer = us(35);
    let send = |to| Action::Send { group: 1, to, elements, transfer, is_eager };
    let receive = |from| Action::Receive { group: 1, from, elements, transfer };
    let mut actions = Vec::new();
    for batch in 0..BATCHES {
        if rank > 0 {
            actions.push(receive(rank - 1));
        }
        let dur = us(300) + i64::from(rank) * slow;
        actions.push(kernel("forward", about(dur, 10, rank, step, batch)));
        if rank + 1 < STAGES {
            actions.push(send(rank + 1));
        }
    }
    for batch in 0..BATCHES {
        if rank + 1 < STAGES {
            actions.push(receive(rank + 1));
        }
        actions.push(kernel("backward", about(us(600), 10, rank, step, 10 + batch)));
        if rank > 0 {
            actions.push(send(rank - 1));
        }
    }
    actions.push(all_reduce(0, 100, us(15)));
    actions
}

fn job(is_eager: bool, slow: i64) -> Simulated {
    let program = move |rank: u32, step: u64| stage(rank, step, is_eager, slow);
    simulate(&Job::new(STAGES, 5, &program).groups([Group::new("7", "pp", 0..STAGES)]))
}

fn check(what: &str, job: &Simulated) {
    for recording in
        [Recording::full(), Recording { has_numbers: false, ..Recording::new(Detail::NoSequence) }]
    {
        let what = format!("{what} {:?}", recording.detail);
        let answer = recording.answer(job);
        check_matches(&what, &answer, job, &recording);
        assert_eq!(check_waits(&what, &answer, job, &recording, 0), job.calls().count(), "{what}");
        for (row, call) in rows(&answer, job, &recording) {
            let call = call.expect("no extra calls");
            let method = match (call.key.wire, recording.has_numbers) {
                (Some(_), _) => "peers",
                (None, true) => "seq",
                (None, false) => "sequence",
            };
            assert_eq!((row.text("kind"), row.text("matched_by")), (call.kind.name(), method), "{what}");
        }
    }
}

#[test]
fn both_ends_of_a_message_wait_for_the_other() {
    check("rendezvous", &job(false, 0));
}

#[test]
fn an_eager_sender_waits_no_longer_than_its_own_end() {
    check("eager", &job(true, 0));
}

#[test]
fn messages_keep_their_order_when_the_receiver_lags() {
    check("lagging", &job(true, us(250)));
}

#[test]
fn messages_are_matched_under_wrong_clocks() {
    let job = simulate(&Job::new(STAGES, 9, &|r, s| stage(r, s, false, 0)).groups([Group::new(
        "7",
        "pp",
        0..STAGES,
    )]));
    let recording = Recording::full().clocks(&[0, 5_000_000, -3_000_000, 800_000]);
    let answer = recording.answer(&job);
    check_matches("wrong clocks", &answer, &job, &recording);
    check_waits("wrong clocks", &answer, &job, &recording, us(2));
}

#[test]
fn a_lost_message_touches_no_other() {
    let job = job(false, 0);
    let lost = job
        .calls()
        .find(|c| c.rank == 2 && c.key.wire == Some((1, 2)) && c.key.nth == 6)
        .expect("it was run");
    let recording = Recording::full().without(2, lost.key);
    let answer = recording.answer(&job);
    check_matches("lost", &answer, &job, &recording);
    assert_eq!(check_waits("lost", &answer, &job, &recording, 0), job.calls().count() - 2);
}

/// Two separate pipelines of four stages: stage `s` of the first is rank `s`, of the second rank `4 + s`.
fn replicas(slow: Option<u32>, steps: u64, seed: u64) -> Simulated {
    let program = move |rank: u32, step: u64| {
        let (first, place) = (rank / STAGES * STAGES, rank % STAGES);
        let group = 1 + (rank / STAGES) as usize;
        let (elements, transfer, is_eager) = (200_000, us(35), false);
        let longer = |dur: i64| if slow == Some(rank) { dur * 13 / 10 } else { dur };
        let seeded = step + 1000 * seed;
        let mut actions = Vec::new();
        for batch in 0..BATCHES {
            if place > 0 {
                actions.push(Action::Receive { group, from: first + place - 1, elements, transfer });
            }
            actions.push(kernel("forward", longer(about(us(300), 3, rank, seeded, batch))));
            if place + 1 < STAGES {
                actions.push(Action::Send { group, to: first + place + 1, elements, transfer, is_eager });
            }
        }
        for batch in 0..BATCHES {
            if place + 1 < STAGES {
                actions.push(Action::Receive { group, from: first + place + 1, elements, transfer });
            }
            actions.push(kernel("backward", longer(about(us(600), 3, rank, seeded, 10 + batch))));
            if place > 0 {
                actions.push(Action::Send { group, to: first + place - 1, elements, transfer, is_eager });
            }
        }
        actions.push(kernel("adam", us(60)));
        actions
    };
    let groups = [Group::new("7", "pp", 0..STAGES), Group::new("8", "pp", STAGES..2 * STAGES)];
    simulate(&Job::new(2 * STAGES, steps, &program).groups(groups))
}

#[test]
fn a_slow_stage_is_compared_with_the_same_stage_of_another_pipeline() {
    for slow in [1, 2, 6] {
        let answer = Recording::full().answer(&replicas(Some(slow), 8, 1));
        let rows = answer.rows("stragglers");
        let named: Vec<&str> = rows.iter().map(|r| r.text("ranks")).collect();
        assert_eq!(named, [slow.to_string()], "{:?}", answer.notes("stragglers"));
        assert_eq!(rows[0].text("pattern"), "persistent");
    }
}

#[test]
fn nobody_is_named_in_balanced_pipelines() {
    for seed in 0..8 {
        let answer = Recording::full().answer(&replicas(None, 8, 10 + seed));
        assert_eq!(answer.rows("stragglers").len(), 0, "two pipelines, seed {seed}");
    }
    // A single pipeline has no replicas, so its stages are not judged, however long they wait.
    for slow in [0, us(90)] {
        let answer = Recording::full().answer(&job(false, slow));
        let pp = answer.rows_where("straggler_delays", |r| r.text("process_group").contains("pp"));
        assert!(pp.is_empty(), "{pp:?}");
    }
}

/// Without operators, messages around the work of a last stage do not tell its forward from its backward.
#[test]
fn stages_whose_chunks_cannot_be_told_are_named() {
    let (elements, transfer) = (200_000, us(35));
    let program = move |rank: u32, step: u64| {
        let other = 1 - rank;
        let send = Action::Send { group: 1, to: other, elements, transfer, is_eager: false };
        let receive = Action::Receive { group: 1, from: other, elements, transfer };
        let work = |name, batch| kernel(name, about(us(300), 10, rank, step, batch));
        let of_batch = |batch| match rank {
            0 => vec![work("forward", batch), send.clone(), receive.clone(), work("backward", batch)],
            _ => vec![receive.clone(), work("forward", batch), work("backward", batch), send.clone()],
        };
        (0..BATCHES).flat_map(of_batch).chain([all_reduce(0, 100, us(15))]).collect()
    };
    let answer =
        Recording::full().answer(&simulate(&Job::new(2, 5, &program).groups([Group::new("7", "pp", 0..2)])));
    let text = answer.notes("pipeline").join("\n");
    let told =
        "no pipeline found: ranks exchange messages, but the forward and backward chunks of rank 1 cannot";
    assert!(text.contains(told), "{text}");
}
