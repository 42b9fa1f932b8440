//! One round of judging: which ranks are late beyond chance, given those found before.

use crate::stragglers::chance::{Balances, P_MOST, is_always_ahead};
use crate::stragglers::straggler::{NoChance, Pattern, Straggler, Unproven};
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_job::delay::{Chain, StepKey};
use std::collections::{BTreeMap, BTreeSet};

/// A single step stands out if its gain is at least this many times the largest of any other rank,
pub(super) const STANDS_OUT: i64 = 3;
/// Of so many steps one may have such a gain on a rank of its own.
const FEW_OF: usize = 10;

/// and at least this many standard deviations, estimated from the median absolute deviation.
pub const DEVIATIONS: f64 = 5.0;

/// Standard deviation of a normal distribution divided by its median absolute deviation.
pub const SIGMA_OF_MAD: f64 = 1.4826;

/// Fewest comparisons (other ranks times steps) for which a step can stand out.
const COMPARISONS: usize = 7;

/// Fewest ranks that must remain to judge hidden stragglers; with fewer the usual time is unknown.
pub(super) const REMAIN: usize = 4;

/// Fewest ranks (and, next, steps) for rotating stragglers.
const ROTATING_RANKS: usize = 4;

const ROTATING_STEPS: usize = 3;

/// Into so many parts of equal numbers of chains a recording without steps is divided, each of so many at
/// least.
const BLOCKS: usize = 8;
const LEAST_CHAINS: usize = 3;

/// Chains by step, with the measures of each part.
pub(super) struct JudgeRound<'a> {
    pub(super) steps: &'a [StepKey],
    thresholds: &'a [Ns],
    /// Gain up to which ranks must also stand apart, ns.
    pub(super) apart: Ns,
    /// With the index of its step.
    pub(super) chains: Vec<(&'a Chain, usize)>,
    /// Parts that are compared, in order.
    pub(super) parts: Vec<u32>,
    /// By part and step.
    measures: BTreeMap<u32, Vec<StepMeasure>>,
}

/// The observations of one round.
#[derive(Default)]
pub(super) struct RoundFindings {
    pub(super) stragglers: Vec<Straggler>,
    pub(super) unproven: Vec<Unproven>,
    pub(super) p_values: BTreeMap<u32, f64>,
}

