//! The chain of calls of one step: how much earlier it would have ended without the lateness of a rank.

use crate::matching::Member;
use hashbrown::HashMap;
use hta_base::units::Ns;
use std::collections::{BTreeMap, BTreeSet};

/// How late a member was at the last instance of a chain that it took part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    pub member: Member,
    /// Its local time, ns.
    pub local: Ns,
    /// Its local time minus the median of the other members', ns; negative if it was faster.
    pub difference: Ns,
    /// The difference without the time that it waited for others in other groups: how much longer it worked,
    /// ns.
    pub(crate) worked: Ns,
    /// Its local time without that waiting, minus the lower median of all members' (including its own), ns.
    pub balance: Ns,
    /// The member whose local time is the median of the other members'.
    pub typical: Member,
}

impl Lateness {
    /// By how much its local time is longer than the median of the other members', ns; at least 0.
    pub fn excess(&self) -> Ns {
        self.difference.max(0)
    }
}

/// A chain of instances of one group, which counts as one delay.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    pub group: u32,
    pub instances: Vec<u32>,
    /// The step of its instances.
    pub step: Option<StepKey>,
    /// By part that was ready last in some instance: how much earlier the chain would have ended without its
    /// lateness, ns.
    pub gains: BTreeMap<u32, Ns>,
    /// Its members' lateness at the end of the chain, in order of part: a list, because the chains of a job
    /// together have one for each call.
    pub lates: Vec<Lateness>,
    /// By part: how often its kernel started last.
    pub lasts: BTreeMap<u32, u32>,
    /// When each member was ready for the last instance (on the host: the first), on the common axis.
    pub arrivals: Vec<(u32, Ns)>,
    /// By part: waiting time of the other members in instances where it came last, ns.
    pub imposed: BTreeMap<u32, Ns>,
    pub(super) links: Vec<ChainLink>,
    /// Index of the link of each member's call.
    pub(super) links_of: HashMap<Member, u32>,
    pub(super) on_host: bool,
}

/// The contribution of one instance to the length of its chain.
#[derive(Debug, Clone)]
pub(super) struct ChainLink {
    /// The part that was ready last, if others depend on it.
    pub(super) late: Option<u32>,
    /// Members grouped by the instance after which their local time starts, as far as their order matters.
    pub(super) behind: Vec<SameStartGroup>,
    /// The last end, on the common axis.
    pub(super) end: Ns,
    /// Whether it cannot start before the previous instance of the chain has ended.
    pub(super) is_queued: bool,
}

/// Members of an instance whose local times start at the end of the same earlier instance of the chain, or
/// before the chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct SameStartGroup {
    /// Index of that earlier instance's link; `None` if before the chain.
    pub(super) link: Option<u32>,
    /// The one that was ready last, and (next field) second to last, on the common axis.
    pub(super) last: ReadyMember,
    pub(super) second: Option<ReadyMember>,
}

/// When a member was ready for an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyMember {
    pub(super) ready: Ns,
    pub(super) part: u32,
    /// Time that it only waited after the meeting point, ns: it could have continued earlier by this.
    pub(super) slack: Ns,
}

impl ChainLink {
    /// When the last member was ready.
    fn ready(&self) -> Ns {
        self.behind.iter().map(|b| b.last.ready).max().unwrap_or(Ns::MIN)
    }

    /// The same if one part is ignored and the instances of the chain end earlier by `earlier`.
    fn ready_without(&self, part: Option<u32>, earlier: &[Ns]) -> Ns {
        let at = |b: &SameStartGroup| {
            let came = if part == Some(b.last.part) { b.second } else { Some(b.last) };
            let shift = b.link.and_then(|l| earlier.get(l as usize)).copied().unwrap_or(0);
            came.map(|c| c.ready - shift.min(c.slack))
        };
        self.behind.iter().filter_map(at).max().unwrap_or_else(|| self.ready())
    }
}

impl Chain {
    /// What repairing this part alone would save its group, limited to how much slower the part itself was,
    /// ns. A part that came last without having worked longer was delayed elsewhere.
    pub fn own_gain(&self, part: u32) -> Ns {
        let worked = self.late(part).map_or(0, |l| l.excess().min(l.worked).max(0));
        self.gains.get(&part).map_or(0, |g| (*g).min(worked))
    }

