//! A slow place of the fabric: 8 hosts with 4 ranks each. Tensor parallel groups are hosts; data parallel rings cross 4
//! hosts on one rail; ranks send to the one 4 hosts further.
//!
//! ```text
//!   host        0 1 2 3       4 5 6 7
//!   rail 2      2 6 10 14     18 22 26 30     rings [2, 6, 10, 14] and [18, 22, 26, 30], messages 6 -> 22
//! ```

use super::job::{Action, Group, Job, about, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::{gain_of_repair, within};
use crate::run::{Answer, Record};
use hta_testkit::{ms, us};

/// Number of floats of a message of 4 MiB.
const LARGE: u64 = 1 << 20;
const WORLD: u32 = 32;
/// The rank whose NIC is slow: rail 2 of host 5.
const SLOW: u32 = 22;

fn groups() -> Vec<Group> {
    let tensor = (0..8).map(|h| Group::new("1", "TENSOR_MODEL_PARALLEL_GROUP", h * 4..h * 4 + 4));
    let ring = |g: u32| (g / 4 * 16 + g % 4..g / 4 * 16 + 16).step_by(4);
    let data = (0..8).map(|g| Group::new("2", "DATA_PARALLEL_GROUP", ring(g)));
    let stages = (0..16).map(|r| Group::new("3", "PIPELINE_MODEL_PARALLEL_GROUP", [r, r + 16]));
    tensor.chain(data).chain(stages).collect()
}

/// What a rank does in a step, with transfers through the slow NIC `percent` of the usual ones.
fn work(rank: u32, step: u64, percent: i64) -> Vec<Action> {
    let (tensor, data, stage) = (1 + rank / 4, 9 + rank / 16 * 4 + rank % 4, 17 + rank % 16);
    let passes = |ranks: &[u32]| if ranks.contains(&SLOW) { percent } else { 100 };
    let of_ring = if rank / 16 == SLOW / 16 && rank % 4 == SLOW % 4 { percent } else { 100 };
    let transfer = about(us(500), 5, stage, step, 1) * passes(&[rank % 16, rank % 16 + 16]) / 100;
    let message = match rank {
        0..16 => {
            Action::Send { group: stage as usize, to: rank + 16, elements: LARGE, transfer, is_eager: false }
        }
        _ => Action::Receive { group: stage as usize, from: rank - 16, elements: LARGE, transfer },
    };
    vec![
        kernel("gemm", about(ms(2), 3, rank, step, 2)),
        all_reduce(tensor as usize, LARGE, about(us(100), 5, tensor, step, 3)),
        message,
        kernel("gemm", about(ms(2), 3, rank, step, 4)),
        all_reduce(data as usize, LARGE, about(ms(1), 5, data, step, 5) * of_ring / 100),
    ]
}

fn simulated(steps: u64, percent: i64) -> Simulated {
    let program = move |rank: u32, step: u64| work(rank, step, percent);
    simulate(&Job::new(WORLD, steps, &program).groups(groups()))
}

fn told(answer: &Answer) -> Vec<Record> {
    answer.rows_where("fabric_places", |r| !r.cell("verdict").is_null())
}

fn causes(answer: &Answer) -> Vec<Record> {
    answer.rows_where("findings", |r| r.text("kind") == "link_slow")
}

#[test]
fn a_slow_nic_is_named_and_owns_its_excess_with_the_gain_of_its_repair() {
    let (job, usual) = (simulated(10, 200), simulated(10, 100));
    let answer = Recording::full().answer(&job);
    let told = told(&answer);
    assert_eq!(told.len(), 1, "{told:?}");
    let place = &told[0];
    assert_eq!((place.text("kind"), place.text("host"), place.text("verdict")), ("nic", "node-5", "named"));
    assert_eq!((place.int("rail"), place.int("rank"), place.int("groups")), (2, i64::from(SLOW), 2));
    let factor = place.float("factor").expect("a factor");
    assert!((1.85..2.15).contains(&factor), "{factor}");
    assert!(place.float("p_value").is_some_and(|p| p <= 0.02));

    let found = causes(&answer);
    assert_eq!(found.len(), 1, "{found:?}");
    let found = &found[0];
    assert_eq!((found.text("ranks"), found.text("basis")), ("22", "replay"));
    assert!(found.text("sentence").starts_with("Network: NIC of host node-5 on rail 2 is "), "{found:?}");
    within("gain", found.int("recoverable_ns"), gain_of_repair(&job, &usual), 15);
    // The four ranks of the ring transfer 1 ms longer in each step, and others wait for them.
    let excess = 10 * 4 * ms(1);
    assert!(found.int("owned_ns") > excess, "{} of {excess}", found.int("owned_ns"));
    let owned = |part: &str| -> i64 {
        let of_part = |r: &Record| r.text("part") == part && r.cell("cause") == "link_slow";
        answer.rows_where("time_account", of_part).iter().map(|r| r.int("time_ns")).sum()
    };
    assert!(owned("transfer") > excess * 8 / 10 && owned("waiting") > 0);
    assert!(answer.rows_where("findings", |r| r.text("kind") == "transfer_bandwidth").is_empty());
}

#[test]
fn without_a_slow_place_nothing_is_told() {
    let answer = Recording::full().answer(&simulated(10, 100));
    assert_eq!((told(&answer).len(), causes(&answer).len()), (0, 0));
    let alone =
        answer.rows_where("fabric_places", |r| r.text("kind") == "nic" && r.text("visible") == "alone");
    assert_eq!(alone.len(), WORLD as usize);
}

#[test]
fn nine_steps_tell_no_place() {
    let answer = Recording::full().answer(&simulated(9, 200));
    assert!(causes(&answer).is_empty());
    let told = told(&answer);
    assert!(!told.is_empty() && told.iter().all(|r| r.text("verdict") == "late"), "{told:?}");
}

/// The bandwidth of a ring is compared with what the user says of a NIC, and with nothing that is guessed.
#[test]
fn the_peak_of_a_nic_is_the_one_that_is_given() {
    let job = simulated(3, 100);
    let ring = |r: &Record| r.text("kind") == "all_reduce" && r.flag("across_hosts") == Some(true);
    let own = Recording::full().answer(&job);
    let rows = own.rows_where("fabric_groups", ring);
    assert!(!rows.is_empty() && rows.iter().all(|r| r.text("peak_source") == "own 90th percentile"));
    let sizes = rows.iter().map(|r| (r.int("size_bytes"), r.int("member_count")));
    assert!(sizes.into_iter().all(|s| s == (4 << 20, 4)));
    // 1.5 times 4 MiB in about 1 ms.
    let rate = rows[0].float("bus_gb_per_s").expect("a rate");
    assert!((5.5..7.0).contains(&rate), "{rate}");
}
