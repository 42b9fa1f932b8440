//! Whether one rank of a group is hot beyond chance: its tokens in a step against those of the others, over
//! all steps.

use crate::stragglers::{Balances, P_MOST, is_always_ahead};
use hta_facts::direction::Direction;
use hta_job::Job;
use hta_job::delay::StepKey;
use hta_job::experts::{JobLayer, JobLayers, of_member};
use std::collections::BTreeMap;

/// Share of the steps in which the hot rank is the largest, percent.
const STEPS_PCT: usize = 80;

/// Fewest steps in which another rank can be seen to be the largest each time.
const ROTATING_STEPS: usize = 3;

/// What ranks of a group got in each step: by step, one number per member.
#[derive(Default)]
pub(super) struct StepLoads {
    parts: Vec<u32>,
    by_step: BTreeMap<Option<StepKey>, Vec<i64>>,
}

/// Which rank of a group is hot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum HotRank {
    /// This part, in all steps or nearly all, with the p-value of the test if there are steps enough for it.
    Lasting(u32, Option<f64>),
    /// Another one each time.
    Rotating,
    /// This part in the recorded steps, which are too few to tell whether it lasts.
    TooFewSteps(u32),
}

impl StepLoads {
    /// Adds a pass; passes with other members than the first are left out, as they are not compared.
    fn add(&mut self, job: &Job, l: &JobLayer) {
        let parts: Vec<u32> = l.members.iter().map(|m| m.part).collect();
        if self.by_step.is_empty() {
            self.parts = parts;
        } else if self.parts != parts {
            return;
        }
        let of_step = self.by_step.entry(l.step).or_insert_with(|| vec![0; self.parts.len()]);
        for (sum, m) in of_step.iter_mut().zip(&l.members) {
            let own = of_member(job, *m);
            *sum += own.tokens.received.or(own.expert).unwrap_or(0);
        }
    }

    /// p-value of each member.
    fn p_values(&self) -> Option<Vec<f64>> {
        let by_step: Vec<Vec<i64>> = self.by_step.values().cloned().collect();
        Balances(&by_step).p_values(&(0..self.parts.len()).map(|i| vec![i]).collect::<Vec<_>>())
    }

    pub(super) fn hot(&self) -> Option<HotRank> {
        let largest = |of_step: &Vec<i64>| {
            let most = of_step.iter().max()?;
            of_step.iter().position(|v| v == most)
        };
        let mut wins = vec![0usize; self.parts.len()];
        for i in self.by_step.values().filter_map(largest) {
            wins[i] += 1;
        }
        let most = *wins.iter().max()?;
        let hot = wins.iter().position(|n| *n == most)?;
        let (part, steps) = (*self.parts.get(hot)?, self.by_step.len());
        let p_value = self.p_values().and_then(|p| p.get(hot).copied());
        let others = |of_step: &Vec<i64>| {
            let all = of_step.iter().enumerate().filter(|(i, _)| *i != hot);
            (of_step.get(hot).copied().unwrap_or(0), all.map(|(_, v)| *v).collect())
        };
        let is_ahead = || is_always_ahead(&self.by_step.values().map(others).collect::<Vec<_>>());
        let is_most = most * 100 >= steps * STEPS_PCT;
        Some(match p_value {
            Some(p) if is_most && p <= P_MOST => HotRank::Lasting(part, Some(p)),
            None if is_most && is_ahead() => HotRank::Lasting(part, None),
            _ if steps < ROTATING_STEPS || (is_most && p_value.is_none()) => HotRank::TooFewSteps(part),
            _ => HotRank::Rotating,
        })
    }
}

/// Loads by group, over all layers.
pub(super) fn by_group(job: &Job, layers: &JobLayers) -> BTreeMap<u32, StepLoads> {
    loads_by(job, layers, |l| l.group)
}

/// A layer over all steps: its group, direction and position.
pub(super) type LayerKey = (u32, Direction, u32);

/// Loads by layer.
pub(super) fn by_layer(job: &Job, layers: &JobLayers) -> BTreeMap<LayerKey, StepLoads> {
    loads_by(job, layers, key_of)
}

fn key_of(l: &JobLayer) -> LayerKey {
    (l.group, l.direction, l.ordinal)
}

/// Loads of the layers that ranks can be compared in, by a key of theirs.
fn loads_by<K: Ord>(job: &Job, layers: &JobLayers, key: impl Fn(&JobLayer) -> K) -> BTreeMap<K, StepLoads> {
    let mut out: BTreeMap<K, StepLoads> = BTreeMap::new();
    for l in layers.layers.iter().filter(|l| l.balance.is_some()) {
        out.entry(key(l)).or_default().add(job, l);
    }
    out
}

/// The p-values of layers over all steps.
pub(super) struct LayerChances(BTreeMap<LayerKey, f64>);

impl LayerChances {
    pub(super) fn of(job: &Job, layers: &JobLayers) -> Self {
        let least = |of: StepLoads| of.p_values()?.into_iter().min_by(f64::total_cmp);
        Self(by_layer(job, layers).into_iter().filter_map(|(key, of)| Some((key, least(of)?))).collect())
    }

    pub(super) fn of_layer(&self, l: &JobLayer) -> Option<f64> {
        self.0.get(&key_of(l)).copied()
    }
}
