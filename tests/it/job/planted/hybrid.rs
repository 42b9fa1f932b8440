//! Hybrid jobs with data loader, tensor, pipeline, data and expert parallelism: balanced ones name nobody and
//! promise no more than a simulation without that cost gains; in the others one planted cost is found.
//!
//! ```text
//! loader | microbatch: gemm, tp all-reduce, gemm, tp all-reduce, ... | send | ... backward, gradients reduced | adam
//! ```
//!
//! `HTA_SEEDS=20` repeats each job with as many seeds.

use super::job::{Action, Group, Job, Join, Kind, about, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::{Simulated, simulate};
use super::truth::gain_of_repair;
use crate::run::{Answer, Record};
use hta_testkit::us;

const STEPS: u64 = 8;
const LAYERS: u64 = 4;

/// How the ranks divide the work: rank = (pipeline stage * data + replica) * tensor + tensor rank.
#[derive(Clone, Copy, Debug)]
struct Layout {
    tensor: u32,
    stages: u32,
    data: u32,
    has_experts: bool,
    /// Whether each two stages that exchange messages have a group of their own.
    has_pairs: bool,
}

const DATA: Layout = Layout { tensor: 1, stages: 1, data: 8, has_experts: false, has_pairs: false };
const LAYOUTS: [Layout; 5] = [
    DATA,
    Layout { tensor: 4, data: 4, ..DATA },
    Layout { stages: 4, data: 4, ..DATA },
    Layout { tensor: 2, stages: 2, data: 4, ..DATA },
    Layout { has_experts: true, ..DATA },
];
const PAIRS: Layout = Layout { stages: 4, data: 4, has_pairs: true, ..DATA };

/// What a step costs beyond its computation.
#[derive(Clone, Copy, Debug)]
struct Costs {
    loader: i64,
    /// Length of all transfers, percent of the usual.
    network: i64,
}

const USUAL: Costs = Costs { loader: 300_000, network: 100 };

/// A cost that one rank has more of, percent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plant {
    Nothing,
    Device(u32, i64),
    Backward(u32, i64),
    /// The rank's loader takes this much longer, ns.
    Loader(u32, i64),
    /// All ranks of its tensor-parallel group.
    TensorGroup(u32, i64),
    /// Transfers of the groups that the rank is in, and its messages.
    Network(u32, i64),
    /// Messages between the rank and the next stage.
    Link(u32, i64),
    /// All ranks of a stage.
    Stage(u32, i64),
}

impl Layout {
    fn world(self) -> u32 {
        self.tensor * self.stages * self.data
    }

    fn place(self, rank: u32) -> (u32, u32, u32) {
        (rank / self.tensor / self.data, rank / self.tensor % self.data, rank % self.tensor)
    }

    fn rank(self, stage: u32, replica: u32, t: u32) -> u32 {
        (stage * self.data + replica) * self.tensor + t
    }

    /// The rank of the next stage that a rank sends to.
    fn next_stage(self, rank: u32) -> u32 {
        rank + self.data * self.tensor
    }

    /// Groups of tensor parallelism, then of stages, then of replicas.
    fn groups(self) -> Vec<Group> {
        let mut out = Vec::new();
        let all = |n: u32| 0..n;
        if self.tensor > 1 {
            for first in (0..self.world()).step_by(self.tensor as usize) {
                out.push(Group::new("1", "tp", first..first + self.tensor));
            }
        }
        if self.stages > 1 {
            for (replica, t) in all(self.data).flat_map(|r| all(self.tensor).map(move |t| (r, t))) {
                let pipeline: Vec<u32> = all(self.stages).map(|s| self.rank(s, replica, t)).collect();
                let size = if self.has_pairs { 2 } else { pipeline.len() };
                // Groups that share a rank have other names.
                let names = ["2", "4", "5"].into_iter().zip(pipeline.windows(size));
                out.extend(names.map(|(name, of)| Group::new(name, "pp", of.iter().copied())));
            }
        }
        for (stage, t) in all(self.stages).flat_map(|s| all(self.tensor).map(move |t| (s, t))) {
            out.push(Group::new("3", "dp", all(self.data).map(|r| self.rank(stage, r, t))));
        }
        out
    }

    /// Index of a group with some ranks among those of a job.
    fn group(self, description: &str, ranks: &[u32]) -> usize {
        let is_one = |g: &Group| g.description == description && ranks.iter().all(|r| g.ranks.contains(r));
        let found = self.groups().iter().position(is_one);
        1 + found.unwrap_or_else(|| panic!("{self:?} has no {description}"))
    }
}

