//! Who is a straggler, in which steps, and who is not: the rules that decide what is said.
//!
//! The measure of one rank in one step is its *own gain*: over the chains of the step, the smaller of gain (what
//! repairing it alone would give its group) and excess (how much longer it worked than the others). A rank that came
//! last without working longer was held up; a rank that worked longer and was not last cost nothing.
//!
//! 1. Threshold: `--straggler-min-pct` of the median step, and three times the larger of the rank's clock residual and
//!    the median end skew.
//! 2. *Persistent*: above it in at least half of the steps, and on average beyond what the other members are apart
//!    from each other in the same chains (with more than one step and more than two members).
//! 3. *Together*: ranks that are equally late hide each other. A set of at most half of the members, all with an
//!    excess above the threshold, is judged by what repairing all of them gives.
//! 4. *In steps*: above the threshold and [`BEYOND`] times what members are usually apart in a step. When these steps
//!    are most of all and belong to several ranks, it is one finding: *rotating*.
//! 5. With several steps, those found are left out and the rest is judged again, by the rule for single steps in any
//!    case and where [`REMAIN`] members remain: who would be late *behind* them.
//!
//! How far members are apart in a chain is the distance between their local times without the largest; with two
//! members, the deviation of their difference from its median over the steps. Chains of one step add in quadrature.

use crate::analysis::across::delay::{Chain, StepKey, Windows, all_windows, chains, median_step};
use crate::analysis::across::{Job, median};
use crate::analysis::api::Options;
use crate::analysis::collectives::Shown;
use crate::units::Ns;
use std::collections::{BTreeMap, BTreeSet};

/// A single step stands out from this many usual distances,
const BEYOND: i64 = 2;
/// and from so many when it is hidden behind others: fewer ranks are left to compare it with.
const BEYOND_HIDDEN: i64 = 3;

/// Members that must be left to judge who is hidden: fewer cannot tell what is usual.
const REMAIN: usize = 5;

/// What kind of straggling a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    Persistent,
    Together,
    InSteps,
    Rotating,
}

impl Pattern {
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Persistent => "persistent",
            Pattern::Together => "together",
            Pattern::InSteps => "in_steps",
            Pattern::Rotating => "rotating",
        }
    }
}

/// One finding.
#[derive(Debug, Clone)]
pub struct Straggler {
    pub pattern: Pattern,
    /// Parts, by rank.
    pub parts: Vec<u32>,
    /// Steps in which it is late, with the parts that are.
    pub steps: Vec<(StepKey, Vec<u32>)>,
    /// Sum over its steps of what repairing gives, ns.
    pub gain: Ns,
    /// Sum over its steps and parts of the largest excess, ns.
    pub excess: Ns,
    /// Parts that hide it: it is late among the others.
    pub behind: Vec<u32>,
}

/// All that was judged.
pub struct Judged {
    pub stragglers: Vec<Straggler>,
    pub windows: Windows,
    /// Chains of the first round.
    pub chains: Vec<Chain>,
    /// Steps with chains, in order.
    pub steps: Vec<StepKey>,
    pub median_step: Ns,
    /// By part.
    pub thresholds: Vec<Ns>,
    /// Largest own gain a step among those that are not named: part, and ns per step.
    pub largest: Option<(u32, Ns)>,
}

/// Rounds of leaving out what was found.
const ROUNDS: usize = 4;

/// Judges all ranks.
pub fn judge(job: &Job, options: &Options) -> Judged {
    let windows = all_windows(job);
    let first = asked(job, options, chains(job, &windows, &BTreeSet::new()));
    let steps: Vec<StepKey> = first.iter().filter_map(|c| c.step).collect::<BTreeSet<_>>().into_iter().collect();
    let median_step = median_step(job);
    let thresholds = thresholds(job, median_step, options);
    let mut stragglers: Vec<Straggler> = Vec::new();
    let mut named: BTreeSet<u32> = BTreeSet::new();
    let mut largest = None;
    // one step cannot tell who is late behind others from chance
    for round in 0..if steps.len() > 1 { ROUNDS } else { 1 } {
        let later;
        let of_round = if round == 0 {
            &first
        } else {
            later = asked(job, options, chains(job, &windows, &named));
            &later
        };
        let is_first = round == 0;
        let round = Round::new(of_round, &steps, &thresholds, is_first);
        let mut found = round.judge();
        if is_first {
            largest = round.largest();
        }
        if found.is_empty() {
            break;
        }
        let behind: Vec<u32> = named.iter().copied().collect();
        named.extend(found.iter().flat_map(|s| s.parts.iter().copied()));
        found.iter_mut().for_each(|s| s.behind = behind.clone());
        stragglers.extend(found);
    }
    stragglers.sort_by_key(|s| (!s.behind.is_empty(), std::cmp::Reverse(s.gain), s.parts.clone()));
    Judged { stragglers, windows, chains: first, steps, median_step, thresholds, largest }
}