    /// Whether a part delayed the others, even if it was itself delayed elsewhere.
    pub fn is_delayed_by(&self, part: u32) -> bool {
        self.gains.get(&part).is_some_and(|g| *g > 0) && self.late(part).is_some_and(|l| l.excess() > 0)
    }

    /// The lateness of a part.
    pub fn late(&self, part: u32) -> Option<&Lateness> {
        self.lates.binary_search_by_key(&part, |l| l.member.part).ok().and_then(|i| self.lates.get(i))
    }

    /// Adds the lateness of members at one more instance. It replaces what is known of a part, unless the
    /// largest is kept and the new one is not larger.
    pub(super) fn add_lates(&mut self, found: Vec<Lateness>, keeps_largest: bool) {
        self.lates.extend(found);
        self.lates.sort_by_key(|l| l.member.part);
        self.lates.dedup_by(|new, known| {
            let is_same = new.member.part == known.member.part;
            if is_same && (!keeps_largest || known.excess() < new.excess()) {
                *known = *new;
            }
            is_same
        });
    }

    /// A chain of one call with a known gain.
    pub(crate) fn of_one(
        group: u32,
        step: Option<StepKey>,
        instance: u32,
        late: Lateness,
        gain: Ns,
        ready: Ns,
    ) -> Self {
        let part = late.member.part;
        Self {
            group,
            instances: vec![instance],
            step,
            gains: if gain > 0 { BTreeMap::from([(part, gain)]) } else { BTreeMap::new() },
            lates: vec![late],
            arrivals: vec![(part, ready)],
            ..Self::default()
        }
    }

    /// Computes the gains, once all instances are known.
    pub(super) fn finish(mut self) -> Self {
        let parts: BTreeSet<u32> = self.links.iter().filter_map(|l| l.late).collect();
        self.gains = parts.into_iter().map(|part| (part, self.gain(part))).collect();
        (self.links, self.links_of) = Default::default();
        self.lates.shrink_to_fit();
        self
    }

    /// How much earlier the last instance would have ended if this part had been ready no later than the last
    /// of the others.
    fn gain(&self, part: u32) -> Ns {
        let without = |l: &ChainLink| Some(part).filter(|p| l.late == Some(*p));
        if self.on_host {
            let gains = self.links.iter().map(|l| l.ready() - l.ready_without(without(l), &[]));
            return gains.max().unwrap_or(0);
        }
        let mut earlier: Vec<Ns> = Vec::with_capacity(self.links.len());
        let mut before: Option<(Ns, Ns)> = None;
        for l in &self.links {
            let (queued, repaired) = before.filter(|_| l.is_queued).unwrap_or((Ns::MIN, Ns::MIN));
            let start = l.ready().max(queued);
            let transfer = (l.end - start).max(0);
            let end = (start + transfer, l.ready_without(without(l), &earlier).max(repaired) + transfer);
            earlier.push((end.0 - end.1).max(0));
            before = Some(end);
        }
        earlier.last().copied().unwrap_or(0)
    }
}

/// Identifies a step across ranks: by its number, or by its position if steps have no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepKey {
    Index(u32),
    Label(i64),
}

impl StepKey {
    pub fn new(index: u32, label: Option<i64>) -> Self {
        label.map_or(StepKey::Index(index), StepKey::Label)
    }

    /// The cells `step` and `step_label` of a row; without a step, or for all of them, both are null.
    pub fn cells(key: Option<StepKey>) -> (Option<u32>, Option<i64>) {
        match key {
            Some(StepKey::Index(index)) => (Some(index), None),
            Some(StepKey::Label(label)) => (None, Some(label)),
            None => (None, None),
        }
    }

    /// In the syntax of `--steps`.
    pub fn shown(self) -> String {
        match self {
            StepKey::Index(i) => format!("@{i}"),
            StepKey::Label(l) => l.to_string(),
        }
    }

    /// In sentences, where the mark of steps without a number would say nothing.
    pub fn told(self) -> String {
        self.shown().replace('@', "")
    }
}
