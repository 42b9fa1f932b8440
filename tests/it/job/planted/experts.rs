//! Layers of experts: hot by tokens, slow at equal tokens, hot in turn, balanced.
//!
//! ```text
//! rank 2    |attention|dispatch|experts...................|combine|
//! others    |attention|dispatch|experts..|[wait...........|combine]
//! ```

use super::job::{Action, Group, Job, Join, Kind, about, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::simulate;
use crate::run::{Answer, Record};
use hta_testkit::us;

const WORLD: u32 = 4;
const STEPS: u64 = 8;
const LAYERS: u64 = 3;
/// Elements of a token.
const HIDDEN: u64 = 1_000;

/// Tokens and time per token of a rank, by step and layer.
type Experts<'a> = &'a dyn Fn(u32, u64, u64) -> (u64, i64);

/// A step of layers: attention, dispatch, experts, combine; then an all-reduce.
fn answer(experts: Experts) -> Answer {
    with_attention(experts, us(0), 2)
}

/// The same, with attention that takes longer on one rank, in each layer.
fn with_attention(experts: Experts, longer: i64, slow: u32) -> Answer {
    let program = |rank: u32, step: u64| {
        let mut actions = Vec::new();
        for layer in 0..LAYERS {
            let (tokens, per_token) = experts(rank, step, layer);
            let exchange = || Action::Join(Join::new(1, Kind::AllToAll, tokens * HIDDEN, us(60)));
            let more = if rank == slow { longer } else { 0 };
            actions.push(kernel("attention", about(us(400), 1, rank, step, layer) + more));
            actions.push(exchange());
            actions.push(kernel("grouped_gemm", tokens as i64 * per_token));
            actions.push(exchange());
        }
        actions.push(all_reduce(0, 1_000_000, us(100)));
        actions
    };
    let job = Job::new(WORLD, STEPS, &program).groups([Group::new("1", "ep", 0..WORLD)]);
    Recording::full().answer(&simulate(&job))
}

/// Tokens of a rank that is hot or not: 2,800 against 1,200 of each other one.
fn tokens(is_hot: bool) -> u64 {
    if is_hot { 2_800 } else { 1_200 }
}

fn findings(answer: &Answer) -> Vec<(String, String)> {
    let of = |r: &Record| (r.text("kind").to_string(), r.text("ranks").to_string());
    answer.rows("findings").iter().map(of).collect()
}

fn balanced_gain(answer: &Answer) -> Option<i64> {
    let rows = answer.rows_where("what_if", |r| r.text("what").starts_with("more_tokens"));
    rows.first().map(|r| r.int("gain_ns"))
}

#[test]
fn a_rank_with_more_tokens_is_hot_and_not_slow() {
    let answer = answer(&|rank, _, _| (tokens(rank == 2), 400));
    let layers = answer.rows("expert_layers");
    assert_eq!(layers.len() as u64, STEPS * LAYERS);
    // (2,800 - (2,800 + 3 x 1,200) / 4) x 400 ns
    let excess = (2_800 - 1_600) * 400;
    for l in &layers {
        assert_eq!((l.int("excess_ns"), l.int("hot_rank")), (excess, 2), "{}", l.0);
        assert_eq!(
            (l.float("max_over_mean"), l.float("token_share_pct")),
            (Some(1.75), Some(100.0)),
            "{}",
            l.0
        );
    }
    let found = findings(&answer);
    assert!(found.contains(&("expert_imbalance".to_string(), "2".to_string())), "{found:?}");
    assert!(!found.iter().any(|(kind, _)| kind == "straggler" || kind == "imbalance"), "{found:?}");
    // Equal expert times make each layer shorter by the excess: what stays on a rank is not recorded.
    let gain = balanced_gain(&answer).expect("a row");
    let expected = excess * LAYERS as i64;
    assert!((gain - expected).abs() * 50 <= expected, "{gain} {expected}");
    let late = answer.rows("stragglers");
    assert!(late.iter().all(|r| r.text("cause") == "more_tokens"), "{late:?}");
    // Tokens are conserved: the hot rank becomes as the mean, not as the others.
    for scope in ["all", "rank"] {
        let row = answer.rows_where("what_if", |r| r.text("scope") == scope)[0].int("gain_ns");
        assert!((row - expected).abs() * 50 <= expected, "{scope}: {row} {expected}");
    }
}

#[test]
fn what_makes_a_hot_rank_late_beside_its_tokens_is_told_apart() {
    let longer = us(200);
    let answer = with_attention(&|rank, _, _| (tokens(rank == 2), 400), longer, 2);
    let found = findings(&answer);
    for kind in ["straggler", "expert_imbalance"] {
        assert!(found.contains(&(kind.to_string(), "2".to_string())), "{found:?}");
    }
    let late = answer.rows_where("findings", |r| r.text("kind") == "straggler").remove(0);
    assert!(late.text("detail").contains("attention"), "{}", late.0);
    let (gain, planted) = (late.int("recoverable_ns"), longer * (LAYERS * STEPS) as i64);
    assert!((gain - planted).abs() * 20 <= planted, "{gain} {planted}");
    let waiting = |cause: &str| -> i64 {
        let rows =
            answer.rows_where("time_account", |r| (r.text("part"), r.text("cause")) == ("waiting", cause));
        rows.iter().map(|r| r.int("time_ns")).sum()
    };
    // What the others wait is shared by how much longer each takes: the larger part of what was planted.
    let owned = waiting("straggler");
    assert!((2 * planted..=3 * planted).contains(&owned), "{owned} {planted}");
    assert!(waiting("not_explained") * 2 <= owned && waiting("expert_imbalance") > owned);
}

#[test]
fn a_rank_that_takes_longer_for_each_token_is_a_straggler() {
    let answer = answer(&|rank, _, _| (1_600, if rank == 1 { 540 } else { 400 }));
    let layers = answer.rows("expert_layers");
    assert!(layers.iter().all(|l| l.float("token_share_pct") == Some(0.0) && l.int("hot_rank") == 1));
    let found = findings(&answer);
    assert!(found.contains(&("straggler".to_string(), "1".to_string())), "{found:?}");
    let detail =
        answer.rows_where("findings", |r| r.text("kind") == "straggler")[0].text("detail").to_string();
    assert!(detail.contains("1.35 x the time of the others for each token"), "{detail}");
    assert!(!found.iter().any(|(kind, _)| kind == "expert_imbalance"), "{found:?}");
    assert_eq!(balanced_gain(&answer), None);
    let late = answer.rows("stragglers");
    assert!(late.iter().all(|r| r.text("cause").starts_with("slow_")), "{late:?}");
}

#[test]
fn ranks_that_are_hot_in_turn_are_told_as_such() {
    let is_hot = |rank: u32, step: u64, layer: u64| u64::from(rank) == (step + 2 * layer) % u64::from(WORLD);
    let answer = answer(&|rank, step, layer| (tokens(is_hot(rank, step, layer)), 400));
    let found = answer.rows_where("findings", |r| r.text("kind") == "expert_imbalance");
    assert_eq!(found.len(), 1, "{:?}", findings(&answer));
    assert!(found[0].text("sentence").contains("other ranks in other steps"), "{}", found[0].0);
    assert!(!findings(&answer).iter().any(|(kind, _)| kind == "straggler"), "{:?}", findings(&answer));
    let late = answer.rows_where("stragglers", |r| r.text("pattern") == "persistent");
    assert!(late.is_empty(), "{late:?}");
    assert!(balanced_gain(&answer).is_some_and(|gain| gain > 0));
}

#[test]
fn balanced_experts_are_no_cause() {
    let answer = answer(&|rank, step, layer| (about(1_600, 3, rank, step, 10 + layer) as u64, 400));
    assert_eq!(answer.rows("expert_layers").len() as u64, STEPS * LAYERS);
    assert!(!findings(&answer).iter().any(|(kind, _)| kind == "expert_imbalance" || kind == "straggler"));
    assert_eq!(balanced_gain(&answer), None);
}

/// Equal exchanges of a group that nothing says to be of experts, as of sequence parallelism.
#[test]
fn exchanges_without_a_word_of_experts_are_no_layers() {
    let program = |rank: u32, step: u64| {
        let exchange = || Action::Join(Join::new(0, Kind::AllToAll, 1_000_000, us(60)));
        vec![exchange(), kernel("attention", about(us(900), 2, rank, step, 1)), exchange()]
    };
    let answer = Recording::full().answer(&simulate(&Job::new(WORLD, STEPS, &program)));
    assert!(answer.rows("expert_layers").is_empty());
    assert!(answer.rows("expert_ranks").is_empty());
}
