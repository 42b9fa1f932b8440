//! Divides every matched call into waiting and transfer: `dur = wait + transfer`.
//!
//! ```text
//!   rank 0     [waiting...........|transfer]        ts .. end
//!   rank 1                        [transfer]        the last one: its gain is last minus second last
//!                                 ^ last arrival among those that a rank depends on
//! ```
//!
//! A kernel arrives when it starts, a range on the host when it was submitted; the part of a host range before the last
//! range's start is waiting. Arrivals are compared on the common axis.

use crate::job::clock::Clock;
use crate::job::groups::Group;
use crate::job::matching::{Instance, Matched, Member};
use crate::job::part::RankSummary;
use crate::trace::collective::{Call, CollectiveKind};
use crate::units::Ns;

/// Waiting and transfer of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallWait {
    /// The instance with the longest wait; a kernel with several messages has several instances.
    pub instance: u32,
    /// Waiting time from its start, ns.
    pub wait: Ns,
    /// The last arrival came after the end of the call: a clock is wrong, or the call is not synchronous.
    pub is_impossible: bool,
}

/// Arrivals of one instance, on the common axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    pub first: Ns,
    pub last: Ns,
    /// Index of the last member among the instance's; ties: the lowest rank.
    pub last_member: u32,
    /// Last minus second last; 0 for a tie.
    pub gain: Ns,
    /// Latest minus earliest end.
    pub end_skew: Ns,
    pub is_impossible: bool,
}

/// Outcomes by part and call (`None` without a match), and arrivals by instance.
pub struct Waits {
    pub outcomes: Vec<Vec<Option<CallWait>>>,
    pub arrivals: Vec<Arrivals>,
}

/// Divides all calls.
pub fn split(parts: &[RankSummary], matched: &Matched, clocks: &[Clock]) -> Waits {
    let mut outcomes: Vec<Vec<Option<CallWait>>> = parts.iter().map(|p| vec![None; p.calls.calls.len()]).collect();
    let call = |m: &Member| &parts[m.part as usize].calls.calls[m.call as usize];
    let arrivals = matched
        .instances
        .iter()
        .enumerate()
        .map(|(id, instance)| {
            let members = matched.members(instance);
            let on = |m: &Member, t: Ns| clocks[m.part as usize].aligned(t);
            let at: Vec<Ns> = members.iter().map(|m| on(m, call(m).arrival())).collect();
            let mut found = arrivals(&at);
            let ends = || members.iter().map(|m| on(m, call(m).span.end));
            found.end_skew = ends().max().unwrap_or(0) - ends().min().unwrap_or(0);
            if members.len() < 2 {
                return found;
            }
            let root = root(parts, matched.groups.get(instance.group as usize), members);
            for (k, m) in members.iter().enumerate() {
                let outcome = outcome(instance, root, members, k, &on, &call);
                found.is_impossible |= outcome.is_impossible;
                let slot = &mut outcomes[m.part as usize][m.call as usize];
                let outcome = CallWait { instance: id as u32, ..outcome };
                if slot.is_none_or(|s| s.wait < outcome.wait) {
                    *slot = Some(outcome);
                }
            }
            found
        })
        .collect();
    Waits { outcomes, arrivals }
}

/// First, last and gain of arrivals; the fields about ends stay 0.
pub fn arrivals(at: &[Ns]) -> Arrivals {
    let mut found = Arrivals::default();
    let Some(&last) = at.iter().max() else { return found };
    found.first = at.iter().min().copied().unwrap_or(last);
    found.last = last;
    let who = at.iter().position(|t| *t == last).unwrap_or(0);
    found.last_member = who as u32;
    let second = at.iter().enumerate().filter(|(i, _)| *i != who).map(|(_, t)| *t).max();
    found.gain = second.map_or(0, |s| last - s);
    found
}

impl Instance {
    /// Whether a member waits for another one (or is the same).
    pub fn depends(&self, root: Option<Member>, member: Member, on: Member) -> bool {
        if member == on
            || self.kind.is_point_to_point()
            || self.kind.is_synchronous()
            || self.kind == CollectiveKind::Unknown
        {
            return true;
        }
        if self.kind.is_from_root() { root == Some(on) } else { root == Some(member) }
    }
}

/// Index of the root among the members: the recorded rank, or the position in the group that all members recorded;
/// otherwise the lowest member, which frameworks use.
pub fn root(parts: &[RankSummary], group: Option<&Group>, members: &[Member]) -> Option<usize> {
    let calls = || members.iter().map(|m| &parts[m.part as usize].calls.calls[m.call as usize]);
    let position_of = |rank: u32| members.iter().position(|m| parts[m.part as usize].rank == rank);
    if let Some(rank) = calls().find_map(|c| c.root) {
        return position_of(rank);
    }
    let first = calls().next().and_then(|c| c.rank_arg);
    let agreed = first.filter(|_| members.len() > 1 && calls().all(|c| c.rank_arg == first));
    let listed = group.and_then(|g| g.members.as_ref());
    if let (Some(position), Some(listed)) = (agreed, listed) {
        return listed.get(position as usize).and_then(position_of);
    }
    (0..members.len()).min_by_key(|&i| parts[members[i].part as usize].rank)
}

fn outcome<'a>(
    instance: &Instance,
    root: Option<usize>,
    members: &[Member],
    k: usize,
    on: &impl Fn(&Member, Ns) -> Ns,
    call: &impl Fn(&Member) -> &'a Call,
) -> CallWait {
    let me = call(&members[k]);
    // On the host, the worker's start counts, not the submission, because nothing can be transferred before it.
    let ready = |m: &Member| on(m, call(m).span.start);
    let root = root.map(|i| members[i]);
    let others = members.iter().filter(|on| instance.depends(root, members[k], **on));
    let last = others.map(ready).max().unwrap_or_else(|| ready(&members[k]));
    let (start, end) = (ready(&members[k]), on(&members[k], me.span.end));
    let late = (last - start).max(0);
    let is_impossible = last > end && instance.kind.is_synchronous();
    CallWait { instance: 0, wait: late.min(me.span.len()), is_impossible }
}
