//! Groups of which there are too few to compare: two groups of 8 ranks that shard and gather a model, each across 8 hosts
//! with 2 ranks that work on the same tensors.
//!
//! ```text
//!   host        0     1     2     3 ...      pairs [0, 1], [2, 3] ...
//!   ranks      0 1   2 3   4 5   6 7 ...     groups [0, 2, 4, ...] and [1, 3, 5, ...]
//! ```

use super::job::{Action, Group, Job, about, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::{gain_of_repair, within};
use crate::run::Record;
use hta_testkit::{ms, us};

const WORLD: u32 = 16;
const STEPS: u64 = 12;
/// The rank with a slow card.
const SLOW: u32 = 5;

/// Lengths of the transfers of the slow rank's pair and group, percent of the usual ones.
fn job(pair: i64, group: i64) -> Simulated {
    let groups = || {
        let pairs = (0..WORLD / 2).map(|h| Group::new("1", "tp", 2 * h..2 * h + 2));
        let shards = (0..2).map(|t| Group::new("2", "fsdp", (t..WORLD).step_by(2)));
        pairs.chain(shards)
    };
    let program = move |rank: u32, step: u64| -> Vec<Action> {
        let (of_pair, of_group) = (1 + rank / 2, 1 + WORLD / 2 + rank % 2);
        let in_pair = if rank / 2 == SLOW / 2 { pair } else { 100 };
        let in_group = if rank % 2 == SLOW % 2 { group } else { 100 };
        let layer = |n: u64| {
            let gathered = about(ms(1), 5, of_group, step, 10 * n) * in_group / 100;
            let reduced = about(us(200), 5, of_pair, step, 10 * n + 1) * in_pair / 100;
            [
                all_reduce(of_group as usize, 4 << 20, gathered),
                kernel("gemm", about(ms(1), 3, rank, step, 10 * n + 2)),
                all_reduce(of_pair as usize, 1 << 20, reduced),
            ]
        };
        (0..3).flat_map(layer).collect()
    };
    simulate(&Job::new(WORLD, STEPS, &program).groups(groups()))
}

fn causes(job: &Simulated) -> Vec<Record> {
    Recording::full().answer(job).rows_where("findings", |r| r.text("kind") == "link_slow")
}

#[test]
fn a_slow_card_is_told_from_the_other_of_its_pair_by_the_group_that_is_slow() {
    let (own, usual) = (job(200, 200), job(100, 100));
    let found = causes(&own);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].text("ranks"), found[0].text("basis")), ("5", "replay"), "{found:?}");
    within("gain", found[0].int("recoverable_ns"), gain_of_repair(&own, &usual), 10);
}

#[test]
fn a_slow_link_of_a_pair_gains_nothing_in_groups_that_are_not_slow() {
    let (own, usual) = (job(400, 100), job(100, 100));
    let found = causes(&own);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].text("ranks"), "4,5", "{found:?}");
    within("gain", found[0].int("recoverable_ns"), gain_of_repair(&own, &usual), 10);
}

/// Two groups may differ in what they do: without a rank that a slow place has, the slower one is no slow place.
#[test]
fn one_of_two_groups_is_not_slow_for_the_sake_of_a_rank() {
    let found = causes(&job(100, 200));
    assert!(found.is_empty(), "{found:?}");
}
