//! Which rank delays the others: local time between meeting points, excess and gain.
//!
//! ```text
//!   rank 0   ...met]------local------[waiting........|transfer]
//!   rank 1   ...met]------local----------------------[transfer]       excess: its local time minus the median of
//!   rank 2   ...met]-------local-------[waiting......|transfer]       the others'; gain: last minus second last
//!                                    ^ ready
//! ```
//!
//! A rank *meets* the others at the end of a collective that it waited for (`ready`). Its local time runs
//! from the last such end to the moment when it is ready for a collective. Before the first meeting it starts
//! with the step, or else with the capture.
//!
//! A *chain* is a sequence of instances of one group that share one delay: some member was ready before its
//! own previous call had ended, or the member that was ready last had not met the others since. A chain
//! counts once, and ends with its step: a delay belongs to the step in which it happened. Its local times are
//! those at its last instance (for collectives on the host: the largest, because the threads that run them
//! take time from the work that follows). Its gain is how much earlier its last instance would have ended if
//! the late rank had been ready together with the last of the others:
//!
//! ```text
//!   start(i) = max(latest ready of the members, end(i - 1) on the same stream)      end(i) = start(i) + transfer(i)
//! ```

pub use crate::chain::{Chain, Lateness, StepKey};
use crate::chain::{ChainLink, ReadyMember, SameStartGroup};
use crate::joined::Job;
use crate::matching::{Instance, Member};
use crate::ready::{TOLERANCE, is_queued_behind};
use crate::waited::waited_within;
use crate::waits::arrivals;
use crate::window::{LocalWindow, WindowStart, Windows};
use hta_base::order_statistics::{median, median_of_others, median_of_sorted};
use hta_base::units::{Ns, Span};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

pub fn step_of(job: &Job, m: Member) -> Option<StepKey> {
    let p = &job.parts[m.part as usize];
    let index = job.call(m).step?;
    let label = p.step_of(job.call(m)).and_then(|s| s.label);
    Some(StepKey::new(index, label))
}

/// All chains, by group and time, as if the parts in `without` did not exist (to find who would be late
/// behind them). Excludes messages between two ranks, where waiting does not show who is slow (see
/// `replicas`).
pub fn chains(job: &Job, windows: &Windows, without: &BTreeSet<u32>) -> Vec<Chain> {
    let mut by_group: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let is_compared = |i: &Instance| i.len() > 1 && !i.is_message() && !job.matched.is_cut(i);
    for (id, i) in job.instances().iter().enumerate().filter(|(_, i)| is_compared(i)) {
        by_group.entry(i.group).or_default().push(id as u32);
    }
    let mut out: Vec<Chain> = Vec::new();
    for (group, ids) in by_group {
        let last_ready = |id: u32| {
            let members = job.members(&job.instances()[id as usize]).iter();
            members.map(|m| job.aligned(m.part, job.ready(*m))).max().unwrap_or(Ns::MIN)
        };
        let mut ids: Vec<(Ns, u32)> = ids.into_iter().map(|id| (last_ready(id), id)).collect();
        ids.sort_unstable();
        // The previous call of each member in this group.
        let mut previous: BTreeMap<u32, Member> = BTreeMap::new();
        let mut current: Option<Chain> = None;
        for (_, id) in ids {
            let instance = &job.instances()[id as usize];
            let members: Vec<Member> =
                job.members(instance).iter().filter(|m| !without.contains(&m.part)).copied().collect();
            if members.len() < 2 {
                continue;
            }
            let ready: Vec<Ns> = members.iter().map(|m| job.aligned(m.part, job.ready(*m))).collect();
            let last = members.get(arrivals(&ready).last_member as usize).copied();
            let early = |m: &Member| {
                previous.get(&m.part).is_some_and(|p| job.ready(*m) < job.call(*p).span.end - TOLERANCE)
            };
            let window =
                |m: Member| windows[m.part as usize][m.call as usize].map(|w| (w.lane, w.span.start));
            let met_nobody =
                last.is_some_and(|m| previous.get(&m.part).is_some_and(|p| window(m) == window(*p)));
            let step = members.first().and_then(|m| step_of(job, *m));
            let is_next_step = current.as_ref().is_some_and(|c| c.step != step);
            if is_next_step || !(met_nobody || members.iter().any(early)) {
                out.extend(current.take().map(Chain::finish));
            }
            let chain = current.get_or_insert_with(|| Chain { group, step, ..Chain::default() });
            let is_queued = |m: Member| {
                previous.get(&m.part).is_some_and(|p| is_queued_behind(job.call(*p), job.call(m)))
            };
            let is_queued = last.is_some_and(is_queued);
            let arriving = Arriving { members: &members, ready: &ready, previous: &previous };
            add(job, chain, id, &arriving, is_queued, windows);
            previous.extend(members.iter().map(|m| (m.part, *m)));
        }
        out.extend(current.map(Chain::finish));
    }
    out
}

