//! Groups whose transfers are slower than those of the other groups of their family: a slow link, or the
//! network of a rank.
//!
//! A family is the groups with the same description, number and distance of members, inside hosts or across
//! them alike. They move the same sizes by the same calls, so they should be as fast as each other.

use crate::cause_words::CauseWords;
use hta_analysis::fabric::{SavedTransfers, SlowTransfers, TransferLink};
use hta_base::units::Ns;
use hta_base::wording::counts::capital;
use hta_base::wording::ranks::rank_list;
use hta_job::{Job, Member};
use hta_trace::collective::{CollectiveKind, Members};
use std::collections::{BTreeMap, BTreeSet};

/// A group is slow below this share of the median of its family; a call, of the 90th percentile of its class.
const SLOW: f64 = 0.7;
/// Fewest groups of a family, and fewest calls of a class.
const GROUPS: usize = 4;
const CALLS: usize = 10;
/// Groups named in a sentence.
const SHOWN: usize = 2;

/// Smallest message whose bandwidth is judged, bytes.
const BYTES_MIN: i64 = 1 << 20;
/// Link, kind of collective and power of two of the size.
type SizeClass = (TransferLink, &'static str, u32);
/// Rates of calls, bytes per ns.
type CallRates = Vec<(f64, Member)>;
/// Of a family: the rate of each link, its calls, and the link.
type Links<'a> = Vec<(f64, &'a CallRates, TransferLink)>;

/// Bytes per ns of a matched call, with the class of its size.
fn rate(job: &Job, m: Member) -> Option<(SizeClass, f64)> {
    let (call, outcome) = (job.call(m), job.transfer_of(m)?);
    let bytes = call.shape.bytes.filter(|b| *b >= BYTES_MIN)?;
    let transfer = job.transfer_ns(m)?;
    let instance = job.instances().get(outcome.instance as usize)?;
    let link = TransferLink::of(job, instance);
    (transfer > 0).then(|| ((link, call.shape.kind.name(), bytes.ilog2()), bytes as f64 / transfer as f64))
}

/// The rates of all matched calls, by class.
fn rates(job: &Job) -> BTreeMap<SizeClass, CallRates> {
    let mut out: BTreeMap<SizeClass, CallRates> = BTreeMap::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        for call in 0..p.calls.calls.len() as u32 {
            let member = Member { part, call };
            if let Some((class, rate)) = rate(job, member) {
                out.entry(class).or_default().push((rate, member));
            }
        }
    }
    out
}

/// The slow groups of a job.
#[derive(Default)]
pub(crate) struct SlowGroups {
    /// What transfers at the rate of the family save.
    pub(crate) saved: SavedTransfers,
    /// The 90th percentile of the rates of each class, bytes per ns.
    best: BTreeMap<SizeClass, f64>,
    /// Those that the slow groups have in common; or else all their members.
    pub(crate) ranks: Vec<u32>,
    pub(crate) words: CauseWords,
}

/// A slow link with its rate and that of its family, bytes per ns.
struct Slow {
    link: TransferLink,
    kind: CollectiveKind,
    rate: f64,
    usual: f64,
}

