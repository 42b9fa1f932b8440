//! The late ranks of a job by part and step.

use crate::CauseKind;
use crate::cause_words::CauseWords;
use crate::evidence::Evidence;
use hta_analysis::stragglers::Straggler;
use hta_base::units::Ns;
use hta_base::wording::counts::uncapital;
use hta_job::Job;
use hta_job::delay::StepKey;
use std::collections::{BTreeMap, BTreeSet};

/// One straggler, or several ranks that are late together or in turn.
#[derive(Debug, Clone)]
pub(crate) struct LateRank {
    pub(crate) index: usize,
    pub(crate) kind: CauseKind,
    /// What its host does longer than those of the others; its time belongs to the straggler.
    pub(crate) host_kinds: Vec<CauseKind>,
    pub(crate) key: String,
    pub(crate) ranks: Vec<u32>,
    pub(crate) steps: Vec<String>,
    /// Over all steps, ns.
    pub(crate) gain: Ns,
    pub(crate) p_value: Option<f64>,
    pub(crate) words: CauseWords,
    /// Whether it is not known if the rank works more or works slower, or if devices are alike; or how much
    /// of what others seem to wait is work, inside fused kernels.
    pub(crate) is_open: bool,
    /// In the user's code; empty if it is not recorded.
    pub(crate) place: String,
    pub(crate) evidence: Vec<Evidence>,
}

/// The part of what others wait for a rank that a straggler owns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitsShare {
    pub(crate) index: usize,
    left: Ns,
    all: Ns,
}

impl WaitsShare {
    pub(crate) fn of(self, waits: Ns) -> Ns {
        (i128::from(waits) * i128::from(self.left) / i128::from(self.all.max(1))) as Ns
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LateRanks {
    pub(crate) stragglers: Vec<LateRank>,
    /// Ranks that are late in single steps: too seldom for a cause, but evidence for a step that is longer
    /// than others.
    pub(crate) in_steps: Vec<LateRank>,
    /// Ranks that are late by as much as a straggler, which may be chance, in words.
    pub(crate) unproven: Vec<String>,
    /// By how much the first of them is late, percent of a step.
    pub(crate) unproven_pct: f64,
    /// By part and step: the straggler.
    places: BTreeMap<(u32, StepKey), usize>,
    /// By part, for jobs without steps.
    parts: BTreeMap<u32, usize>,
    /// Stragglers that are told with ranks that they hide.
    has_behind: BTreeSet<usize>,
    /// Parts and steps that are late because of tokens: the cause of that owns the waits, but for the share
    /// of a straggler that the same parts are beside that.
    by_tokens: BTreeMap<(u32, Option<StepKey>), Option<WaitsShare>>,
    /// Whether no chain of calls says who is late, and so ranks are known by their work alone.
    pub(super) has_no_chains: bool,
}

impl LateRanks {
    /// Adds a straggler to those that the tokens of experts make late. `left`: of how much of `all` that it
    /// takes longer it is the reason.
    pub(super) fn push_beside_tokens(&mut self, late: LateRank, s: &Straggler, [left, all]: [Ns; 2]) {
        self.give_to_tokens(s, Some(WaitsShare { index: late.index, left, all }));
        self.stragglers.push(late);
    }

    /// Leaves the waits for a straggler to the cause of tokens, but for a share.
    pub(super) fn give_to_tokens(&mut self, s: &Straggler, share: Option<WaitsShare>) {
        for (key, parts) in &s.steps {
            let places = parts.iter().flat_map(|part| [(*part, Some(*key)), (*part, None)]);
            self.by_tokens.extend(places.map(|place| (place, share)));
        }
    }

    pub(super) fn push(&mut self, late: LateRank, s: &Straggler) {
        for (key, parts) in &s.steps {
            for part in parts {
                self.places.entry((*part, *key)).or_insert(late.index);
                self.parts.entry(*part).or_insert(late.index);
            }
        }
        self.stragglers.push(late);
    }

    /// Says of the straggler that a part is, which hides others, that these are late behind it; only of those
    /// that cost most, which come first.
    pub(super) fn tell_behind(&mut self, late: &LateRank, part: u32) {
        let index = self.parts.get(&part).filter(|index| !self.has_behind.contains(*index)).copied();
        let Some(first) = index.and_then(|index| self.stragglers.get_mut(index)) else { return };
        self.has_behind.extend(index);
        let words = &late.words;
        let why = if words.why.is_empty() { String::new() } else { format!(": {}", uncapital(&words.why)) };
        let stop = if first.words.why.is_empty() { "" } else { ". " };
        first.words.why.push_str(&format!("{stop}Behind it {} as well{why}", uncapital(&words.what)));
        first.evidence.extend(late.evidence.iter().cloned());
    }

    /// Whether a part is one of the ranks that are told.
    pub(super) fn names(&self, job: &Job, part: u32) -> bool {
        let rank = job.parts.get(part as usize).map(|p| p.rank);
        rank.is_some_and(|rank| self.stragglers.iter().any(|s| s.ranks.contains(&rank)))
    }

    /// Whether some ranks are told as late, all of them in one cause and no others with them.
    pub(crate) fn tell(&self, ranks: &[u32]) -> bool {
        self.stragglers.iter().any(|s| s.ranks == ranks)
    }

    /// If a part is late in a step (without a step: in any) because its experts get more tokens: the
    /// straggler that it is beside that, if any.
    pub(crate) fn by_tokens(&self, part: u32, step: Option<StepKey>) -> Option<Option<WaitsShare>> {
        self.by_tokens.get(&(part, step)).copied()
    }

    /// The one straggler of a step if ranks are known by their work alone: whoever else makes a rank wait,
    /// as in a ring of messages, works no longer than others and waits itself.
    pub(crate) fn behind_all(&self, step: Option<StepKey>) -> Option<usize> {
        let [one] = &self.stragglers[..] else { return None };
        let is_late = step.is_none_or(|step| self.places.iter().any(|((_, key), _)| *key == step));
        (self.has_no_chains && is_late).then_some(one.index)
    }

    /// The straggler that a part is in a step; without a step, in any.
    pub fn of(&self, part: u32, step: Option<StepKey>) -> Option<usize> {
        match step {
            Some(step) => self.places.get(&(part, step)).copied(),
            None => self.parts.get(&part).copied(),
        }
    }
}
