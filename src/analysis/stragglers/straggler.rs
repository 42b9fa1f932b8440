//! What is found: stragglers, what cannot be proven, and how sure that is.

use crate::efficiency::account::StepLength;
use crate::stragglers::chance::{FEW_BY_CHANCE, chance_of_few, steps_needed};
use crate::stragglers::delays::{ByPart, OwnGains};
use hta_base::units::Ns;
use hta_job::delay::StepKey;
use std::collections::BTreeMap;

/// Kind of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    Persistent,
    Together,
    InSteps,
    Rotating,
}

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pattern::Persistent => "persistent",
            Pattern::Together => "together",
            Pattern::InSteps => "in_steps",
            Pattern::Rotating => "rotating",
        }
    }
}

/// Why an observation is not chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoChance {
    /// A permutation test, with its p-value.
    Permutation(f64),
    /// The largest in every step, by at least the distance between the others.
    Ahead,
    /// Late in all parts of a recording without steps.
    Throughout,
    /// It stands out from all other ranks and steps.
    StandsOut,
    /// The clock of its device is lower than that of the others.
    LowerClock,
}

impl NoChance {
    pub(crate) fn name(self) -> &'static str {
        match self {
            NoChance::Permutation(_) => "permutation",
            NoChance::Ahead => "ahead_in_every_step",
            NoChance::Throughout => "throughout",
            NoChance::StandsOut => "stands_out",
            NoChance::LowerClock => "lower_clock",
        }
    }

    pub fn p_value(self) -> Option<f64> {
        if let NoChance::Permutation(p) = self { Some(p) } else { None }
    }
}

#[derive(Debug, Clone)]
pub struct Straggler {
    pub pattern: Pattern,
    /// Parts, by rank.
    pub parts: Vec<u32>,
    /// Steps in which it is late, with the late parts.
    pub steps: Vec<(StepKey, Vec<u32>)>,
    /// What its repair gives over all steps, ns: by the replay of the job, or else the sum of the gains of
    /// its chains.
    pub gain: Ns,
    /// Sum over its steps and parts of the largest excess, ns.
    pub excess: Ns,
    /// Parts that hide it: it is late among the others.
    pub behind: Vec<u32>,
    pub evidence: NoChance,
    /// Whether jitter that lasts may look the same: in few steps, or where the delay is small.
    pub is_brief: bool,
    /// Whether it is what makes the parts late beside the tokens of their experts, which are told apart.
    pub is_beside_tokens: bool,
}

impl Straggler {
    /// Whether a part is late in a step.
    pub fn is_late(&self, part: u32, step: Option<StepKey>) -> bool {
        step.is_some_and(|k| self.steps.iter().any(|(x, who)| *x == k && who.contains(&part)))
    }

    /// Whether it is late in turn with all ranks of a job of so many: chance may have left the others out.
    pub fn is_any_in_turn(&self, ranks: usize) -> bool {
        let times = self.steps.iter().map(|(_, who)| who.len()).sum();
        self.pattern == Pattern::Rotating && chance_of_few(self.parts.len(), times, ranks) > FEW_BY_CHANCE
    }
}

/// Ranks whose delay is large enough, but may be chance.
#[derive(Debug, Clone)]
pub struct Unproven {
    pub parts: Vec<u32>,
    /// Number of steps in which they are late.
    pub(crate) late: usize,
    /// Median own gain of a step, ns.
    pub gain: Ns,
    /// `None` if there are too few steps for the test.
    pub p_value: Option<f64>,
    /// Number of ranks that were compared.
    pub(crate) ranks: usize,
}

/// The result for all ranks.
pub struct Judgement {
    pub stragglers: Vec<Straggler>,
    /// Ranks that are late, but whose repair gives little, because the others would not come earlier.
    pub(crate) unconfirmed: Vec<Straggler>,
    pub length: StepLength,
    pub unproven: Vec<Unproven>,
    /// Of the chains of the first round; none if no collectives could be compared.
    pub delays: ByPart,
    pub(crate) own_gains: OwnGains,
    /// Steps with chains, in order.
    pub steps: Vec<StepKey>,
    pub median_step: Ns,
    /// By part, ns.
    pub(crate) thresholds: Vec<Ns>,
    /// By part, if the test was made: the share of permutations in which some rank is as late.
    pub(crate) p_values: BTreeMap<u32, f64>,
    /// Largest own gain per step among those that are not named: part, and ns per step.
    pub(crate) largest: Option<(u32, Ns)>,
}

impl Judgement {
    /// Whether gains are means of steps, and not of whole recordings, in which steps only show what lasts.
    pub(crate) fn counts_steps(&self) -> bool {
        !self.length.keys.is_empty() || self.steps.len() < 2
    }
}

impl Unproven {
    /// Number of steps that would be enough to decide; `None` if more steps would not help.
    pub(crate) fn steps_to_record(&self, steps: usize) -> Option<usize> {
        Some(steps_needed(self.ranks)).filter(|needed| *needed > steps)
    }
}