/// The work of one rank in one step.
struct Step {
    layout: Layout,
    costs: Costs,
    plant: Plant,
    rank: u32,
    /// Differs from step to step and from seed to seed.
    draw: u64,
    place: u64,
    actions: Vec<Action>,
}

impl Step {
    fn compute(&mut self, name: &'static str, dur: i64, is_backward: bool) {
        self.place += 1;
        let pct = match self.plant {
            Plant::Device(rank, pct) if rank == self.rank => pct,
            Plant::Backward(rank, pct) if rank == self.rank && is_backward => pct,
            Plant::TensorGroup(rank, pct) if rank / self.layout.tensor == self.rank / self.layout.tensor => {
                pct
            }
            Plant::Stage(stage, pct) if self.layout.place(self.rank).0 == stage => pct,
            _ => 0,
        };
        let dur = about(us(dur), 3, self.rank, self.draw, self.place);
        self.actions.push(kernel(name, dur + dur * pct / 100));
    }

    /// A transfer among the members of a group.
    fn transfer(&self, dur: i64, description: &str) -> i64 {
        let dur = us(dur) * self.costs.network / 100;
        match self.plant {
            Plant::Network(rank, pct)
                if self.layout.group(description, &[rank]) == self.group(description) =>
            {
                dur + dur * pct / 100
            }
            _ => dur,
        }
    }

    fn group(&self, description: &str) -> usize {
        self.layout.group(description, &[self.rank])
    }

