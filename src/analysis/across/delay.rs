//! Who delays whom: local time between meeting points, excess and gain.
//!
//! ```text
//!   rank 0   ...sync]------local------[waiting........|transfer]
//!   rank 1   ...sync]------local----------------------[transfer]      excess: its local time minus the median of
//!   rank 2   ...sync]-------local-------[waiting......|transfer]      the others'; gain: last minus second last
//! ```
//!
//! A *synchronisation point* of a rank is the end of a collective at which it really waited: on a device no compute
//! runs across that end, on the host the next collective is submitted after it. Without one the window starts with
//! the step, else with the capture. A window ends with the first arrival behind its start.
//!
//! A *chain* is a row of instances of one group that are one delay: some member arrived before its own previous end,
//! or the last one computed on across it. A chain counts once, with its largest values.

use super::clock::median;
use super::job::Job;
use super::matching::Member;
use super::waits::arrivals;
use crate::units::{Ns, Span};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Where a window starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// End of a call of the part.
    Call(u32),
    Step,
    Capture,
}

/// A part's local time before an arrival, on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalWindow {
    pub lane: u32,
    pub span: Span,
    pub from: From,
}

/// The windows of a part, by call; `None` where the call is not the first arrival after the synchronisation point.
fn windows(job: &Job, part: u32) -> Vec<Option<LocalWindow>> {
    let p = &job.parts[part as usize];
    let calls = &p.calls.calls;
    let mut out = vec![None; calls.len()];
    for lane in 0..p.lanes.len() {
        let points = p.sync_points(lane);
        let mut before: Option<Ns> = None;
        for i in p.calls_by_arrival(lane) {
            let t = calls[i].arrival();
            let synced = points.before(t);
            let step = p.step_of(&calls[i]).map(|s| s.window.start);
            let (start, from) = match (synced, step.filter(|s| *s <= t)) {
                (Some((e, k)), _) => (e, From::Call(k as u32)),
                (None, Some(s)) => (s, From::Step),
                (None, None) => (p.capture.start.min(t), From::Capture),
            };
            if before.is_none_or(|b| b <= start) {
                out[i] = Some(LocalWindow { lane: lane as u32, span: Span::new(start, t), from });
            }
            before = Some(t);
        }
    }
    out
}

/// A member's lateness at one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    pub member: Member,
    pub instance: u32,
    /// Its local time minus the median of the other members', ns; at least 0.
    pub excess: Ns,
    /// The same, negative where it was faster.
    pub difference: Ns,
    /// The member whose local time is that median.
    pub typical: Option<Member>,
}

/// One delay of a group: a chain of instances.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    pub group: u32,
    pub instances: Vec<u32>,
    /// Label, or index without one, of the step of its first instance.
    pub step: Option<StepKey>,
    /// By part: the largest gain, ns.
    pub gains: BTreeMap<u32, Ns>,
    /// By part: the largest excess.
    pub lates: BTreeMap<u32, Late>,
    /// By part: how often it came last.
    pub lasts: BTreeMap<u32, u32>,
    /// Distance between the members' local times, the largest left out, ns; 0 for two members.
    pub spread: Ns,
    /// Arrivals at its first instance, on the common axis.
    pub arrivals: Vec<(u32, Ns)>,
    /// By part: waiting of the other members where it came last, ns.
    pub imposed: BTreeMap<u32, Ns>,
}

impl Chain {
    /// What repairing a part alone would give its group, as far as the part itself was slower, ns. A part that came
    /// last without having worked longer was held up elsewhere.
    pub fn own_gain(&self, part: u32) -> Ns {
        let excess = self.lates.get(&part).map_or(0, |l| l.excess);
        self.gains.get(&part).map_or(0, |g| (*g).min(excess))
    }
}

/// A step across ranks: its number, or its position where steps have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepKey {
    Index(u32),
    Label(i64),
}

impl StepKey {
    /// As `--steps` takes it.
    pub fn shown(self) -> String {
        match self {
            StepKey::Index(i) => format!("@{i}"),
            StepKey::Label(l) => l.to_string(),
        }
    }
}

/// The step of a call.
pub fn step_of(job: &Job, m: Member) -> Option<StepKey> {
    let p = &job.parts[m.part as usize];
    let index = job.call(m).step?;
    let label = p.step_of(job.call(m)).and_then(|s| s.label);
    Some(label.map_or(StepKey::Index(index), StepKey::Label))
}

/// The windows of every part, by call.
pub type Windows = Vec<Vec<Option<LocalWindow>>>;

/// The windows of all parts.
pub fn all_windows(job: &Job) -> Windows {
    (0..job.parts.len() as u32).into_par_iter().map(|p| windows(job, p)).collect()
}

