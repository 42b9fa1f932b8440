//! What is known of a job when its causes are made, and the parts that all causes have.

use crate::CauseKind;
use crate::account::{JobAccount, TimePart};
use crate::cause::{Cause, GainBasis};
use crate::cause_words::CauseWords;
use crate::clocks::JobClocks;
use crate::gain::{self, OwnedNames, OwnedTime};
use crate::grouping::Topology;
use crate::late_ranks::LateRanks;
use crate::repair::Repairs;
use crate::trust::{RecordingTrust, Trust};
use hta_analysis::efficiency::account::PartDevice;
use hta_base::units::{Ns, fmt_ns, percent};
use hta_job::Job;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Smallest owned time for a rank to belong to a cause, percent of the time of the job.
pub(crate) const MEMBER_PCT: f64 = 1.0;

/// Share of the time from which a cause says who has more of it, or is late behind its ranks, percent.
pub(crate) const BESIDES_PCT: f64 = 3.0;

/// Share of what a cause owns from which it is that of the one rank that owns it, percent.
pub(crate) const SOLE_PCT: f64 = 95.0;

/// What the causes of a job are made from.
pub(crate) struct Context<'a> {
    pub(crate) job: &'a Job,
    pub(crate) account: &'a JobAccount,
    pub(crate) trust: &'a RecordingTrust,
    pub(crate) topology: &'a Topology,
    /// The pauses by rank and name, ns.
    pub(crate) pauses: &'a BTreeMap<(u32, String), Vec<Ns>>,
    pub(crate) repairs: &'a Repairs,
    pub(crate) clocks: &'a JobClocks,
    pub(crate) late: &'a LateRanks,
}

impl Context<'_> {
    /// The rank of a part of the job.
    pub(crate) fn rank(&self, part: u32) -> u32 {
        self.job.parts[part as usize].rank
    }

    /// Ranks that own at least a share of the time of the job, percent.
    pub(crate) fn members(&self, owned: &OwnedTime, least: f64) -> Vec<u32> {
        // Waiting is time of the others, and does not make them members.
        self.members_by(owned, least, |part| part != TimePart::Waiting)
    }

    /// The same by some parts of the time.
    pub(crate) fn members_by(
        &self,
        owned: &OwnedTime,
        least: f64,
        counts: impl Fn(TimePart) -> bool,
    ) -> Vec<u32> {
        let mut by_part: BTreeMap<u32, Ns> = BTreeMap::new();
        for ((_, (part, _), _), ns) in owned.iter().filter(|((_, _, p), _)| counts(*p)) {
            *by_part.entry(*part).or_default() += ns;
        }
        let is_member = |ns: Ns| percent(ns, self.account.length).is_some_and(|p| p >= least);
        by_part.into_iter().filter(|(_, ns)| is_member(*ns)).map(|(part, _)| self.rank(part)).collect()
    }

    /// What a cause owns of a part on some ranks, ascending, ns.
    pub(crate) fn owned_on(&self, ranks: &[u32], owned: &OwnedTime, part: TimePart) -> Ns {
        let is_of = |(_, (p, _), of): &(usize, PartDevice, TimePart)| {
            *of == part && ranks.binary_search(&self.rank(*p)).is_ok()
        };
        owned.iter().filter(|(key, _)| is_of(key)).map(|(_, ns)| ns).sum()
    }

    /// The ranks as a condition of evidence: none where they are all ranks of the job.
    pub(crate) fn unless_all<'r>(&self, ranks: &'r [u32]) -> &'r [u32] {
        if ranks.len() < self.job.parts.len() { ranks } else { &[] }
    }

    /// What a cause gains beyond the mean of a step and rank that its evidence shows: the rank that idles
    /// most for it, and the waiting of others behind it.
    pub(crate) fn gained_besides(&self, gain: Ns, owned: &OwnedTime, shown: Ns) -> String {
        let each = |ns: Ns| ns / self.account.steps.len().max(1) as Ns;
        let (gain, most) =
            (each(gain), each(gain::most(owned, |part| matches!(part, TimePart::Idle | TimePart::Copies))));
        let is_more = |more: Ns, than: Ns| more > than && fmt_ns(more) != fmt_ns(than);
        if !is_more(gain, shown) {
            return String::new();
        }
        let on_one = match is_more(most, shown) {
            true => format!("; {} on the rank with most", fmt_ns(most)),
            false => String::new(),
        };
        let known = most.max(shown);
        match is_more(gain, known) {
            true => format!("{on_one}; frees {} of waiting besides", fmt_ns(gain - known)),
            false => on_one,
        }
    }

    /// The one rank that owns nearly all of a cause.
    pub(crate) fn sole_rank(&self, owned: &OwnedTime) -> Option<u32> {
        let mut by_part: BTreeMap<u32, Ns> = BTreeMap::new();
        for ((_, (part, _), _), ns) in owned.iter().filter(|((_, _, p), _)| *p != TimePart::Waiting) {
            *by_part.entry(*part).or_default() += ns;
        }
        let all = by_part.values().sum();
        let (part, most) = by_part.into_iter().max_by_key(|(part, ns)| (*ns, Reverse(*part)))?;
        percent(most, all).is_some_and(|p| p > SOLE_PCT).then(|| self.rank(part))
    }

    /// A cause without words.
    pub(crate) fn cause(
        &self,
        kind: CauseKind,
        key: &str,
        ranks: Vec<u32>,
        owned: OwnedTime,
        gain: Ns,
    ) -> Cause {
        let (scope, rank_label) = self.topology.describe(&ranks);
        Cause {
            kind,
            key: key.to_string(),
            ranks,
            scope,
            rank_label,
            steps: Vec::new(),
            owned,
            names: OwnedNames::new(),
            compute: 0,
            bytes: None,
            gain,
            basis: GainBasis::Bound,
            certainty: kind.rule().certainty,
            p_value: None,
            is_once: false,
            needs: kind.rule().needs,
            trust: Trust::Ok,
            words: CauseWords::default(),
            place: String::new(),
            evidence: Vec::new(),
        }
    }
}
