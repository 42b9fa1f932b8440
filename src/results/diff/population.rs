//! The population of a comparison: the ranks, their steps, and their weights.
//!
//! ```text
//!   ranks   those that both sets have; if they share none, all of both
//!   steps   full steps; all steps of a rank without full steps; the capture of all ranks if a rank has no steps
//! ```

use crate::diff::exact::Weights;
use crate::diff::iterations::CountedIteration;
use crate::diff::set::{Set, SetRank, WindowOfDevice, WorkSide};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PopulationError {
    #[error("cannot compare: none of the steps asked for is in {0}")]
    NoSteps(String),
    /// The results lack what is compared.
    #[error("cannot compare: {0}")]
    NoTable(String),
    #[error("cannot compare: a step of base is other work than a step of test\n  {}", reasons.join("\n  "))]
    Different { reasons: Vec<String> },
}

impl PopulationError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PopulationError::NoSteps(_) => None,
            PopulationError::NoTable(_) => Some("analyze it again with all analyses, or give its traces"),
            PopulationError::Different { .. } => Some("--force compares them nevertheless"),
        }
    }
}

/// The two sides, and how their ranks and steps were selected.
pub(crate) struct Population<'a> {
    pub(crate) base: ChosenRanks<'a>,
    pub(crate) test: ChosenRanks<'a>,
    /// Whether the sides have the same ranks; if not, all ranks of both are used.
    pub(crate) same_ranks: bool,
    /// Whether steps are compared; if not, whole captures.
    pub(crate) by_step: bool,
    /// Whether communication is divided into waiting and transfer on both sides.
    pub(crate) is_divided: bool,
}

pub(crate) struct ChosenRanks<'a> {
    pub(crate) set: &'a Set,
    pub(crate) ranks: Vec<ComparedRank<'a>>,
    /// Weights for the mean over ranks of a rank's work per step.
    pub(crate) by_rank: Weights,
    /// Weights for the mean over ranks and devices of a device's time per step.
    pub(crate) by_device: Weights,
    /// Number of ranks that have each step, in order of step.
    pub(crate) samples: BTreeMap<Option<u32>, usize>,
    /// Ranks that have none of the selected steps.
    pub(crate) without_steps: Vec<u32>,
    /// Whether some rank uses partial steps, because it has no full one.
    pub(crate) counts_partial: bool,
}

/// A rank with the steps that are compared.
pub(crate) struct ComparedRank<'a> {
    pub(crate) rank: &'a SetRank,
    pub(crate) steps: BTreeSet<Option<u32>>,
    /// Number of devices: windows per step, at least 1.
    pub(crate) devices: usize,
}

impl<'a> Population<'a> {
    /// Selects ranks and steps. `narrowed`: the user selected steps, so a rank without them must not fall
    /// back to its capture.
    ///
    /// # Errors
    /// When a set has none of the selected steps.
    pub fn choose(base: &'a Set, test: &'a Set, narrowed: bool) -> Result<Self, PopulationError> {
        let numbers =
            |set: &Set| set.ranks.iter().filter(|r| !narrowed || has_steps(r)).map(|r| r.rank).collect();
        let (in_base, in_test): (BTreeSet<u32>, BTreeSet<u32>) = (numbers(base), numbers(test));
        if let Some(set) = [(base, &in_base), (test, &in_test)].iter().find(|s| s.1.is_empty()) {
            return Err(PopulationError::NoSteps(set.0.shown.clone()));
        }
        let shared: BTreeSet<u32> = in_base.intersection(&in_test).copied().collect();
        let same_ranks = !shared.is_empty();
        let of = |set: &'a Set, present: &BTreeSet<u32>| -> Vec<&'a SetRank> {
            let wanted = if same_ranks { &shared } else { present };
            set.ranks.iter().filter(|r| wanted.contains(&r.rank)).collect()
        };
        let (base_ranks, test_ranks) = (of(base, &in_base), of(test, &in_test));
        let by_step = base_ranks.iter().chain(&test_ranks).all(|r| has_steps(r));
        let base = ChosenRanks::new(base, &base_ranks, by_step, narrowed);
        let test = ChosenRanks::new(test, &test_ranks, by_step, narrowed);
        let is_divided = base.is_divided() && test.is_divided();
        Ok(Self { base, test, same_ranks, by_step, is_divided })
    }

    /// Whether the sides are of different recorders, which see different parts of a program.
    pub(crate) fn has_two_recorders(&self) -> bool {
        let of =
            |side: &ChosenRanks| side.ranks.iter().map(|r| r.rank.recorder.family()).collect::<BTreeSet<_>>();
        of(&self.base) != of(&self.test)
    }

    /// Whether the devices of the sides are of different makers, so that no name of a kernel is on both.
    pub(crate) fn has_two_vendors(&self) -> bool {
        let [base, test] = [&self.base, &self.test].map(|side| {
            let names = side.ranks.iter().map(|r| r.rank.vendor.as_str()).filter(|v| !v.is_empty());
            names.collect::<BTreeSet<&str>>()
        });
        !base.is_empty() && !test.is_empty() && base.is_disjoint(&test)
    }

    /// Least number of steps whose values tell the noise of a side.
    pub(crate) fn fewest_steps(&self) -> usize {
        self.base.samples.len().min(self.test.samples.len())
    }

