//! What takes longer than usual in a pipeline, and what its steps save if it did not: replays of the recorded
//! order with shorter chunks or messages.
//!
//! ```text
//!   stage 1   |F0|F1|..|B0|    |F0  |F1  |..|B0  |    |F0|F1|..|B0|     longer in one step only
//!                 step 0              step 1              step 2
//! ```

use crate::pipeline::bubble::TimedChunk;
use crate::pipeline::measured::{PipelineRun, PipelineStep};
use crate::pipeline::placed::{PlacedRank, graph_of};
use crate::pipeline::replay::ChunkPlace;
use crate::pipeline::stages::{StageWork, ratio, works_of};
use hta_base::order_statistics::{median, median_of_sorted};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_base::wording::ranks::rank_list;
use hta_job::Job;
use std::collections::{BTreeMap, BTreeSet};

/// Smallest gain that is told, percent of the time of all steps.
const TOLD_PCT: f64 = 1.0;

/// What is told of a pipeline besides its longest stage, and what all repairs save.
#[derive(Default)]
pub(super) struct StageRepairs {
    pub(super) words: Vec<String>,
    /// If stages took as long as in most steps, ns.
    pub(super) of_steps: Option<Ns>,
    /// The same, and those that are long as long as the usual stage.
    pub(super) of_stages: Option<Ns>,
    /// If messages between two ranks took as long as between the others, ns.
    pub(super) of_link: Option<Ns>,
}

impl StageRepairs {
    /// `long`: the stages that are longer in all steps, with their factors. `is_told`: whether a stage is a
    /// cause of its own. `is_alone`: where there are other pipelines, a slow link is told by theirs.
    pub(super) fn of(
        job: &Job,
        run: &PipelineRun,
        (long, is_alone): (&BTreeMap<u32, f64>, bool),
        is_told: impl Fn(u32) -> bool,
    ) -> Self {
        let whole: Ns = run.steps.iter().map(|s| s.whole.len()).sum();
        let is_large = |ns: &Ns| percent(*ns, whole).is_some_and(|pct| pct >= TOLD_PCT);
        let gain = |factor: &dyn Fn(usize, u32) -> f64| -> Ns {
            let known = run.steps.iter().enumerate().filter(|(_, s)| s.reasons.is_ok());
            known.filter_map(|(i, s)| saved(s, |stage| factor(i, stage))).sum()
        };
        let mut steps = LongSteps::of(job, run, is_told);
        let of_steps = Some(gain(&|i, stage| steps.factor(i, stage))).filter(is_large);
        if of_steps.is_none() {
            steps.0.clear();
        }
        let factor = |i: usize, stage: u32| steps.factor(i, stage) * long.get(&stage).copied().unwrap_or(1.0);
        let link = Some(run).filter(|_| is_alone).and_then(SlowLink::of).filter(|link| is_large(&link.gain));
        Self {
            words: steps.words(run).into_iter().chain(link.as_ref().map(SlowLink::words)).collect(),
            of_steps,
            of_stages: Some(gain(&factor)).filter(|ns| *ns > 0),
            of_link: link.map(|link| link.gain),
        }
    }
}

/// What a step saves if the chunks of stages were shorter by these factors, ns.
pub(super) fn saved(s: &PipelineStep, factor: impl Fn(u32) -> f64) -> Option<Ns> {
    let of_stage = |c: &TimedChunk| (c.span.len() as f64 / factor(c.chunk.first.stage)).round() as Ns;
    saved_by(s, |_, c| of_stage(c))
}

/// What a step saves without the idle time inside its chunks, which is of hosts, ns.
pub(super) fn saved_by_hosts(s: &PipelineStep) -> Option<Ns> {
    let idle = |(r, i): ChunkPlace| s.times.get(r).and_then(|t| t.get(i)).map_or(0, |t| t.inner_idle);
    saved_by(s, |at, c| (c.span.len() - idle(at)).max(0))
}

/// What a step saves with chunks of other lengths, ns.
fn saved_by(s: &PipelineStep, repaired: impl Fn(ChunkPlace, &TimedChunk) -> Ns) -> Option<Ns> {
    let timed: Vec<Vec<TimedChunk>> = s.placed.ranks.iter().map(|r| r.chunks.clone()).collect();
    let graph = graph_of(&timed)?;
    let of = |(r, i): ChunkPlace| timed.get(r).and_then(|chunks| chunks.get(i));
    let before = graph.time(|at| of(at).map_or(0, |c| c.span.len()), |_, _| 0);
    Some(before - graph.time(|at| of(at).map_or(0, |c| repaired(at, c)), |_, _| 0))
}

/// Steps from which on a stage that is longer in some of them can be told from one that varies.
const LEAST_STEPS: usize = 3;

/// By how much a stage must be longer in a step than in most, and how many times what it usually varies.
const LEAST_LONGER: f64 = 0.05;
const TIMES_USUAL: i64 = 6;

/// Stages that take longer in some steps than in most, against the other stages of the step.
#[derive(Debug, Default)]
struct LongSteps(BTreeMap<(usize, u32), f64>);