/// Chains of the groups and steps that are asked for.
fn asked(job: &Job, options: &Options, chains: Vec<Chain>) -> Vec<Chain> {
    let shown = Shown::new(job, options);
    let in_step = |c: &Chain| match (&options.model.steps, c.step) {
        (None, _) => true,
        (Some(filter), Some(StepKey::Label(l))) => filter.keeps(u32::MAX, Some(l)),
        (Some(filter), Some(StepKey::Index(i))) => filter.keeps(i, None),
        (Some(_), None) => false,
    };
    chains.into_iter().filter(|c| shown.has(c.group) && in_step(c)).collect()
}

fn thresholds(job: &Job, median_step: Ns, options: &Options) -> Vec<Ns> {
    let share = (median_step as f64 * options.across.straggler_min_pct / 100.0).round() as Ns;
    let synchronous = job.instances().iter().enumerate().filter(|(_, i)| i.kind.is_synchronous() && i.len() > 1);
    let mut skews: Vec<Ns> = synchronous.map(|(id, _)| job.arrivals(id).end_skew).collect();
    let skew = median(&mut skews).unwrap_or(0);
    job.clocks.iter().map(|c| share.max(3 * skew.max(c.residual)).max(1)).collect()
}

/// Chains by step.
struct Round<'a> {
    steps: &'a [StepKey],
    thresholds: &'a [Ns],
    /// Nobody is left out yet.
    is_first: bool,
    /// Chain, its step (index into `steps`) and how far its members are apart.
    chains: Vec<(&'a Chain, usize, Ns)>,
    /// By part: how far the members of its chains are usually apart in one step.
    usual: BTreeMap<u32, Ns>,
}

impl<'a> Round<'a> {
    fn new(chains: &'a [Chain], steps: &'a [StepKey], thresholds: &'a [Ns], is_first: bool) -> Self {
        let judged = chains.iter().filter(|c| is_first || c.arrivals.len() >= REMAIN);
        let mut placed: Vec<(&Chain, usize, Ns)> =
            judged.filter_map(|c| Some((c, steps.binary_search(&c.step?).ok()?, c.spread))).collect();
        apart_of_two(&mut placed);
        let mut squares: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (c, step, apart) in &placed {
            for (part, _) in &c.arrivals {
                squares.entry(*part).or_insert_with(|| vec![0.0; steps.len()])[*step] += (*apart as f64).powi(2);
            }
        }
        let root = |s: Vec<f64>| median(&mut s.into_iter().map(|x| x.sqrt() as Ns).collect::<Vec<_>>());
        let usual = squares.into_iter().filter_map(|(p, s)| Some((p, root(s)?))).collect();
        Self { steps, thresholds, is_first, chains: placed, usual }
    }