/// The members of an instance.
struct Arriving<'a> {
    members: &'a [Member],
    /// When each was ready, on the common axis.
    ready: &'a [Ns],
    /// The previous call of each part in the group.
    previous: &'a BTreeMap<u32, Member>,
}

impl Arriving<'_> {
    /// The local times of the members since all of them were released from the same instance before: a rank
    /// that comes last each time waits for no end, so its own window reaches farther back than those of the
    /// others.
    fn since_release(&self, job: &Job, windows: &Windows) -> Option<Vec<LocalTime>> {
        let before = |m: &Member| self.previous.get(&m.part).copied();
        let instance = |m: &Member| before(m).and_then(|b| job.outcome(b)).filter(|o| !o.is_impossible);
        let first = instance(self.members.first()?)?.instance;
        let is_synchronous = job.instances().get(first as usize).is_some_and(|i| i.is_meeting());
        if !is_synchronous || !self.members.iter().all(|m| instance(m).is_some_and(|o| o.instance == first)) {
            return None;
        }
        let local = |m: &Member| {
            let (own, released) = (windows[m.part as usize][m.call as usize]?, job.call(before(m)?).released);
            let is_inside = own.span.start <= released + TOLERANCE && released <= own.span.end;
            let span = Span::new(released.max(own.span.start), own.span.end);
            is_inside.then(|| LocalTime::new(job, *m, &LocalWindow { span, ..own }))
        };
        self.members.iter().map(local).collect()
    }
}

fn add(job: &Job, chain: &mut Chain, id: u32, arriving: &Arriving, is_queued: bool, windows: &Windows) {
    let Arriving { members, ready, .. } = *arriving;
    let is_first = chain.instances.is_empty();
    chain.on_host = members.first().is_some_and(|m| job.call(*m).shape.on_host);
    chain.instances.push(id);
    let kind = job.instances()[id as usize].kind;
    // In a broadcast the others do not wait for a receiver, in a reduce not for the root.
    let holds_others = |m: &&Member| match (kind.is_from_root(), kind.is_to_root()) {
        (false, false) => true,
        (from_root, _) => (job.root(id) == Some(**m)) == from_root,
    };
    // Arrivals depend on correct clocks and matches; local times do not.
    let is_possible = !job.arrivals(id as usize).is_impossible;
    let found = arrivals(ready);
    let late = members.get(found.last_member as usize).filter(|_| is_possible).filter(holds_others);
    let end = |m: &Member| job.aligned(m.part, job.call(*m).released);
    let behind = by_start(job, chain, arriving, windows);
    // Local times are comparable only if all start at the same meeting point.
    let is_comparable = behind.len() == 1;
    let position = chain.links.len() as u32;
    chain.links_of.extend(members.iter().map(|m| (*m, position)));
    chain.links.push(ChainLink {
        late: late.map(|m| m.part),
        behind,
        end: members.iter().map(end).max().unwrap_or(found.last),
        is_queued: is_queued && !is_first,
    });
    let starts: Vec<Ns> = members.iter().map(|m| job.aligned(m.part, job.call(*m).arrival())).collect();
    let last = members.get(arrivals(&starts).last_member as usize).filter(|_| is_possible);
    if let Some(m) = last.filter(holds_others) {
        *chain.lasts.entry(m.part).or_default() += 1;
        let others = members.iter().filter(|o| *o != m);
        *chain.imposed.entry(m.part).or_default() +=
            others.filter_map(|o| job.told_wait(*o)).map(|o| o.wait).sum::<Ns>();
    }
    let released = if is_comparable || is_first { None } else { arriving.since_release(job, windows) };
    if !is_comparable && !is_first && released.is_none() {
        return;
    }
    // What was cut is only the last part of the chain.
    let is_cut = released.is_some();
    let keeps_largest = is_cut || (chain.on_host && !is_first);
    if !keeps_largest {
        chain.arrivals = members.iter().map(|m| m.part).zip(ready.iter().copied()).collect();
    }
    let local = |m: &Member| Some(LocalTime::new(job, *m, &windows[m.part as usize][m.call as usize]?));
    let locals: Vec<LocalTime> = released.unwrap_or_else(|| members.iter().filter_map(local).collect());
    let begins =
        |m: &Member| windows[m.part as usize][m.call as usize].map(|w| job.aligned(m.part, w.span.start));
    let last_begin = members.iter().filter_map(begins).max().unwrap_or(Ns::MIN);
    let mut lates = Vec::with_capacity(locals.len());
    lateness(&locals, |mut late| {
        // A member that was ready before another had begun has a longer local time, but delays nobody.
        if !is_cut && job.aligned(late.member.part, job.ready(late.member)) < last_begin - TOLERANCE {
            (late.worked, late.balance) = (late.worked.min(0), late.balance.min(0));
        }
        lates.push(late);
    });
    chain.add_lates(lates, keeps_largest);
}

