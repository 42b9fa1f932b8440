//! Sets of ranks that are late at once. They hide each other: repairing one of them saves nothing.

use crate::stragglers::chance::{Balances, P_MOST, STEPS_FOR_JITTER};
use crate::stragglers::judge_round::{JudgeRound, RoundFindings, STANDS_OUT};
use crate::stragglers::straggler::{NoChance, Pattern, Straggler, Unproven};
use hta_base::units::Ns;
use hta_job::delay::Lateness;
use std::collections::BTreeMap;

/// Ranks that are late at once; by step, what repairing all of them saves, and by how much they are late, ns.
type LateSet = (Vec<u32>, Vec<(Ns, Ns)>);

impl JudgeRound<'_> {
    /// Sets of at most half of the members of a chain that are all late, with what repairing all of them
    /// saves and by how much the latest is late in each step; the set that costs most first. `least`: by how
    /// much a part must be late if the latest is late by so much.
    pub(super) fn late_sets(&self, least: impl Fn(u32, Ns) -> Ns) -> Vec<LateSet> {
        let mut sets: BTreeMap<Vec<u32>, Vec<(Ns, Ns)>> = BTreeMap::new();
        for (c, step) in &self.chains {
            let most = c.lates.iter().map(Lateness::excess).max().unwrap_or(0);
            let is_late = |l: &&Lateness| l.excess() >= least(l.member.part, most);
            let late: Vec<u32> = c.lates.iter().filter(is_late).map(|l| l.member.part).collect();
            if late.len() < 2 || late.len() * 2 > c.arrivals.len() {
                continue;
            }
            let last = c.arrivals.iter().map(|(_, t)| *t).max().unwrap_or(0);
            let others =
                c.arrivals.iter().filter(|(p, _)| !late.contains(p)).map(|(_, t)| *t).max().unwrap_or(last);
            let excess = late.iter().filter_map(|p| c.late(*p)).map(|l| l.excess()).max().unwrap_or(0);
            let m = &mut sets.entry(late).or_insert_with(|| vec![(0, 0); self.steps.len()])[*step];
            m.0 += (last - others).max(0).min(excess);
            m.1 += excess;
        }
        let mut ordered: Vec<_> = sets.into_iter().collect();
        ordered.sort_by_key(|(set, m)| (std::cmp::Reverse(m.iter().map(|m| m.0).sum::<Ns>()), set.clone()));
        ordered
    }

    /// Steps in which repairing a set saves so much, and what that is together; `None` if repairing one of
    /// its ranks would do.
    fn steps_of_set(&self, (set, by_step): &LateSet, limit: Ns) -> Option<(Vec<usize>, Ns)> {
        let late: Vec<usize> = (0..self.steps.len()).filter(|s| by_step[*s].0 >= limit).collect();
        let gain: Ns = late.iter().map(|s| by_step[*s].0).sum();
        let alone = |p: &u32| late.iter().map(|s| self.of(*p)[*s].gain).sum::<Ns>();
        let best: Ns = set.iter().map(alone).max().unwrap_or(0);
        (!late.is_empty() && best * 2 <= gain).then_some((late, gain))
    }

    /// A set of ranks that is late in these steps.
    fn set_straggler(
        &self,
        (set, by_step): &LateSet,
        (late, gain): (Vec<usize>, Ns),
        (pattern, evidence): (Pattern, NoChance),
    ) -> Straggler {
        Straggler {
            pattern,
            steps: late.iter().map(|s| (self.steps[*s], set.clone())).collect(),
            gain,
            excess: late.iter().map(|s| by_step[*s].1).sum(),
            parts: set.clone(),
            behind: Vec::new(),
            is_brief: false,
            is_beside_tokens: false,
            evidence,
        }
    }

    /// Finds sets of equally late ranks in few steps: the set stands out from the other ranks of the step,
    /// and costs more than any of them in any step.
    pub(super) fn sets_in_steps(&self) -> Vec<Straggler> {
        let Some(deviation) = self.deviation() else { return Vec::new() };
        let mut out: Vec<Straggler> = Vec::new();
        let least = |part: u32, most: Ns| self.limit(part).max(self.apart).max(most / 2);
        for of @ (set, by_step) in &self.late_sets(least) {
            let limit = set.iter().map(|p| least(*p, deviation)).max().unwrap_or(0).max(deviation);
            let others = || self.parts.iter().filter(|p| !set.contains(p));
            let elsewhere = others().flat_map(|p| self.of(*p)).map(|m| m.gain).max().unwrap_or(0);
            let Some((late, gain)) = self.steps_of_set(of, limit.max(elsewhere)) else { continue };
            let stands_out = |s: &usize| {
                let beside = others().map(|p| self.of(*p)[*s].gain).max().unwrap_or(0);
                by_step[*s].0 >= STANDS_OUT * beside
            };
            let is_known = out.iter().any(|s| s.parts.iter().any(|p| set.contains(p)));
            if !is_known && late.len() * 2 < self.steps.len() && late.iter().all(stands_out) {
                out.push(self.set_straggler(of, (late, gain), (Pattern::InSteps, NoChance::StandsOut)));
            }
        }
        out
    }

    /// Finds sets of equally late ranks that are late in at least half of the steps.
    pub(super) fn together(&self, balances: &Balances, found: &mut RoundFindings) {
        // In a few steps some of so many sets are late together by chance.
        let are_few = self.steps.len() < STEPS_FOR_JITTER;
        let limit = |part: u32| self.limit(part).max(if are_few { self.apart } else { 0 });
        for of @ (set, _) in &self.late_sets(|part, _| limit(part)) {
            let limit = set.iter().map(|p| limit(*p)).max().unwrap_or(0);
            let Some((late, gain)) = self.steps_of_set(of, limit) else { continue };
            let known = found.stragglers.iter().any(|s| s.parts.iter().any(|p| set.contains(p)));
            if late.len() * 2 < self.steps.len() || known {
                continue;
            }
            let places: Vec<usize> = set.iter().filter_map(|p| self.parts.binary_search(p).ok()).collect();
            let p_value = balances.p_values(std::slice::from_ref(&places)).and_then(|p| p.first().copied());
            // Sets of several sizes are tried, and each may be late by chance.
            let sizes = (self.parts.len() / 2).max(1) as f64;
            let is_large = gain / self.steps.len() as Ns >= self.apart;
            let is_clear = are_few || is_large || balances.stand_apart(&places);
            let Some(p) = p_value.filter(|p| *p * sizes <= P_MOST && is_clear) else {
                if !found.unproven.iter().any(|u| u.parts.iter().any(|p| set.contains(p))) {
                    let gain = gain / late.len() as i64;
                    let late = late.len();
                    found.unproven.push(Unproven {
                        parts: set.clone(),
                        late,
                        gain,
                        p_value,
                        ranks: self.parts.len(),
                    });
                }
                continue;
            };
            let late = self.set_straggler(of, (late, gain), (Pattern::Together, NoChance::Permutation(p)));
            found.stragglers.push(self.unless_jitter(late, balances, &places));
        }
    }
}