type TransferFamily = (String, usize, Option<u32>, bool, &'static str, u32);

impl SlowGroups {
    pub fn of(job: &Job) -> Self {
        let (mut calls, told) = (rates(job), job.shared(SlowTransfers::of));
        // The place of these is known.
        calls.retain(|(link, ..), of_class| of_class.len() >= CALLS && !told.has(*link));
        let mut families: BTreeMap<TransferFamily, Links> = BTreeMap::new();
        for ((link, kind, size), of_link) in &calls {
            let Some((text, members, distance, across)) = family(job, *link) else { continue };
            let middle = middle(of_link.iter().map(|(rate, _)| *rate).collect());
            families
                .entry((text, members, distance, across, kind, *size))
                .or_default()
                .push((middle, of_link, *link));
        }
        let best = calls.iter().map(|(class, of_class)| (*class, best(of_class))).collect();
        let mut out = Self { best, ..Self::default() };
        let mut slow: Vec<Slow> = Vec::new();
        for groups in families.values().filter(|g| g.len() >= GROUPS) {
            let usual = middle(groups.iter().map(|(rate, ..)| *rate).collect());
            let found: Vec<_> = groups.iter().filter(|(rate, ..)| *rate < SLOW * usual).collect();
            if found.len() * 2 < groups.len() {
                out.add(job, &found, usual, &mut slow);
            }
        }
        // Of fewer groups nobody knows which are usual, but those with a rank that all slow ones have are
        // slow for its sake.
        for groups in families.values().filter(|g| g.len() < GROUPS) {
            let usual = groups.iter().map(|(rate, ..)| *rate).fold(0.0, f64::max);
            let found: Vec<_> = groups.iter().filter(|(rate, ..)| *rate < SLOW * usual).collect();
            let all = slow.iter().map(|s| s.link).chain(found.iter().map(|(.., link)| *link));
            if !slow.is_empty() && !TransferLink::common(job, all).is_empty() {
                out.add(job, &found, usual, &mut slow);
            }
        }
        out.saved.find_waits(job);
        out.name(job, &slow);
        out
    }

    /// Adds slow links of a family with its usual rate.
    fn add(
        &mut self,
        job: &Job,
        found: &[&(f64, &CallRates, TransferLink)],
        usual: f64,
        slow: &mut Vec<Slow>,
    ) {
        for (rate, calls, link) in found {
            let Some(kind) = calls.first().map(|(_, m)| job.call(*m).shape.kind) else { continue };
            slow.push(Slow { link: *link, kind, rate: *rate, usual });
            for (own, m) in *calls {
                let saved = (job.transfer_ns(*m).unwrap_or(0) as f64 * (1.0 - own / usual)) as Ns;
                if saved > 0 {
                    self.saved.by_call.insert(*m, saved);
                }
            }
        }
    }

    /// Share of a slow call's transfer that it would not take at the 90th percentile of its class.
    pub(crate) fn excess_share(&self, job: &Job, m: Member) -> f64 {
        let Some((class, rate)) = rate(job, m) else { return 0.0 };
        self.best.get(&class).filter(|best| rate < SLOW * **best).map_or(0.0, |best| 1.0 - rate / best)
    }

    fn name(&mut self, job: &Job, slow: &[Slow]) {
        let group = |s: &Slow| job.matched.groups.get(s.link.group as usize);
        let members = |s: &Slow| s.link.ranks(job);
        let links: BTreeSet<TransferLink> = slow.iter().map(|s| s.link).collect();
        if slow.is_empty() {
            return;
        }
        let common = TransferLink::common(job, links.iter().copied());
        let all: BTreeSet<u32> = slow.iter().flat_map(members).collect();
        let who = match common.as_slice() {
            [a, b] if links.len() == 1 => format!("Transfers between ranks {a} and {b} are slow"),
            [one] if links.len() > 1 => format!("Transfers of all groups with rank {one} are slow"),
            _ if links.len() == 1 => "Transfers of one group are slow".to_string(),
            _ => format!("Transfers of {} groups are slow", links.len()),
        };
        let of = |s: &Slow| {
            let name = group(s).and_then(|g| g.desc.as_deref().or(g.name.as_deref())).unwrap_or("");
            let ranks = members(s);
            let bus = s.kind.bus_factor(ranks.len() as u32);
            let what = s.kind.name();
            format!(
                "{what} of {name} [{}] at {:.1} instead of {:.1} GB/s",
                rank_list(&ranks),
                s.rate * bus,
                s.usual * bus
            )
        };
        // What is slowest by comparison says most; each group once.
        let mut shown: Vec<&Slow> = slow.iter().collect();
        shown.sort_by(|a, b| (a.rate / a.usual).total_cmp(&(b.rate / b.usual)).then(a.link.cmp(&b.link)));
        let mut named = BTreeSet::new();
        shown.retain(|s| named.insert(s.link));
        let words: Vec<String> = shown.iter().take(SHOWN).map(|s| of(s)).collect();
        let why = capital(&words.join(", "));
        self.ranks = if common.is_empty() { all.into_iter().collect() } else { common };
        let action = format!(
            "look at the links and network interfaces of {}: cable, topology, nccl-tests between these ranks",
            job.words.plain(&self.ranks)
        );
        self.words = CauseWords::new(who, why, action);
    }
}

/// The smallest rate that at least 90 % of the calls do not exceed.
fn best(calls: &CallRates) -> f64 {
    let mut rates: Vec<f64> = calls.iter().map(|(rate, _)| *rate).collect();
    rates.sort_by(f64::total_cmp);
    rates[(rates.len() * 9).div_ceil(10) - 1]
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// What links of a family have in common; `None` for a group whose members are not all recorded.
fn family(job: &Job, link: TransferLink) -> Option<(String, usize, Option<u32>, bool)> {
    let g = job.matched.groups.get(link.group as usize)?;
    let (text, ranks) = (link.purpose(job)?, link.all_ranks(job)?);
    let size = ranks.len();
    let is_member =
        |part: &u32| job.parts.get(*part as usize).is_some_and(|p| ranks.binary_search(&p.rank).is_ok());
    let parts = g.parts().filter(|part| is_member(part));
    let hosts: BTreeSet<&str> = parts.filter_map(|part| job.parts[part as usize].host.as_deref()).collect();
    let distance = match Members::listed(ranks) {
        Members::Regular { stride, .. } => Some(stride),
        Members::Listed(_) => None,
    };
    Some((text, size, distance, hosts.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn the_middle_of_an_even_number_is_the_faster_one() {
        assert_eq!(middle(vec![6.4, 26.2]), 26.2);
        assert_eq!(middle(vec![26.1, 6.4, 26.4, 26.2]), 26.2);
        assert_eq!(middle(Vec::new()), 0.0);
    }
}