/// The members by the link of the chain at whose end their local times start.
fn by_start(job: &Job, chain: &Chain, arriving: &Arriving, windows: &Windows) -> Vec<SameStartGroup> {
    let mut behind: BTreeMap<Option<u32>, SameStartGroup> = BTreeMap::new();
    for (m, t) in arriving.members.iter().zip(arriving.ready) {
        let from = windows[m.part as usize][m.call as usize].map(|w| w.from);
        let met = match from {
            Some(WindowStart::Call(call)) => Some(Member { part: m.part, call }),
            _ => None,
        };
        let link = met.and_then(|met| chain.links_of.get(&met)).copied();
        let slack = met.map_or(0, |met| (job.call(met).released - job.idle_since(met)).max(0));
        let own = ReadyMember { ready: *t, part: m.part, slack };
        match behind.entry(link) {
            Entry::Vacant(slot) => {
                slot.insert(SameStartGroup { link, last: own, second: None });
            }
            Entry::Occupied(mut slot) => {
                let b = slot.get_mut();
                let second = own.min(b.last);
                b.last = own.max(b.last);
                b.second = b.second.max(Some(second));
            }
        }
    }
    behind.into_values().collect()
}

/// A member's local time, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalTime {
    pub(crate) all: Ns,
    /// Without waiting for others, ns.
    pub(crate) worked: Ns,
    pub(crate) member: Member,
}

impl LocalTime {
    pub(crate) fn new(job: &Job, member: Member, window: &LocalWindow) -> Self {
        let all = window.span.len();
        Self { all, worked: all - waited_within(job, member, window), member }
    }
}

/// Calls `take` with the lateness of each member.
pub(crate) fn lateness(locals: &[LocalTime], mut take: impl FnMut(Lateness)) {
    if locals.len() < 2 {
        return;
    }
    let mut worked: Vec<Ns> = locals.iter().map(|l| l.worked).collect();
    worked.sort_unstable();
    let balanced = median_of_sorted(&worked).unwrap_or(0);
    let mut ordered: Vec<&LocalTime> = locals.iter().collect();
    ordered.sort_unstable_by_key(|l| (l.all, l.member));
    for (k, l) in ordered.iter().enumerate() {
        let Some(typical) = median_of_others(&ordered, k) else { continue };
        let usual = median_of_others(&worked, worked.partition_point(|w| *w < l.worked)).unwrap_or(l.worked);
        take(Lateness {
            member: l.member,
            local: l.all,
            difference: l.all - typical.all,
            worked: l.worked - usual,
            balance: l.worked - balanced,
            typical: typical.member,
        });
    }
}

/// Median length of the steps of all parts (without partial ones, unless all are partial), ns; of the
/// captures if there are no steps.
pub fn median_step(job: &Job) -> Ns {
    let steps = |full: bool| -> Vec<Ns> {
        let all = job.parts.iter().flat_map(|p| &p.steps);
        all.filter(|s| !(full && s.is_partial)).map(|s| s.window.len()).collect()
    };
    let (mut full, mut any) = (steps(true), steps(false));
    let mut captures: Vec<Ns> = job.parts.iter().map(|p| p.capture.len()).collect();
    median(&mut full).or_else(|| median(&mut any)).or_else(|| median(&mut captures)).unwrap_or(0)
}
