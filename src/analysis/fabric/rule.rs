//! Which places of the fabric make the groups slow whose transfers pass them. It knows no traces: numbers in,
//! verdict out.
//!
//! ```text
//!               steps 0 1 2 ...     places that its transfers pass
//!   group a   z   .0 .1 -.1         host 0, host 1, rail 2
//!   group b       .4 .5  .4         host 1, host 2, rail 3     <- slow, and so is c:
//!   group c       .5 .4  .6         host 4, host 5, rail 3        rail 3
//! ```
//!
//! The place with the largest `n mean(z)^2` over its `n` groups explains most. All places that explain nearly
//! as much cannot be told from it. Then its groups are left out, and the rest is searched once more. What
//! chance alone gives is known from the same groups in random order within their class, in blocks of steps as
//! long as slowness lasts by itself.

use crate::fabric::excess::{GROUPS_LEAST, mean, quantile, sigma_of};
use crate::random::below;

/// Largest p-value with which places are told.
pub(crate) const P_MOST: f64 = 0.02;
/// A place that more than this share of a class passes is no contrast within the class.
const SHARE_MOST: f64 = 0.6;
/// Least factor of a place, and least mean in deviations of the means of groups. The mean of more groups than
/// a NIC has differs less by chance: a host is known by all of its links together.
const FACTOR_LEAST: f64 = 1.2;
const SIGMAS_LEAST: f64 = 5.0;
const GROUPS_OF_NIC: f64 = 2.0;
/// Share of the evidence of the best place from which another one cannot be told from it.
const AS_GOOD: f64 = 0.9;
/// Most places that are looked for one after the other.
const ROUNDS: usize = 2;
/// Number of random orders.
const DRAWS: usize = 99;
/// Fewest steps from which it can be known how long slowness lasts.
const STEPS_FOR_RHO: usize = 6;
const SEED: u64 = 0x0066_6162_7269_6300;

/// The groups that are compared.
#[derive(Debug, Clone, Default)]
pub(crate) struct FabricEvidence {
    /// By group and step.
    pub(crate) z: Vec<Vec<Option<f64>>>,
    /// By group: the class within which groups are alike.
    pub(crate) class: Vec<u32>,
}

/// What explains slow groups.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlowSet {
    /// Indices of the places that cannot be told apart, the best first.
    pub(crate) places: Vec<usize>,
    /// The groups of the best one, ascending.
    pub(crate) groups: Vec<u32>,
    /// The mean z.
    pub(crate) mean: f64,
    /// `n mean(z)^2`.
    pub(crate) gain: f64,
    pub(crate) p_value: f64,
}

/// What a place has for itself.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PlaceScore {
    mean: f64,
    gain: f64,
    /// Whether nearly all of its groups are slow.
    is_even: bool,
    /// Whether they are much slower than they differ.
    is_slow: bool,
}

/// The means over steps of groups in question, with those left out that are explained already.
struct GroupMeans {
    mean: Vec<Option<f64>>,
    /// By group: the deviation of the means of its class.
    sigma: Vec<f64>,
}