impl LongSteps {
    /// `is_told`: whether a stage is a cause of its own.
    fn of(job: &Job, run: &PipelineRun, is_told: impl Fn(u32) -> bool) -> Self {
        let known = run.steps.iter().enumerate().filter(|(_, s)| s.reasons.is_ok());
        let works: Vec<(usize, BTreeMap<u32, StageWork>)> =
            known.map(|(i, s)| (i, works_of(job, s))).collect();
        let stages: BTreeSet<u32> = works.iter().flat_map(|(_, w)| w.keys().copied()).collect();
        let mut out = BTreeMap::new();
        for stage in stages.into_iter().filter(|stage| works.len() >= LEAST_STEPS && !is_told(*stage)) {
            let of_step = |(i, w): &(usize, BTreeMap<u32, StageWork>)| {
                Some((*i, (ratio(w, stage, |w| w.busy)? * 1e6) as i64))
            };
            let ratios: Vec<(usize, i64)> = works.iter().filter_map(of_step).collect();
            let Some(usual) = median(&mut ratios.iter().map(|(_, r)| *r).collect::<Vec<_>>()) else {
                continue;
            };
            let off = median(&mut ratios.iter().map(|(_, r)| (r - usual).abs()).collect::<Vec<_>>());
            let least = (off.unwrap_or(0) * TIMES_USUAL).max((usual as f64 * LEAST_LONGER) as i64);
            let long = ratios.into_iter().filter(|(_, r)| r - usual >= least && usual > 0);
            out.extend(long.map(|(i, r)| ((i, stage), r as f64 / usual as f64)));
        }
        Self(out)
    }

    /// How many times as long as usual a stage is in a step.
    fn factor(&self, step: usize, stage: u32) -> f64 {
        self.0.get(&(step, stage)).copied().unwrap_or(1.0)
    }

    /// `stages 1, 2 take up to 1.28 times as long in step 1 (1 of 3)`.
    fn words(&self, run: &PipelineRun) -> Option<String> {
        let most = self.0.values().copied().reduce(f64::max)?;
        let stages: BTreeSet<u32> = self.0.keys().map(|(_, stage)| *stage).collect();
        let steps: BTreeSet<usize> = self.0.keys().map(|(step, _)| *step).collect();
        let keys = steps.iter().filter_map(|i| Some(run.steps.get(*i)?.placed.step?.shown()));
        let (take, s) = if stages.len() == 1 { ("takes", "") } else { ("take up to", "s") };
        Some(format!(
            "stage{s} {} {take} {most:.2} times as long in step{} {} ({} of {})",
            rank_list(&stages.into_iter().collect::<Vec<_>>()),
            if steps.len() == 1 { "" } else { "s" },
            keys.take(SHOWN_STEPS).collect::<Vec<_>>().join(", "),
            steps.len(),
            run.steps.len()
        ))
    }
}

const SHOWN_STEPS: usize = 8;

/// How many times as long as elsewhere messages must take to be told of a link.
const SLOWER: Ns = 2;

/// Two ranks of a pipeline between which messages take longer than between the others.
struct SlowLink {
    ranks: Vec<u32>,
    times: (Ns, Ns),
    /// What faster messages save over all steps, ns.
    gain: Ns,
}

impl SlowLink {
    fn of(run: &PipelineRun) -> Option<Self> {
        let mut all: BTreeMap<(usize, usize), Vec<Ns>> = BTreeMap::new();
        for (pair, ns) in run.steps.iter().flat_map(|s| &s.transfers).flat_map(|t| t.messages()) {
            all.entry(pair).or_default().push(ns);
        }
        let medians = all.into_iter().filter_map(|(pair, mut ns)| Some((median(&mut ns)?, pair)));
        let mut medians: Vec<(Ns, (usize, usize))> = medians.collect();
        medians.sort_unstable();
        let (time, pair) = medians.pop()?;
        let usual = median_of_sorted(&medians).map(|(ns, _)| ns).filter(|ns| time >= ns * SLOWER)?;
        let gain = |s: &PipelineStep| {
            let (own, chunks) = (s.transfers.as_ref()?, |r: &PlacedRank| r.chunks.clone());
            let timed: Vec<Vec<TimedChunk>> = s.placed.ranks.iter().map(chunks).collect();
            let (graph, limited) = (graph_of(&timed)?, own.with_limit(pair, usual));
            let length = |(r, i): ChunkPlace| timed.get(r).and_then(|c| c.get(i)).map_or(0, |c| c.span.len());
            let before = graph.time(length, |from, to| own.between(from, to));
            Some(before - graph.time(length, |from, to| limited.between(from, to)))
        };
        let rank = |position: usize| run.chain.ranks.get(position).map(|r| r.rank);
        let mut ranks = vec![rank(pair.0)?, rank(pair.1)?];
        ranks.sort_unstable();
        Some(Self { ranks, times: (time, usual), gain: run.steps.iter().filter_map(gain).sum() })
    }

    /// `a message between ranks 2, 3 takes 280 us, between others 60 us`.
    fn words(&self) -> String {
        let (own, others) = (fmt_ns(self.times.0), fmt_ns(self.times.1));
        format!("a message between ranks {} takes {own}, between others {others}", rank_list(&self.ranks))
    }
}