/// All chains, by group and time, as if the parts in `without` were not there: who would be late behind them.
pub fn chains(job: &Job, windows: &Windows, without: &BTreeSet<u32>) -> Vec<Chain> {
    let mut by_group: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (id, i) in job.instances().iter().enumerate().filter(|(_, i)| i.len() > 1) {
        by_group.entry(i.group).or_default().push(id as u32);
    }
    let mut out: Vec<Chain> = Vec::new();
    for (group, mut ids) in by_group {
        ids.sort_by_key(|&id| (job.arrivals(id as usize).last, id));
        // the previous call of each member in this group
        let mut previous: BTreeMap<u32, Member> = BTreeMap::new();
        let mut current: Option<Chain> = None;
        for id in ids {
            let instance = &job.instances()[id as usize];
            let members: Vec<Member> =
                job.members(instance).iter().filter(|m| !without.contains(&m.part)).copied().collect();
            if members.len() < 2 {
                continue;
            }
            let at: Vec<Ns> = members.iter().map(|m| job.aligned(m.part, job.call(*m).arrival())).collect();
            let arrivals = arrivals(&at);
            let last = members.get(arrivals.last_member as usize).copied();
            let early =
                |m: &Member| previous.get(&m.part).is_some_and(|p| job.call(*m).arrival() < job.call(*p).span.end);
            let ran_on = last.is_some_and(|m| {
                previous.get(&m.part).is_some_and(|p| job.parts[p.part as usize].runs_on[p.call as usize])
            });
            if !(ran_on || members.iter().any(early)) {
                out.extend(current.take());
            }
            let chain = current.get_or_insert_with(|| Chain {
                group,
                step: members.first().and_then(|m| step_of(job, *m)),
                ..Chain::default()
            });
            add(job, chain, id, &members, &at, windows);
            previous.extend(members.iter().map(|m| (m.part, *m)));
        }
        out.extend(current);
    }
    out
}

fn add(job: &Job, chain: &mut Chain, id: u32, members: &[Member], at: &[Ns], windows: &Windows) {
    chain.instances.push(id);
    let found = arrivals(at);
    let kind = job.instances()[id as usize].kind;
    // in a broadcast nobody waits for a receiver, in a reduce nobody for the root
    let holds_others = |m: &&Member| match (kind.is_from_root(), kind.is_to_root()) {
        (false, false) => true,
        (from_root, _) => (job.root(id) == Some(**m)) == from_root,
    };
    // arrivals need clocks and matches to be right, local times do not
    let last = members.get(found.last_member as usize).filter(|_| !job.arrivals(id as usize).is_impossible);
    if let Some(m) = last.filter(holds_others) {
        let gain = chain.gains.entry(m.part).or_default();
        *gain = (*gain).max(found.gain);
        *chain.lasts.entry(m.part).or_default() += 1;
        let others = members.iter().filter(|o| *o != m);
        *chain.imposed.entry(m.part).or_default() += others.filter_map(|o| job.outcome(*o)).map(|o| o.wait).sum::<Ns>();
    }
    let mut locals: Vec<(Ns, Member)> =
        members.iter().filter_map(|m| Some((windows[m.part as usize][m.call as usize]?.span.len(), *m))).collect();
    locals.sort_unstable();
    let n = locals.len();
    if n < 2 {
        return;
    }
    // without its largest, how far the members are apart: what is usual here
    if n > 2 {
        chain.spread = chain.spread.max(locals[n - 2].0 - locals[0].0);
    }
    for (k, (own, m)) in locals.iter().enumerate() {
        // the lower median of the others
        let middle = (n - 2) / 2;
        let (typical, peer) = locals[if middle < k { middle } else { middle + 1 }];
        let excess = (own - typical).max(0);
        let late = Late { member: *m, instance: id, excess, difference: own - typical, typical: Some(peer) };
        let slot = chain.lates.entry(m.part).or_insert(late);
        if slot.excess < excess {
            *slot = late;
        }
    }
    if chain.instances.len() == 1 || chain.arrivals.is_empty() {
        chain.arrivals = members.iter().map(|m| m.part).zip(at.iter().copied()).collect();
    }
}

/// Median length of the steps of all parts, partial ones left out unless all are, ns; of the captures without steps.
pub fn median_step(job: &Job) -> Ns {
    let steps = |full: bool| -> Vec<Ns> {
        let all = job.parts.iter().flat_map(|p| &p.steps);
        all.filter(|s| !(full && s.is_partial)).map(|s| s.window.len()).collect()
    };
    let (mut full, mut any) = (steps(true), steps(false));
    let mut captures: Vec<Ns> = job.parts.iter().map(|p| p.capture.len()).collect();
    median(&mut full).or_else(|| median(&mut any)).or_else(|| median(&mut captures)).unwrap_or(0)
}
