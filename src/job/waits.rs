//! Divides every matched call into waiting and transfer: `dur = wait + transfer`.
//!
//! ```text
//!   rank 0     [waiting...........|transfer]        ts .. end
//!   rank 1                        [transfer]        the last one: its gain is last minus second last
//!                                 ^ last arrival among those that a rank depends on
//! ```
//!
//! Calls of a group of which a rank is not recorded are not divided: the last one may be the one that is
//! missing.
//!
//! A kernel arrives when it starts, a range on the host when it was submitted; the part of a host range
//! before the last range's start is waiting. Arrivals are compared on the common axis.

use crate::clock::Clock;
use crate::groups::Group;
use crate::matching::{Instance, Matched, Member};
use crate::part::RankSummary;
use hta_base::units::Ns;
use hta_trace::collective::CollectiveKind;

/// Waiting and transfer of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallWait {
    /// The instance with the longest wait; a kernel with several messages has several instances.
    pub instance: u32,
    /// Waiting time from its start, ns; of a fused kernel the most that it can be.
    pub wait: Ns,
    /// The last arrival came after the end of the call: a clock is wrong, or the call is not synchronous.
    pub is_impossible: bool,
    /// Whether the waiting is known: not if a rank of the group is not recorded.
    pub(crate) is_divided: bool,
}

/// Arrivals of one instance, on the common axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    pub first: Ns,
    pub last: Ns,
    /// Index of the last member among the instance's; ties: the lowest rank.
    pub last_member: u32,
    /// Last minus second last; 0 for a tie.
    pub(crate) gain: Ns,
    /// Latest minus earliest end.
    pub end_skew: Ns,
    pub is_impossible: bool,
}

/// Outcomes by part and call (`None` without a match), and arrivals by instance.
pub struct JobWaits {
    pub(crate) outcomes: Vec<Vec<Option<CallWait>>>,
    pub(crate) arrivals: Vec<Arrivals>,
}

/// Divides all calls.
pub(crate) fn split(parts: &[RankSummary], matched: &Matched, clocks: &[Clock]) -> JobWaits {
    let mut outcomes: Vec<Vec<Option<CallWait>>> =
        parts.iter().map(|p| vec![None; p.calls.calls.len()]).collect();
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
            // Who is missing from a fused kernel may be the last one.
            let is_open = instance.kind == CollectiveKind::Fused && !instance.is_complete();
            if is_open || matched.is_cut(instance) {
                let undivided =
                    CallWait { instance: id as u32, wait: 0, is_impossible: false, is_divided: false };
                members.iter().for_each(|m| outcomes[m.part as usize][m.call as usize] = Some(undivided));
                return found;
            }
            let root = root(parts, matched.groups.get(instance.group as usize), members).map(|i| members[i]);
            // On the host, the worker's start counts, not the submission, because nothing can be transferred
            // before it.
            let ready = |m: &Member| on(m, call(m).span.start);
            let latest = members.iter().map(ready).max().unwrap_or_default();
            for m in members {
                let last = instance.last_awaited(root, *m, latest, ready);
                let (start, span) = (ready(m), call(m).span);
                let wait = (last - start).max(0).min(span.len());
                let is_impossible = last > on(m, span.end) && instance.is_meeting();
                found.is_impossible |= is_impossible;
                let slot = &mut outcomes[m.part as usize][m.call as usize];
                let outcome = CallWait { instance: id as u32, wait, is_impossible, is_divided: true };
                if slot.is_none_or(|s| s.wait < outcome.wait) {
                    *slot = Some(outcome);
                }
            }
            found
        })
        .collect();
    JobWaits { outcomes, arrivals }
}

/// First, last and gain of arrivals; the fields about ends stay 0.
pub(crate) fn arrivals(at: &[Ns]) -> Arrivals {
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
    /// Whether each member waits for all others.
    fn is_mutual(&self) -> bool {
        self.kind.is_point_to_point() || self.kind.is_meeting() || self.kind == CollectiveKind::Unknown
    }

    /// Whether a member waits for another one (or is the same).
    pub fn depends(&self, root: Option<Member>, member: Member, on: Member) -> bool {
        if member == on || self.is_mutual() {
            return true;
        }
        if self.kind.is_from_root() { root == Some(on) } else { root == Some(member) }
    }

    /// When the last of those was ready on which a member depends. `latest` is the last of all members.
    fn last_awaited(
        &self,
        root: Option<Member>,
        member: Member,
        latest: Ns,
        ready: impl Fn(&Member) -> Ns,
    ) -> Ns {
        if self.is_mutual() || !self.kind.is_from_root() && root == Some(member) {
            return latest;
        }
        let own = ready(&member);
        root.filter(|_| self.kind.is_from_root()).map_or(own, |root| own.max(ready(&root)))
    }
}

/// Index of the root among the members: the recorded rank, or the position in the group that all members
/// recorded; otherwise the lowest member, which frameworks use.
pub(crate) fn root(parts: &[RankSummary], group: Option<&Group>, members: &[Member]) -> Option<usize> {
    let calls = || members.iter().map(|m| &parts[m.part as usize].calls.calls[m.call as usize]);
    let position_of = |rank: u32| members.iter().position(|m| parts[m.part as usize].rank == rank);
    if let Some(rank) = calls().find_map(|c| c.shape.root) {
        return position_of(rank);
    }
    let first = calls().next().and_then(|c| c.shape.rank_arg);
    let agreed = first.filter(|_| members.len() > 1 && calls().all(|c| c.shape.rank_arg == first));
    let listed = group.and_then(|g| g.members.as_ref());
    if let (Some(position), Some(listed)) = (agreed, listed) {
        return listed.get(position as usize).and_then(position_of);
    }
    (0..members.len()).min_by_key(|&i| parts[members[i].part as usize].rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_awaited_is_the_last_among_those_that_a_member_depends_on() {
        let members: Vec<Member> = (0..4).map(|part| Member { part, call: 0 }).collect();
        for kind in CollectiveKind::ALL {
            let instance = Instance::of(kind);
            for ready in [[5, 1, 9, 3], [7, 7, 2, 2], [1, 2, 3, 4]] {
                let at = |m: &Member| ready[m.part as usize];
                let latest = *ready.iter().max().unwrap();
                for root in [None, Some(members[0]), Some(members[2])] {
                    for member in &members {
                        let awaited = members.iter().filter(|m| instance.depends(root, *member, **m));
                        let last = instance.last_awaited(root, *member, latest, at);
                        assert_eq!(
                            Some(last),
                            awaited.map(at).max(),
                            "{kind:?} {ready:?} {root:?} {member:?}"
                        );
                    }
                }
            }
        }
    }
}