    fn layer(&mut self, names: [&'static str; 2], dur: i64, is_backward: bool) {
        let l = self.layout;
        self.compute(names[0], dur, is_backward);
        if l.tensor > 1 {
            self.actions.push(all_reduce(self.group("tp"), 400_000, self.transfer(60, "tp")));
        }
        if l.has_experts {
            let join = Join::new(self.group("dp"), Kind::AllToAll, 300_000, self.transfer(80, "dp"));
            self.actions.push(Action::Join(join));
        }
        self.compute(names[1], dur * 2, is_backward);
    }

    fn message(&mut self, from: u32, to: u32) {
        let group = self.layout.group("pp", &[from, to]);
        let (elements, mut transfer) = (400_000, us(60) * self.costs.network / 100);
        match self.plant {
            Plant::Network(rank, pct) if [from, to].contains(&rank) => transfer += transfer * pct / 100,
            Plant::Link(rank, pct) => {
                let is_link =
                    [from, to].contains(&rank) && [from, to].contains(&self.layout.next_stage(rank));
                transfer += if is_link { transfer * pct / 100 } else { 0 };
            }
            _ => {}
        }
        self.actions.push(match self.rank == to {
            true => Action::Receive { group, from, elements, transfer },
            false => Action::Send { group, to, elements, transfer, is_eager: false },
        });
    }

    fn run(mut self) -> Vec<Action> {
        let l = self.layout;
        let (stage, replica, t) = l.place(self.rank);
        let at = |stage: u32| l.rank(stage, replica, t);
        let more = if let Plant::Loader(rank, ns) = self.plant { (rank == self.rank) as i64 * ns } else { 0 };
        if stage == 0 {
            self.actions.push(Action::Loader(about(self.costs.loader + more, 5, self.rank, self.draw, 0)));
        }
        let batches: u64 = if l.stages > 1 { 4 } else { 1 };
        let dur = if l.stages > 1 { 120 } else { 400 };
        for _ in 0..batches {
            if stage > 0 {
                self.message(at(stage - 1), self.rank);
            }
            (0..LAYERS).for_each(|_| self.layer(["gemm_a", "gemm_b"], dur, false));
            if stage + 1 < l.stages {
                self.message(self.rank, at(stage + 1));
            }
        }
        for batch in 0..batches {
            if stage + 1 < l.stages {
                self.message(at(stage + 1), self.rank);
            }
            for layer in 0..LAYERS {
                self.layer(["gemm_da", "gemm_db"], dur, true);
                if batch + 1 == batches {
                    let transfer = self.transfer(300, "dp");
                    let join = Join::new(self.group("dp"), Kind::AllReduce, 1_000_000 + layer, transfer);
                    self.actions.push(Action::Async(join));
                }
            }
            if stage > 0 {
                self.message(self.rank, at(stage - 1));
            }
        }
        self.actions.push(Action::Wait);
        self.compute("adam", 300, false);
        self.actions
    }
}

fn job(layout: Layout, costs: Costs, plant: Plant, seed: u64) -> Simulated {
    let program = move |rank: u32, step: u64| {
        let draw = step + 1000 * seed;
        Step { layout, costs, plant, rank, draw, place: 0, actions: Vec::new() }.run()
    };
    simulate(&Job::new(layout.world(), STEPS, &program).groups(layout.groups()))
}

fn seeds(usual: u64) -> u64 {
    std::env::var("HTA_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// The causes of lost time, the most important first.
fn causes(answer: &Answer) -> Vec<Record> {
    answer.rows_where("findings", |r| r.text("kind") != "not_explained")
}

/// What a simulation without the cost of a cause gains, ns; `None` for a cause that stands for no planted
/// cost.
fn truth(cause: &Record, layout: Layout, seed: u64, own: &Simulated) -> Option<i64> {
    let without = |costs: Costs| gain_of_repair(own, &job(layout, costs, Plant::Nothing, seed));
    match cause.text("kind") {
        "data_loader" => Some(without(Costs { loader: 0, ..USUAL })),
        "transfer_bare" | "transfer_bandwidth" => Some(without(Costs { network: 0, ..USUAL })),
        _ => None,
    }
}

#[test]
fn balanced_jobs_name_nobody_and_promise_no_more_than_is_true() {
    let mut wrong = Vec::new();
    for layout in LAYOUTS.into_iter().chain([PAIRS]) {
        for seed in 0..seeds(2) {
            let own = job(layout, USUAL, Plant::Nothing, seed);
            let answer = Recording::full().answer(&own);
            let what = format!("{layout:?}, seed {seed}");
            wrong.extend(answer.rows("stragglers").iter().map(|r| format!("{what}: {}", r.0)));
            for c in causes(&answer) {
                let gain = c.int("recoverable_ns");
                let truth = truth(&c, layout, seed, &own);
                let is_true = truth.is_none_or(|t| gain * 10 <= t * 12);
                wrong.extend((!is_true).then(|| format!("{what}: {truth:?} {}", c.0)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

/// What is planted, and the ranks that the first sure cause must name.
fn plants(layout: Layout, n: u64) -> Vec<(Plant, Vec<u32>)> {
    let rank = (n * 5) as u32 % layout.world();
    let of_first_stage = rank % (layout.world() / layout.stages);
    let mut out = vec![
        (Plant::Device(rank, 20), vec![rank]),
        (Plant::Backward(rank, 30), vec![rank]),
        (Plant::Loader(of_first_stage, us(2_500)), vec![of_first_stage]),
    ];
    if layout.tensor > 1 {
        let first = rank / layout.tensor * layout.tensor;
        out.push((Plant::TensorGroup(rank, 20), (first..first + layout.tensor).collect()));
    }
    if layout.stages > 1 {
        out.push((
            Plant::Link(of_first_stage, 1_400),
            vec![of_first_stage, layout.next_stage(of_first_stage)],
        ));
    }
    if layout.groups().iter().filter(|g| g.ranks.contains(&rank)).count() > 1 {
        out.push((Plant::Network(rank, 400), vec![rank]));
    }
    out
}

/// The ranks of a cause.
fn ranks(cause: &Record) -> Vec<u32> {
    cause.text("ranks").split(',').filter_map(|r| r.parse().ok()).collect()
}

/// Below this gain, percent of the job, a cost may stay unnamed.
const NAMED_PCT: f64 = 5.6;

#[test]
fn a_planted_cost_is_the_first_sure_cause_with_its_gain() {
    let (mut missed, mut count) = (Vec::new(), 0);
    for (n, layout) in (0..).zip(LAYOUTS) {
        for seed in 0..seeds(1) {
            let usual = job(layout, USUAL, Plant::Nothing, seed);
            for (plant, who) in plants(layout, 1 + n + seed) {
                let own = job(layout, USUAL, plant, seed);
                let gain = gain_of_repair(&own, &usual);
                if 100.0 * gain as f64 / (own.end() as f64) < NAMED_PCT {
                    continue;
                }
                count += 1;
                let found = causes(&Recording::full().answer(&own));
                let sure = found.iter().find(|c| c.text("certainty") != "at most");
                let is_right =
                    |c: &Record| ranks(c) == who && (c.int("recoverable_ns") - gain).abs() * 10 <= gain;
                if !sure.is_some_and(is_right) {
                    let told = |c: &Record| {
                        format!("{} {} {}", c.text("kind"), c.text("ranks"), c.int("recoverable_ns"))
                    };
                    let found: Vec<String> = found.iter().take(3).map(told).collect();
                    missed
                        .push(format!("{layout:?} {plant:?}, seed {seed}: {gain} on {who:?}, not {found:?}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{} of {count} missed: {missed:#?}", missed.len());
}

/// A stage that is slow in every replica is work to move, not ranks to swap: no pipeline shows the others how
/// long it should take.
#[test]
fn a_slow_stage_of_all_replicas_is_told_as_one_cause_of_the_pipeline() {
    for layout in LAYOUTS.into_iter().chain([PAIRS]).filter(|l| l.stages > 1) {
        for stage in [0, layout.stages / 2, layout.stages - 1] {
            let (own, usual) =
                (job(layout, USUAL, Plant::Stage(stage, 40), 1), job(layout, USUAL, Plant::Nothing, 1));
            let answer = Recording::full().answer(&own);
            let what = format!("{layout:?}, stage {stage}");
            assert_eq!(answer.rows("stragglers").len(), 0, "{what}");
            let found = causes(&answer);
            assert_eq!(found[0].text("kind"), "pipeline_bubble", "{what}: {found:?}");
            let words = format!("stage {stage} of every replica too heavy");
            assert!(found[0].text("sentence").contains(&words), "{what}: {found:?}");
            assert!(found[0].int("recoverable_ns") <= gain_of_repair(&own, &usual), "{what}: {found:?}");
        }
    }
}

/// The first stage of a pair is another one in each pair, so that its rank is compared with its replicas
/// only.
#[test]
fn a_slow_rank_is_named_among_stages_with_groups_of_two() {
    for rank in [1, 6, 9, 14] {
        let own = job(PAIRS, USUAL, Plant::Device(rank, 30), 1);
        let gain = gain_of_repair(&own, &job(PAIRS, USUAL, Plant::Nothing, 1));
        let answer = Recording::full().answer(&own);
        let found = answer.rows("stragglers");
        assert_eq!(found.iter().map(ranks).collect::<Vec<_>>(), [[rank]], "{found:?}");
        assert!(found[0].int("gain_sum_ns") * 100 <= gain * 101, "{gain}: {found:?}");
        let why = answer.rows_where("findings", |r| r.text("kind") == "straggler");
        assert_eq!(why[0].text("key"), "slow_device", "{why:?}");
        // The pipeline waits for that rank, and does not save the same again.
        let is_replayed = |r: &Record| r.text("kind") == "pipeline_bubble" && r.text("basis") == "replay";
        let again = answer.rows_where("findings", is_replayed);
        assert!(again.is_empty(), "{again:?}");
    }
}

/// Gradients that are reduced right behind the tensors of their layer, on a stream that waits for that one:
///
/// ```text
///   stream 7    |gemm........]                |gemm........]
///   tensors                   [all-reduce]                  [all-reduce]
///   gradients                             [all-reduce....]              [all-reduce....]
/// ```
fn job_with_gradients_behind_tensors(slow: u32, is_slow: impl Fn(u64) -> bool) -> Simulated {
    let layout = Layout { tensor: 2, data: 4, ..DATA };
    let program = move |rank: u32, step: u64| {
        let plant = if is_slow(step) { Plant::Device(slow, 50) } else { Plant::Nothing };
        let mut step = Step { layout, costs: USUAL, plant, rank, draw: step, place: 0, actions: Vec::new() };
        step.actions.push(Action::Loader(us(100)));
        for (layer, name) in (0..).zip(["gemm_a", "gemm_b", "gemm_c"]) {
            step.compute(name, 1_500, true);
            step.actions.push(all_reduce(step.group("tp"), 400_000, us(60)));
            let join = Join::new(step.group("dp"), Kind::AllReduce, 1_000_000 + layer, us(600));
            step.actions.push(Action::Async(join));
        }
        step.actions.push(Action::Wait);
        step.compute("adam", 200, false);
        step.actions
    };
    simulate(&Job::new(layout.world(), STEPS, &program).groups(layout.groups()))
}

#[test]
fn a_slow_rank_gains_what_it_costs_where_gradients_are_reduced_behind_tensors() {
    /// Whether the rank is slow in a step.
    type IsSlow = fn(u64) -> bool;
    let usual = job_with_gradients_behind_tensors(3, |_| false);
    let cases: [(&str, IsSlow); 2] = [("all steps", |_| true), ("some steps", |s| s % 3 == 1)];
    for (what, is_slow) in cases {
        let own = job_with_gradients_behind_tensors(3, is_slow);
        let gain = gain_of_repair(&own, &usual);
        let found = causes(&Recording::full().answer(&own));
        let is_right = |c: &Record| ranks(c) == [3] && (c.int("recoverable_ns") - gain).abs() * 20 <= gain;
        let sure = found.iter().find(|c| c.text("certainty") != "at most");
        assert!(sure.is_some_and(is_right), "{what}: {gain}, {found:?}");
    }
}