    /// Kinds of host events that only one side has, with its name: of different recorders, they say nothing
    /// about the program. Empty for sides of one recorder.
    pub(crate) fn one_sided(&self) -> BTreeMap<&'a str, &'static str> {
        if !self.has_two_recorders() {
            return BTreeMap::new();
        }
        let classes = |side: &ChosenRanks<'a>| -> BTreeSet<&'a str> {
            let keys = side.ranks.iter().flat_map(|r| &r.rank.keys);
            keys.filter(|k| k.side == WorkSide::Host).map(|k| &*k.class).collect()
        };
        let (base, test) = (classes(&self.base), classes(&self.test));
        let only_base = base.difference(&test).map(|class| (*class, "base"));
        only_base.chain(test.difference(&base).map(|class| (*class, "test"))).collect()
    }

    /// The iterations of the compared ranks of both sides.
    pub(crate) fn iterations(&self) -> [Vec<&'a CountedIteration>; 2] {
        [&self.base, &self.test].map(|side| {
            let kept: BTreeSet<u32> = side.ranks.iter().map(|r| r.rank.rank).collect();
            side.set.iterations.iter().filter(|i| kept.contains(&i.rank)).collect()
        })
    }

    pub(crate) fn scope(&self) -> &'static str {
        if self.by_step { "step" } else { "capture" }
    }

    /// Ranks of each set that are left out because the other set does not have them.
    pub(crate) fn left_out(&self) -> [Vec<u32>; 2] {
        [&self.base, &self.test].map(|side| {
            let kept: BTreeSet<u32> =
                side.ranks.iter().map(|r| r.rank.rank).chain(side.without_steps.iter().copied()).collect();
            side.set.ranks.iter().map(|r| r.rank).filter(|r| !kept.contains(r)).collect()
        })
    }
}

fn has_steps(rank: &SetRank) -> bool {
    rank.windows.iter().any(|w| w.step.is_some())
}

/// Of steps of which every k-th does more work, the last that are whole periods; all if there are none, or
/// with gaps.
fn whole_periods(steps: BTreeSet<Option<u32>>, period: Option<u32>) -> BTreeSet<Option<u32>> {
    let Some(every) = period.map(|p| p as usize).filter(|p| *p > 0) else { return steps };
    let left_out = steps.len() % every;
    let mut kept = steps.iter().skip(left_out).copied().flatten();
    let is_whole = match (kept.next(), kept.next_back()) {
        (Some(first), Some(last)) => (last - first) as usize + 1 == steps.len() - left_out,
        _ => false,
    };
    if is_whole { steps.into_iter().skip(left_out).collect() } else { steps }
}

impl<'a> ChosenRanks<'a> {
    fn new(set: &'a Set, ranks: &[&'a SetRank], by_step: bool, narrowed: bool) -> Self {
        let mut counts_partial = false;
        let ranks: Vec<ComparedRank> = ranks
            .iter()
            .map(|&rank| {
                let of_scope = || rank.windows.iter().filter(|w| w.step.is_some() == by_step);
                let full: BTreeSet<_> = of_scope().filter(|w| !w.is_partial).map(|w| w.step).collect();
                let all: BTreeSet<_> = of_scope().map(|w| w.step).collect();
                counts_partial |= full.is_empty() && !all.is_empty();
                let steps = whole_periods(if full.is_empty() { all } else { full }, rank.period);
                let devices = of_scope().filter(|w| Some(&w.step) == steps.first()).count().max(1);
                ComparedRank { rank, steps, devices }
            })
            .collect();
        let mut samples: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        for step in ranks.iter().flat_map(|r| &r.steps) {
            *samples.entry(*step).or_default() += 1;
        }
        let steps = |r: &ComparedRank| r.steps.len().max(1) as u64;
        let missing = set.ranks.iter().filter(|r| narrowed && !has_steps(r)).map(|r| r.rank).collect();
        Self {
            set,
            by_rank: Weights::new(&ranks.iter().map(steps).collect::<Vec<_>>()),
            by_device: Weights::new(&ranks.iter().map(|r| steps(r) * r.devices as u64).collect::<Vec<_>>()),
            ranks,
            samples,
            without_steps: missing,
            counts_partial,
        }
    }

    pub(crate) fn rank_count(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Whether it is known which part of its communication is waiting and which transfer, or there is none.
    fn is_divided(&self) -> bool {
        let (mut known, mut all) = (0, 0);
        for (_, w) in self.windows() {
            known += w.waiting + w.transfer;
            all += w.exposed;
        }
        known > 0 || all == 0
    }

    /// Number of compared steps, over all ranks.
    pub(crate) fn step_count(&self) -> u64 {
        self.ranks.iter().map(|r| r.steps.len() as u64).sum()
    }

    /// The compared windows, each with the index of its rank.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (usize, &'a WindowOfDevice)> {
        self.ranks.iter().enumerate().flat_map(|(i, of)| {
            of.rank.windows.iter().filter(move |w| of.steps.contains(&w.step)).map(move |w| (i, w))
        })
    }

    /// Position of each step among the samples, with its number of ranks.
    pub(crate) fn places(&self) -> BTreeMap<Option<u32>, (usize, usize)> {
        self.samples.iter().enumerate().map(|(i, (step, ranks))| (*step, (i, *ranks))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_compared_as_a_whole() {
        let kept = |steps: &[u32], period| {
            let all = steps.iter().map(|s| Some(*s)).collect();
            whole_periods(all, period).into_iter().flatten().collect::<Vec<u32>>()
        };
        assert_eq!(kept(&[1, 2, 3, 4, 5, 6], Some(4)), [3, 4, 5, 6]);
        assert_eq!(kept(&[1, 2, 3, 4, 5, 6], None), [1, 2, 3, 4, 5, 6]);
        // Nothing is a whole period.
        assert_eq!(kept(&[1, 2, 3], Some(4)), [1, 2, 3]);
        assert_eq!(kept(&[1, 2, 4, 5], Some(4)), [1, 2, 4, 5]);
    }
}
