//! Causes of exposed communication that is not waiting for a late rank.

use crate::CauseKind;
use crate::account::TimePart;
use crate::cause::{Cause, GainBasis, finding_id};
use crate::collected::CollectedCause;
use crate::context::{Context, MEMBER_PCT};
use crate::evidence::{Evidence, of_finding, of_ranks};
use crate::exposed_lane::TransferWords;
use crate::gain::OwnedTime;
use crate::rule::{CommunicationRule, TransferRule};
use hta_analysis::efficiency::account::PartDevice;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use std::cmp::Reverse;

impl Context<'_> {
    /// A cause in the communication itself.
    pub(crate) fn transfer(
        &self,
        (kind, rule): (CauseKind, &TransferRule),
        key: &str,
        found: &CollectedCause,
    ) -> Option<Cause> {
        let part = rule.part;
        let members = self.members_by(&found.owned, MEMBER_PCT, |_| true);
        if members.is_empty() {
            return None;
        }
        let known = (rule.known)(self, key);
        // The ranks that are told may be others than those whose time it is.
        let owners = members.len() as Ns;
        let by_replay = known.as_ref().and_then(|known| known.gain);
        let ranks = known.as_ref().map_or_else(|| members.clone(), |known| known.ranks.clone());
        let gain = by_replay.unwrap_or_else(|| self.bound_of_transfer(part, &found.owned));
        let mut cause = self.cause(kind, key, ranks, found.owned.clone(), gain);
        let n = self.account.steps.len().max(1) as Ns * owners;
        let parts = TimePart::ALL.into_iter();
        let time = parts.map(|p| self.owned_on(&members, &found.owned, p)).sum::<Ns>() / n;
        let names = found.names_of(|part| members.binary_search(&self.rank(part)).is_ok());
        if let Some(known) = known {
            cause.evidence = known.evidence;
            cause.words = known.words;
            cause.p_value = known.p_value;
            cause.certainty = known.certainty;
        } else {
            let largest = names.iter().max_by_key(|(name, (ns, _))| (*ns, Reverse(**name)));
            let group = largest.map_or("", |((_, group), _)| group);
            let of_group = if group.is_empty() { String::new() } else { format!(" of group {group}") };
            let share = fmt_pct(percent(time, self.account.step_time()));
            let time = format!("{}{} ({share})", fmt_ns(time), self.trust.per_step());
            let words = TransferWords { calls: format!("{key}{of_group}"), ranks: &cause.rank_label, time };
            cause.words = (rule.words)(&words);
        }
        if by_replay.is_some() {
            cause.basis = GainBasis::Replay;
        }
        self.name_steps(&mut cause);
        cause.names = found.names.clone();
        let count: u64 = names.values().map(|(_, count)| count).sum();
        let each = self.trust.per_step_and("rank");
        let besides = self.gained_besides(cause.gain, &found.owned, time);
        let words = format!(
            "{}{each} in {} pieces of {key} that no compute hides{besides}",
            fmt_ns(time),
            fmt_count(count)
        );
        let filter = of_finding(&finding_id(&cause), self.unless_all(&members));
        cause.evidence.insert(0, Evidence { table: "finding_names", filter, words });
        cause.evidence.extend(self.calls_of(&cause, (rule.filter)(key), key));
        Some(cause)
    }

    /// The calls of a cause in the communication itself; `None` without a condition for them.
    fn calls_of(&self, cause: &Cause, calls: String, key: &str) -> Option<Evidence> {
        let only = self.unless_all(&cause.ranks);
        let only = if only.is_empty() { String::new() } else { format!(" AND {}", of_ranks(only)) };
        let (filter, words) = (format!("{calls}{only}"), format!("the calls of {key}"));
        (!calls.is_empty()).then_some(Evidence { table: "collectives", filter, words })
    }

    /// A step is shorter by what every device saves, and by no more than all of the network.
    fn bound_of_transfer(&self, part: TimePart, owned: &OwnedTime) -> Ns {
        let of = |s: usize, place: &PartDevice| owned.get(&(s, *place, part)).copied().unwrap_or(0);
        let steps = self.account.steps.iter().enumerate();
        let bound =
            steps.map(|(s, step)| step.cells.keys().map(|place| of(s, place)).min().unwrap_or(0)).sum();
        match self.repairs.of_network() {
            Some(all) if part == TimePart::Transfer => all.min(bound),
            _ => bound,
        }
    }

    /// Causes of what others leave of exposed communication; `taken` is what these own.
    pub(crate) fn communication(&self, taken: &OwnedTime) -> Vec<Cause> {
        let all = CauseKind::all_communication();
        all.filter_map(|(kind, rule)| self.left_communication(kind, rule, taken)).collect()
    }

    fn left_communication(
        &self,
        kind: CauseKind,
        rule: &CommunicationRule,
        taken: &OwnedTime,
    ) -> Option<Cause> {
        let part = rule.part;
        let left = self.account.cells().map(|(s, place, c)| {
            let key = (s, place, part);
            (key, part.of(&c.parts) - taken.get(&key).unwrap_or(&0))
        });
        let owned: OwnedTime = left.filter(|(_, ns)| *ns > 0).collect();
        let sum: Ns = owned.values().sum();
        let ranks = self.members(&owned, MEMBER_PCT);
        let is_small = percent(sum, self.account.all()).is_none_or(|pct| pct < rule.least_pct);
        if ranks.is_empty() || is_small {
            return None;
        }
        let gain = (rule.gain)(self, sum);
        let mut cause = self.cause(kind, "", ranks, owned, gain);
        let devices = self.devices_of(&cause.ranks);
        let n = self.account.steps.len().max(1) as Ns * devices;
        let of = if devices == cause.ranks.len() as Ns { "rank" } else { "device" };
        let each = self.owned_on(&cause.ranks, &cause.owned, part) / n;
        cause.words = (rule.words)(each, self.account.step_time(), self);
        self.name_steps(&mut cause);
        cause.evidence = vec![Evidence {
            table: "time_account",
            filter: of_finding(&finding_id(&cause), self.unless_all(&cause.ranks)),
            words: format!("{}: {}{}", rule.noun, fmt_ns(each), self.trust.per_step_and(of)),
        }];
        cause.evidence.extend((rule.beside)(self.trust));
        Some(cause)
    }
}