impl FabricEvidence {
    pub(crate) fn steps(&self) -> usize {
        self.z.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn classes(&self) -> usize {
        self.class.iter().max().map_or(0, |c| *c as usize + 1)
    }

    /// The columns without what is no contrast: groups of classes that are small, or pass the place mostly.
    pub(crate) fn contrasts(&self, columns: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let class = |g: u32| {
            let is_compared = self.z.get(g as usize)?.iter().any(Option::is_some);
            self.class.get(g as usize).filter(|_| is_compared).map(|c| *c as usize)
        };
        let count = |groups: &mut dyn Iterator<Item = u32>, counts: &mut Vec<usize>| {
            groups.filter_map(class).for_each(|c| counts[c] += 1);
        };
        let (mut all, mut own) = (vec![0; self.classes()], vec![0; self.classes()]);
        count(&mut (0..self.z.len() as u32), &mut all);
        let kept = |column: &Vec<u32>| -> Vec<u32> {
            count(&mut column.iter().copied(), &mut own);
            let is_contrast =
                |c: usize| all[c] >= GROUPS_LEAST && own[c] as f64 <= SHARE_MOST * all[c] as f64;
            let kept = column.iter().copied().filter(|g| class(*g).is_some_and(is_contrast)).collect();
            column.iter().filter_map(|g| class(*g)).for_each(|c| own[c] = 0);
            kept
        };
        columns.iter().map(kept).collect()
    }

    fn means(&self) -> GroupMeans {
        let mean: Vec<Option<f64>> = self.z.iter().map(|z| mean(z.iter().flatten().copied())).collect();
        let steps = self.steps().max(1) as f64;
        let mut by_class: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); self.classes()];
        for ((class, z), m) in self.class.iter().zip(&self.z).zip(&mean) {
            let of = &mut by_class[*class as usize];
            of.0.extend(m);
            of.1.extend(z.iter().flatten());
        }
        // A few groups may happen to agree better than their steps do.
        let spread =
            |(means, all): &mut (Vec<f64>, Vec<f64>)| sigma_of(means).max(sigma_of(all) / steps.sqrt());
        let spreads: Vec<f64> = by_class.iter_mut().map(spread).collect();
        let sigma = self.class.iter().map(|class| spreads[*class as usize]).collect();
        GroupMeans { mean, sigma }
    }

    /// How long slowness lasts by itself, in steps: of autocorrelation `rho`, `(1 + rho) / (1 - rho)`.
    pub(crate) fn block(&self) -> usize {
        let steps = self.steps();
        if steps < STEPS_FOR_RHO {
            return 1;
        }
        let (mut together, mut squares) = (0.0, 0.0);
        for z in &self.z {
            let Some(middle) = mean(z.iter().flatten().copied()) else { continue };
            squares += z.iter().flatten().map(|z| (z - middle).powi(2)).sum::<f64>();
            let pairs = z.windows(2).filter_map(|w| Some((w[0]? - middle) * (w[1]? - middle)));
            together += pairs.sum::<f64>();
        }
        if squares <= 0.0 {
            return 1;
        }
        // The estimate from so few steps is too low by (1 + 3 rho) / steps.
        let few = 1.0 / steps as f64;
        let rho = ((together / squares + few) / (1.0 - 3.0 * few)).clamp(0.0, 0.95);
        ((1.0 + rho) / (1.0 - rho)).round() as usize
    }

    /// Searches places, given by the groups that pass them ([`FabricEvidence::contrasts`]).
    pub(crate) fn search(&self, columns: &[Vec<u32>]) -> Vec<SlowSet> {
        let mut means = self.means();
        let mut found = Vec::new();
        for _ in 0..ROUNDS {
            let Some(mut slow) = best(columns, &means) else { break };
            slow.p_value = self.p_value(columns, &means, slow.gain);
            if slow.p_value > P_MOST {
                break;
            }
            for g in &slow.groups {
                if let Some(mean) = means.mean.get_mut(*g as usize) {
                    *mean = None;
                }
            }
            found.push(slow);
        }
        found
    }

    /// The share of random orders in which some place explains as much.
    fn p_value(&self, columns: &[Vec<u32>], means: &GroupMeans, gain: f64) -> f64 {
        let blocks = self.steps().div_ceil(self.block()).max(1);
        let length = self.steps().div_ceil(blocks).max(1);
        let sum = |z: &[Option<f64>]| z.iter().flatten().fold((0.0, 0u32), |(sum, n), z| (sum + z, n + 1));
        let sums: Vec<Vec<(f64, u32)>> = self.z.iter().map(|z| z.chunks(length).map(sum).collect()).collect();
        let mut classes: Vec<Vec<usize>> = Vec::new();
        for (g, class) in self.class.iter().enumerate().filter(|(g, _)| means.mean[*g].is_some()) {
            let class = *class as usize;
            classes.resize_with(classes.len().max(class + 1), Vec::new);
            classes[class].push(g);
        }
        let mut state = SEED;
        let mut as_much = 0;
        for _ in 0..DRAWS {
            let mut drawn = vec![(0.0, 0u32); self.z.len()];
            for groups in &classes {
                for block in 0..blocks {
                    let mut order = groups.clone();
                    for i in (1..order.len()).rev() {
                        order.swap(i, below(&mut state, i + 1));
                    }
                    for (to, from) in groups.iter().zip(&order) {
                        let (sum, n) = sums[*from].get(block).copied().unwrap_or_default();
                        drawn[*to] = (drawn[*to].0 + sum, drawn[*to].1 + n);
                    }
                }
            }
            let mean = drawn.iter().map(|(sum, n)| (*n > 0).then(|| sum / f64::from(*n))).collect();
            let drawn = GroupMeans { mean, sigma: Vec::new() };
            let largest =
                columns.iter().filter_map(|c| gain_of(c, &drawn)).fold(0.0, |a, (_, b)| f64::max(a, b));
            as_much += usize::from(largest >= gain);
        }
        (as_much + 1) as f64 / (DRAWS + 1) as f64
    }
}