impl<'a> JudgeRound<'a> {
    pub(super) fn new(
        chains: &'a [Chain],
        steps: &'a [StepKey],
        (thresholds, apart): (&'a [Ns], Ns),
    ) -> Self {
        let chains: Vec<(&Chain, usize)> =
            chains.iter().filter_map(|c| Some((c, steps.binary_search(&c.step?).ok()?))).collect();
        let mut measures: BTreeMap<u32, Vec<StepMeasure>> = BTreeMap::new();
        for (c, step) in &chains {
            for late in &c.lates {
                let part = late.member.part;
                let m = &mut measures
                    .entry(part)
                    .or_insert_with(|| vec![StepMeasure::default(); steps.len()])[*step];
                m.gain += c.own_gain(part);
                m.excess += late.excess();
                m.difference += late.difference;
                m.balance += late.balance;
                m.is_present = true;
            }
        }
        Self { steps, thresholds, apart, chains, parts: measures.keys().copied().collect(), measures }
    }

    pub(super) fn of(&self, part: u32) -> &[StepMeasure] {
        self.measures.get(&part).map_or(&[], Vec::as_slice)
    }

    pub(super) fn limit(&self, part: u32) -> Ns {
        self.thresholds.get(part as usize).copied().unwrap_or(Ns::MAX)
    }

    /// Steps in which a part is late: its own gain reaches the threshold, and the part was not faster over
    /// the step as a whole.
    fn late_steps(&self, part: u32) -> Vec<usize> {
        self.steps_from(part, self.limit(part))
    }

    /// Steps in which the own gain of a part reaches a limit.
    fn steps_from(&self, part: u32, limit: Ns) -> Vec<usize> {
        let is_late = |m: &StepMeasure| m.gain >= limit && m.difference * 2 >= m.gain;
        self.of(part).iter().enumerate().filter(|(_, m)| is_late(m)).map(|(s, _)| s).collect()
    }

    pub(super) fn judge(&self, is_first: bool) -> RoundFindings {
        let mut found = RoundFindings::default();
        let n = self.steps.len();
        if n == 0 {
            return found;
        }
        let by_step: Vec<Vec<Ns>> =
            (0..n).map(|s| self.parts.iter().map(|p| self.of(*p)[s].balance).collect()).collect();
        let balances = Balances(&by_step);
        self.together(&balances, &mut found);
        self.persistent(&balances, &mut found);
        // A persistent straggler distorts what is usual, so the other ranks are judged in the next round,
        // without it.
        if found.stragglers.is_empty() {
            found.stragglers = self.single_steps(&balances);
            found.stragglers.extend(self.sets_in_steps());
        }
        if found.stragglers.is_empty() && is_first {
            found.stragglers.extend(self.rotating());
        }
        found
    }

    /// Finds ranks that are late in the median step.
    fn persistent(&self, balances: &Balances, found: &mut RoundFindings) {
        let n = self.steps.len();
        let is_taken = |p: &u32| found.stragglers.iter().any(|s| s.parts.contains(p));
        let usual = |p: u32| {
            let mut gains: Vec<Ns> = self.of(p).iter().map(|m| m.gain).collect();
            gains.sort_unstable();
            // The upper median: being late in half of the steps suffices.
            gains.get(n / 2).copied().unwrap_or(0)
        };
        let is_usually_late = |p: &u32| usual(*p) >= self.limit(*p);
        let late: Vec<usize> = (0..self.parts.len())
            .filter(|i| !is_taken(&self.parts[*i]) && is_usually_late(&self.parts[*i]))
            .collect();
        if late.is_empty() {
            return;
        }
        let sets: Vec<Vec<usize>> = (0..self.parts.len()).map(|i| vec![i]).collect();
        let p_values = balances.p_values(&sets);
        if let Some(p) = &p_values {
            found.p_values = self.parts.iter().copied().zip(p.iter().copied()).collect();
        }
        for i in late {
            let part = self.parts[i];
            let p_value = p_values.as_ref().map(|p| p[i]);
            let evidence = match p_value {
                Some(p) if p <= P_MOST => Some(NoChance::Permutation(p)),
                _ if is_always_ahead(&self.where_it_delays_most(part)) => Some(NoChance::Ahead),
                _ if self.is_late_throughout(i) => Some(NoChance::Throughout),
                _ => None,
            };
            // For a persistent straggler, steps slightly below the threshold count as well.
            let steps = self.steps_from(part, self.limit(part).min(usual(part) / 2).max(1));
            let is_clear = usual(part) >= self.apart || balances.stand_apart(&[i]);
            match evidence.filter(|_| !steps.is_empty() && is_clear) {
                Some(evidence) => {
                    let cells: Vec<(u32, usize)> = steps.into_iter().map(|s| (part, s)).collect();
                    let of = self.straggler(Pattern::Persistent, &cells, evidence);
                    found.stragglers.push(self.unless_jitter(of, balances, &[i]));
                }
                None => found.unproven.push(self.unproven(part, p_value)),
            }
        }
    }

    /// The same, with whether jitter that lasts may look like it.
    pub(super) fn unless_jitter(&self, of: Straggler, balances: &Balances, places: &[usize]) -> Straggler {
        let is_small = of.gain < self.apart * self.steps.len() as Ns;
        Straggler { is_brief: is_small || balances.is_brief(places), ..of }
    }

    /// Whether the part at a position is later than chance allows over the parts of a recording without
    /// steps. It is not told whether that lasts.
    fn is_late_throughout(&self, position: usize) -> bool {
        let is_whole = |c: &Chain| c.lates.len() == self.parts.len();
        let mut chains: Vec<&Chain> = self.chains.iter().map(|(c, _)| *c).filter(|c| is_whole(c)).collect();
        if self.steps != [StepKey::Index(0)] || chains.len() < BLOCKS * LEAST_CHAINS {
            return false;
        }
        chains.sort_by_key(|c| c.arrivals.iter().map(|(_, t)| *t).max());
        let sum = |of: &[&Chain]| -> Vec<Ns> {
            let balance = |k: usize| of.iter().filter_map(|c| Some(c.lates.get(k)?.balance)).sum();
            (0..self.parts.len()).map(balance).collect()
        };
        let blocks: Vec<Vec<Ns>> = chains.chunks(chains.len().div_ceil(BLOCKS)).map(sum).collect();
        let p_value = Balances(&blocks).p_values(&[vec![position]]).and_then(|p| p.first().copied());
        p_value.is_some_and(|p| p <= P_MOST)
    }

    /// By step, the balance of a part in the chain in which it delays the others most, and the balances of
    /// the others. Empty if there is a step in which it delays nobody.
    fn where_it_delays_most(&self, part: u32) -> Vec<(Ns, Vec<Ns>)> {
        let of_step = |step: usize| {
            let of = self.chains.iter().filter(|(c, s)| *s == step && c.own_gain(part) > 0);
            let (worst, _) = of.max_by_key(|(c, _)| c.own_gain(part))?;
            let others = worst.lates.iter().filter(|l| l.member.part != part).map(|l| l.balance);
            Some((worst.late(part)?.balance, others.collect()))
        };
        (0..self.steps.len()).map(of_step).collect::<Option<_>>().unwrap_or_default()
    }

    fn unproven(&self, part: u32, p_value: Option<f64>) -> Unproven {
        let late = self.late_steps(part).len();
        let gain = median(&mut self.of(part).iter().map(|m| m.gain).collect::<Vec<_>>()).unwrap_or(0);
        Unproven { parts: vec![part], late, gain, p_value, ranks: self.parts.len() }
    }

    /// An observation for these parts in these steps.
    fn straggler(&self, pattern: Pattern, cells: &[(u32, usize)], evidence: NoChance) -> Straggler {
        let mut by_step: BTreeMap<StepKey, Vec<u32>> = BTreeMap::new();
        for (p, s) in cells {
            by_step.entry(self.steps[*s]).or_default().push(*p);
        }
        let sum = |f: fn(&StepMeasure) -> Ns| cells.iter().map(|(p, s)| f(&self.of(*p)[*s])).sum::<Ns>();
        Straggler {
            pattern,
            parts: cells.iter().map(|(p, _)| *p).collect::<BTreeSet<_>>().into_iter().collect(),
            steps: by_step.into_iter().collect(),
            gain: sum(|m| m.gain),
            excess: sum(|m| m.excess),
            behind: Vec::new(),
            is_brief: false,
            is_beside_tokens: false,
            evidence,
        }
    }

    /// The threshold for standing out: robust standard deviations of the differences between ranks, ns.
    /// `None` with too few comparisons.
    pub(super) fn deviation(&self) -> Option<Ns> {
        if self.parts.len().saturating_sub(1) * self.steps.len() < COMPARISONS {
            return None;
        }
        let present = self.measures.values().flatten().filter(|m| m.is_present);
        let mut differences: Vec<Ns> = present.map(|m| m.difference).collect();
        let middle = median(&mut differences)?;
        let mut apart: Vec<Ns> = differences.iter().map(|d| (d - middle).abs()).collect();
        Some((DEVIATIONS * SIGMA_OF_MAD * median(&mut apart)? as f64).ceil() as Ns)
    }

    /// The few largest own gains, if they stand out from all that follow: pauses of several ranks in several
    /// steps.
    fn few_largest(&self, deviation: Ns) -> BTreeSet<(u32, usize)> {
        let of_part =
            |p: &u32| self.of(*p).iter().enumerate().map(|(s, m)| (m.gain, *p, s)).collect::<Vec<_>>();
        let mut cells: Vec<(Ns, u32, usize)> = self.parts.iter().flat_map(of_part).collect();
        let most = self.steps.len() / FEW_OF;
        if most < cells.len() {
            cells.select_nth_unstable_by_key(most, |cell| std::cmp::Reverse(*cell));
            cells.truncate(most + 1);
        }
        cells.sort_unstable_by_key(|cell| std::cmp::Reverse(*cell));
        let gain = |k: usize| cells.get(k).map_or(0, |cell| cell.0);
        let stand_out = |k: &usize| gain(k - 1) >= deviation && gain(k - 1) >= STANDS_OUT * gain(*k);
        let count = (1..=most).rev().find(stand_out).unwrap_or(0);
        cells.into_iter().take(count).map(|(_, part, step)| (part, step)).collect()
    }

    /// Finds ranks whose steps stand out from all other ranks and steps, or that are late on average.
    fn single_steps(&self, balances: &Balances) -> Vec<Straggler> {
        let Some(deviation) = self.deviation() else { return Vec::new() };
        let on_average = self.late_on_average(balances);
        let mut largest: Vec<(Ns, u32)> =
            self.parts.iter().map(|p| (self.of(*p).iter().map(|m| m.gain).max().unwrap_or(0), *p)).collect();
        largest.sort_unstable_by_key(|l| std::cmp::Reverse(*l));
        let few = self.few_largest(deviation);
        let mut out = Vec::new();
        for (i, &part) in self.parts.iter().enumerate() {
            let late = self.late_steps(part).into_iter();
            if let Some((_, p)) = on_average.iter().find(|(of, _)| *of == part) {
                let cells: Vec<(u32, usize)> = late.map(|s| (part, s)).collect();
                let of = self.straggler(Pattern::InSteps, &cells, NoChance::Permutation(*p));
                out.push(self.unless_jitter(of, balances, &[i]));
                continue;
            }
            let others = largest.iter().find(|(_, p)| *p != part).map_or(0, |(gain, _)| *gain);
            let stands_out = |s: &usize| {
                let gain = self.of(part)[*s].gain;
                gain >= deviation && (gain >= STANDS_OUT * others || few.contains(&(part, *s)))
            };
            let cells: Vec<(u32, usize)> = late.filter(stands_out).map(|s| (part, s)).collect();
            if !cells.is_empty() {
                out.push(self.straggler(Pattern::InSteps, &cells, NoChance::StandsOut));
            }
        }
        out
    }

    /// Ranks that are late in some steps, by so much as if they reached the threshold in each, with their
    /// p-values: too often for chance, and apart from the others.
    fn late_on_average(&self, balances: &Balances) -> Vec<(u32, f64)> {
        let is_late = |part: u32| {
            let late = self.late_steps(part);
            let gain: Ns = late.iter().map(|s| self.of(part)[*s].gain).sum();
            late.len() > 1 && gain >= self.limit(part).saturating_mul(self.steps.len() as Ns)
        };
        let late: Vec<usize> = (0..self.parts.len()).filter(|i| is_late(self.parts[*i])).collect();
        let sets: Vec<Vec<usize>> = late.iter().map(|i| vec![*i]).collect();
        let p_values = balances.p_values(&sets).unwrap_or_default();
        let known = late.into_iter().zip(p_values);
        known
            .filter(|(i, p)| *p <= P_MOST && balances.stand_apart(&[*i]))
            .map(|(i, p)| (self.parts[i], p))
            .collect()
    }

    /// Finds several ranks in turn: in most steps the last one exceeds the usual differences between ranks,
    /// and by more than the others differ in that step.
    fn rotating(&self) -> Option<Straggler> {
        let n = self.steps.len();
        if self.parts.len() < ROTATING_RANKS || n < ROTATING_STEPS {
            return None;
        }
        let deviation = self.deviation()?;
        let clear = |part: u32, s: usize| {
            let others = || self.parts.iter().filter(|p| **p != part).map(|p| self.of(*p)[s].balance);
            let (least, most) = (others().min().unwrap_or(0), others().max().unwrap_or(0));
            self.of(part)[s].balance - most >= most - least
        };
        let cells: Vec<(u32, usize)> = self
            .parts
            .iter()
            .flat_map(|p| self.late_steps(*p).into_iter().map(|s| (*p, s)))
            .filter(|(p, s)| self.of(*p)[*s].gain >= deviation && clear(*p, *s))
            .collect();
        let who: BTreeSet<u32> = cells.iter().map(|(p, _)| *p).collect();
        let when: BTreeSet<usize> = cells.iter().map(|(_, s)| *s).collect();
        (who.len() > 1 && when.len() * 3 >= n * 2)
            .then(|| self.straggler(Pattern::Rotating, &cells, NoChance::StandsOut))
    }

    /// The part with the largest own gain, with ns per step.
    pub(super) fn largest(&self) -> Option<(u32, Ns)> {
        let n = self.steps.len().max(1) as i64;
        let sums = self.measures.iter().map(|(p, m)| (*p, m.iter().map(|m| m.gain).sum::<Ns>()));
        let sums = sums.filter(|(_, g)| *g > 0);
        sums.max_by_key(|(p, g)| (*g, std::cmp::Reverse(*p))).map(|(p, g)| (p, g / n))
    }
}

/// Measures of one part in one step, ns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepMeasure {
    pub(super) gain: Ns,
    excess: Ns,
    /// How much longer it worked than the median of the others in all chains of the step, minus the time by
    /// which it was faster in others.
    difference: Ns,
    /// The same relative to the median of all members.
    balance: Ns,
    /// Whether it has a local time in this step.
    is_present: bool,
}
