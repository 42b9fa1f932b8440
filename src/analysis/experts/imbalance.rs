//! Whether unequal numbers of tokens cost the job time: which ranks are hot, whether that lasts, and what
//! balanced experts would save.

use crate::efficiency::account::StepLength;
use crate::experts::chances::{HotRank, by_group, by_layer};
use hta_base::units::{Ns, percent};
use hta_job::Job;
use hta_job::balanced::BalancedExperts;
use hta_job::experts::{JobLayer, JobLayers, LayerBalance, combine_waits};
use hta_job::replay::ReplayedJob;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Smallest largest number of tokens over the mean, weighted by excess, for an imbalance to be told.
const LEAST_RATIO: f64 = 1.2;

/// Smallest gain of balanced experts, percent of the time of the job.
const LEAST_PCT: f64 = 1.0;

/// How long a rank stays hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HotPattern {
    /// The same ranks in all layers and nearly all steps.
    Lasting,
    /// Each layer has a hot rank of its own, which stays.
    ByLayer,
    /// Other ranks in other steps.
    Rotating,
    /// Too few steps are recorded to tell.
    TooFewSteps,
}

/// An imbalance of tokens that costs time.
#[derive(Debug, Clone)]
pub struct ExpertImbalance {
    pub(crate) pattern: HotPattern,
    /// The hot ranks; all that take part if these change.
    pub ranks: Vec<u32>,
    /// Largest p-value of the hot ranks, if tested.
    pub p_value: Option<f64>,
    /// Largest number of tokens over the mean, and (next field) the time per token of the hot rank over that
    /// of the mean; both weighted by excess.
    pub ratio: f64,
    pub(crate) per_token: f64,
    /// Number of layers in a step, and of steps.
    pub(crate) layers: usize,
    pub(crate) steps: usize,
    /// What the others wait in combines because of it, mean of a step, ns.
    pub(crate) waits: Ns,
    /// What balanced experts save over all steps, ns: by the replay, or else what the hot ranks compute
    /// longer than the mean because of tokens.
    pub gain: Ns,
    pub is_replayed: bool,
    /// The same by equal expert times alone, with exchanges as they are, mean of a step, ns.
    pub(crate) of_compute: Ns,
}

impl ExpertImbalance {
    /// The imbalance of a job, computed once; `None` if there is none, or if it costs little.
    pub fn of(job: &Job) -> Arc<Option<Self>> {
        job.shared(Self::new)
    }

    fn new(job: &Job) -> Option<Self> {
        let layers = JobLayers::of(job);
        let uneven: Vec<(&JobLayer, LayerBalance)> = layers
            .layers
            .iter()
            .filter_map(|l| Some((l, l.balance.filter(|b| b.by_tokens(b.excess()) > 0)?)))
            .collect();
        let excess: Ns = uneven.iter().map(|(_, b)| b.by_tokens(b.excess())).sum();
        let weighted = |of: fn(&LayerBalance) -> Option<f64>| {
            let sum: f64 = uneven.iter().map(|(_, b)| of(b).unwrap_or(1.0) * b.excess() as f64).sum();
            sum / uneven.iter().map(|(_, b)| b.excess() as f64).sum::<f64>()
        };
        let ratio = weighted(|b| b.load_ratio);
        if uneven.is_empty() || ratio < LEAST_RATIO {
            return None;
        }
        let length = StepLength::of(job);
        let replayed = ReplayedJob::of(job).filter(|r| r.is_reliable());
        let gain = replayed.as_deref().map(|r| {
            [false, true].map(|with_exchanges| {
                let balanced = BalancedExperts::of(job, &layers, with_exchanges);
                r.gain(&balanced.run(&r.replay, false), &length.keys)
            })
        });
        let is_replayed = gain.is_some();
        let [of_compute, gain] = gain.unwrap_or([excess; 2]);
        if percent(gain, length.time).is_none_or(|pct| pct < LEAST_PCT) {
            return None;
        }
        let (pattern, ranks, p_value) = hot_ranks(job, &layers);
        let steps: BTreeSet<_> = uneven.iter().map(|(l, _)| l.step).collect();
        Some(Self {
            pattern,
            ranks,
            p_value,
            ratio,
            per_token: weighted(|b| b.per_token_ratio),
            layers: layers_of_a_step(&layers),
            steps: steps.len(),
            waits: waits(job, &uneven) / steps.len().max(1) as Ns,
            of_compute: length.per_step(of_compute),
            gain,
            is_replayed,
        })
    }
}

/// The largest number of layers in a step of one group.
fn layers_of_a_step(layers: &JobLayers) -> usize {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for l in &layers.layers {
        *counts.entry((l.step, l.group)).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// What others wait in the combines of uneven layers, as far as tokens are the reason, ns.
fn waits(job: &Job, uneven: &[(&JobLayer, LayerBalance)]) -> Ns {
    let of_layer = |(l, b): &(&JobLayer, LayerBalance)| -> Ns { b.by_tokens(combine_waits(job, l)) };
    uneven.iter().map(of_layer).sum()
}

fn hot_ranks(job: &Job, layers: &JobLayers) -> (HotPattern, Vec<u32>, Option<f64>) {
    let rank = |part: u32| job.parts.get(part as usize).map(|p| p.rank);
    let found: Vec<HotRank> = by_group(job, layers).values().filter_map(|loads| loads.hot()).collect();
    let (mut lasting, mut few, mut p_value) = (Vec::new(), Vec::new(), None);
    for hot in &found {
        match hot {
            HotRank::Lasting(part, p) => {
                lasting.extend(rank(*part));
                p_value = p.map(|p| p_value.map_or(p, |most: f64| most.max(p))).or(p_value);
            }
            HotRank::TooFewSteps(part) => few.extend(rank(*part)),
            HotRank::Rotating => {}
        }
    }
    lasting.sort_unstable();
    few.sort_unstable();
    if !lasting.is_empty() {
        return (HotPattern::Lasting, lasting, p_value);
    }
    if !few.is_empty() {
        return (HotPattern::TooFewSteps, few, None);
    }
    let of_layers: Vec<HotRank> = by_layer(job, layers).values().filter_map(|loads| loads.hot()).collect();
    let stays: BTreeSet<u32> = of_layers
        .iter()
        .filter_map(|hot| if let HotRank::Lasting(part, _) = hot { rank(*part) } else { None })
        .collect();
    let lasting = of_layers.iter().filter(|hot| matches!(hot, HotRank::Lasting(..))).count();
    if !of_layers.is_empty() && lasting * 5 >= of_layers.len() * 4 {
        return (HotPattern::ByLayer, stays.into_iter().collect(), None);
    }
    let all: BTreeSet<u32> =
        layers.layers.iter().flat_map(|l| &l.members).filter_map(|m| rank(m.part)).collect();
    (HotPattern::Rotating, all.into_iter().collect(), None)
}