/// Mean and gain of a place.
fn gain_of(column: &[u32], means: &GroupMeans) -> Option<(f64, f64)> {
    let known = || column.iter().filter_map(|g| *means.mean.get(*g as usize)?);
    let (n, mean) = (known().count(), mean(known())?);
    Some((mean, n as f64 * mean.max(0.0).powi(2)))
}

fn score(column: &[u32], means: &GroupMeans) -> Option<PlaceScore> {
    let (middle, gain) = gain_of(column, means)?;
    let known = || column.iter().filter(|g| means.mean.get(**g as usize).is_some_and(Option::is_some));
    let sigma = mean(known().filter_map(|g| means.sigma.get(*g as usize).copied()))?;
    let mut sorted: Vec<f64> = known().filter_map(|g| means.mean[*g as usize]).collect();
    sorted.sort_by(f64::total_cmp);
    let by_chance = sigma * (GROUPS_OF_NIC / sorted.len() as f64).sqrt().min(1.0);
    let is_slow = middle >= FACTOR_LEAST.ln().max(SIGMAS_LEAST * by_chance);
    let is_even = quantile(&sorted, 0.25)? >= middle / 2.0;
    Some(PlaceScore { mean: middle, gain, is_even, is_slow })
}

/// The place that explains most, with those that cannot be told from it.
fn best(columns: &[Vec<u32>], means: &GroupMeans) -> Option<SlowSet> {
    let scores: Vec<(usize, PlaceScore)> = columns
        .iter()
        .enumerate()
        .filter_map(|(i, column)| Some((i, score(column, means).filter(|s| s.is_even)?)))
        .collect();
    let slow = scores.iter().copied().filter(|(_, s)| s.is_slow);
    let (first, top) = slow.reduce(|a, b| if b.1.gain > a.1.gain { b } else { a })?;
    // A place that explains as much cannot be told from it even where its own groups differ too much.
    let mut set: Vec<(usize, PlaceScore)> =
        scores.into_iter().filter(|(_, s)| s.gain >= AS_GOOD * top.gain).collect();
    set.sort_by(|a, b| b.1.gain.total_cmp(&a.1.gain).then(a.0.cmp(&b.0)));
    let is_open = |g: &&u32| means.mean.get(**g as usize).is_some_and(Option::is_some);
    let groups = columns.get(first)?.iter().filter(is_open).copied().collect();
    let places = set.into_iter().map(|(i, _)| i).collect();
    Some(SlowSet { places, groups, mean: top.mean, gain: top.gain, p_value: 1.0 })
}