    fn judge(&self) -> Vec<Straggler> {
        let n = self.steps.len();
        if n == 0 {
            return Vec::new();
        }
        let mut own: BTreeMap<u32, Vec<Measure>> = BTreeMap::new();
        for (c, step, apart) in &self.chains {
            for part in c.gains.keys() {
                let gain = c.own_gain(*part);
                if gain > 0 {
                    own.entry(*part).or_insert_with(|| vec![Measure::default(); n])[*step].add(c, *part, gain, *apart);
                }
            }
        }
        for (c, step, _) in &self.chains {
            for (part, late) in &c.lates {
                if let Some(m) = own.get_mut(part) {
                    m[*step].balance += late.difference;
                }
            }
        }
        let mut found = if self.is_first { self.together(&own) } else { Vec::new() };
        let taken: BTreeSet<u32> = found.iter().flat_map(|s| s.parts.iter().copied()).collect();
        let mut single: Vec<(u32, usize, Measure)> = Vec::new();
        for (part, by_step) in own.iter().filter(|(p, _)| !taken.contains(p)) {
            let limit = self.thresholds[*part as usize];
            let is_late = |s: &usize| by_step[*s].gain >= limit && by_step[*s].balance * 2 >= by_step[*s].gain;
            let late: Vec<usize> = (0..n).filter(is_late).collect();
            let sum = |f: fn(&Measure) -> Ns| by_step.iter().map(f).sum::<Ns>();
            // several steps tell chance from a habit; one step cannot
            let clear = n == 1 || sum(|m| m.gain) >= sum(|m| m.apart);
            let usual = self.usual.get(part).copied().unwrap_or(0);
            let beyond = if self.is_first { BEYOND } else { BEYOND_HIDDEN };
            let out: Vec<usize> = late.iter().copied().filter(|s| by_step[*s].gain >= beyond * usual).collect();
            if self.is_first && late.len() * 2 >= n && clear {
                found.push(self.straggler(Pattern::Persistent, *part, &late, by_step));
            } else if !self.is_first && out.len() * 2 >= n {
                found.push(self.straggler(Pattern::Persistent, *part, &out, by_step));
            } else {
                single.extend(out.into_iter().map(|s| (*part, s, by_step[s])));
            }
        }
        found.extend(self.single_steps(&single));
        found
    }

    fn straggler(&self, pattern: Pattern, part: u32, late: &[usize], by_step: &[Measure]) -> Straggler {
        Straggler {
            pattern,
            parts: vec![part],
            steps: late.iter().map(|s| (self.steps[*s], vec![part])).collect(),
            gain: late.iter().map(|s| by_step[*s].gain).sum(),
            excess: late.iter().map(|s| by_step[*s].excess).sum(),
            behind: Vec::new(),
        }
    }

    /// Steps in which some rank stands out: by rank, or as one finding where they rotate.
    fn single_steps(&self, single: &[(u32, usize, Measure)]) -> Vec<Straggler> {
        let parts: BTreeSet<u32> = single.iter().map(|(p, ..)| *p).collect();
        let steps: BTreeSet<usize> = single.iter().map(|(_, s, _)| *s).collect();
        let build = |pattern, of: &dyn Fn(u32) -> bool| {
            let mut by_step: BTreeMap<StepKey, Vec<u32>> = BTreeMap::new();
            let kept: Vec<_> = single.iter().filter(|(p, ..)| of(*p)).collect();
            for (p, s, _) in &kept {
                by_step.entry(self.steps[*s]).or_default().push(*p);
            }
            Straggler {
                pattern,
                parts: kept.iter().map(|(p, ..)| *p).collect::<BTreeSet<_>>().into_iter().collect(),
                steps: by_step.into_iter().collect(),
                gain: kept.iter().map(|(.., m)| m.gain).sum(),
                excess: kept.iter().map(|(.., m)| m.excess).sum(),
                behind: Vec::new(),
            }
        };
        if parts.len() > 1 && steps.len() * 2 >= self.steps.len() {
            return vec![build(Pattern::Rotating, &|_| true)];
        }
        parts.iter().map(|p| build(Pattern::InSteps, &|x| x == *p)).collect()
    }

    /// Sets of equally late ranks that are late in at least half of the steps.
    fn together(&self, own: &BTreeMap<u32, Vec<Measure>>) -> Vec<Straggler> {
        let n = self.steps.len();
        let mut sets: BTreeMap<Vec<u32>, Vec<Measure>> = BTreeMap::new();
        for (c, step, apart) in &self.chains {
            let late: Vec<u32> =
                c.lates.iter().filter(|(p, l)| l.excess >= self.thresholds[**p as usize]).map(|(p, _)| *p).collect();
            if late.len() < 2 || late.len() * 2 > c.arrivals.len() {
                continue;
            }
            let last = c.arrivals.iter().map(|(_, t)| *t).max().unwrap_or(0);
            let others = c.arrivals.iter().filter(|(p, _)| !late.contains(p)).map(|(_, t)| *t).max().unwrap_or(last);
            let excess = late.iter().filter_map(|p| c.lates.get(p)).map(|l| l.excess).max().unwrap_or(0);
            let m = &mut sets.entry(late).or_insert_with(|| vec![Measure::default(); n])[*step];
            m.gain += (last - others).max(0).min(excess);
            m.excess += excess;
            m.apart += apart;
        }
        let mut out: Vec<Straggler> = Vec::new();
        let mut ordered: Vec<_> = sets.into_iter().collect();
        ordered.sort_by_key(|(set, m)| (std::cmp::Reverse(m.iter().map(|m| m.gain).sum::<Ns>()), set.clone()));
        for (set, by_step) in ordered {
            let limit = set.iter().map(|p| self.thresholds[*p as usize]).max().unwrap_or(0);
            let late: Vec<usize> = (0..n).filter(|s| by_step[*s].gain >= limit).collect();
            let gain: Ns = late.iter().map(|s| by_step[*s].gain).sum();
            // a set is one finding when repairing one of it would not do
            let alone = |p: &u32| own.get(p).map_or(0, |m| late.iter().map(|s| m[*s].gain).sum::<Ns>());
            let best: Ns = set.iter().map(alone).max().unwrap_or(0);
            let known = out.iter().any(|s| s.parts.iter().any(|p| set.contains(p)));
            if late.len() * 2 < n || late.is_empty() || best * 2 > gain || known {
                continue;
            }
            out.push(Straggler {
                pattern: Pattern::Together,
                steps: late.iter().map(|s| (self.steps[*s], set.clone())).collect(),
                gain,
                excess: late.iter().map(|s| by_step[*s].excess).sum(),
                parts: set,
                behind: Vec::new(),
            });
        }
        out
    }

    /// The part with the largest own gain, ns per step.
    fn largest(&self) -> Option<(u32, Ns)> {
        let mut sums: BTreeMap<u32, Ns> = BTreeMap::new();
        for (c, ..) in &self.chains {
            for part in c.gains.keys() {
                *sums.entry(*part).or_default() += c.own_gain(*part);
            }
        }
        let n = self.steps.len().max(1) as i64;
        sums.into_iter().max_by_key(|(p, g)| (*g, std::cmp::Reverse(*p))).map(|(p, g)| (p, g / n))
    }
}

/// Two members have no others to be apart: their difference against its median over the steps, by group and position
/// in the step.
fn apart_of_two(placed: &mut [(&Chain, usize, Ns)]) {
    let mut counts: BTreeMap<(u32, usize), usize> = BTreeMap::new();
    let mut differences: BTreeMap<(u32, usize), Vec<(usize, Ns)>> = BTreeMap::new();
    for (i, (c, step, _)) in placed.iter().enumerate() {
        let position = counts.entry((c.group, *step)).or_default();
        if let [a, b] = c.arrivals.as_slice()
            && c.lates.len() == 2
        {
            // of two, one has the excess, and it is their difference
            let excess = |p: u32| c.lates.get(&p).map_or(0, |l| l.excess);
            differences.entry((c.group, *position)).or_default().push((i, excess(a.0) - excess(b.0)));
        }
        *position += 1;
    }
    for of_position in differences.into_values() {
        let Some(middle) = median(&mut of_position.iter().map(|(_, d)| *d).collect::<Vec<_>>()) else { continue };
        for (i, d) in of_position {
            placed[i].2 = (d - middle).abs();
        }
    }
}

/// One part in one step, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Measure {
    gain: Ns,
    excess: Ns,
    /// How far the members were apart in the same chains.
    apart: Ns,
    /// How much longer it worked in all chains of the step, those where it was faster taken off.
    balance: Ns,
}

impl Measure {
    fn add(&mut self, c: &Chain, part: u32, gain: Ns, apart: Ns) {
        self.gain += gain;
        self.excess += c.lates.get(&part).map_or(0, |l| l.excess);
        self.apart += apart;
    }
}
