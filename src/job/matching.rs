//! Instances: which calls of the ranks were the same collective.
//!
//! Each group is matched by the strongest evidence that its calls carry: the sequence number (`Seq`), else an
//! alignment of the ranks' sequences by token and end (`sequence`), else groups inferred from the ranks'
//! calls (`infer`). Point-to-point messages are matched by sender, receiver and order after clocks are
//! aligned (`messages`). An instance that some members did not record is kept with the members that did;
//! other instances are not affected.

use crate::groups::{Group, PartGroup};
use crate::part::RankSummary;
use hashbrown::HashMap;
use hta_trace::collective::{CollectiveCall, CollectiveKind};

/// How an instance was matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MatchMethod {
    /// By group, kind and sequence number.
    Number,
    /// By alignment of sequences of kind, size, type and end.
    Sequence,
    /// As `CallSequence`, in a group whose members were inferred.
    Inferred,
    /// By sender, receiver and order.
    Peers,
}

impl MatchMethod {
    pub fn name(self) -> &'static str {
        match self {
            MatchMethod::Number => "seq",
            MatchMethod::Sequence => "sequence",
            MatchMethod::Inferred => "inferred",
            MatchMethod::Peers => "peers",
        }
    }
}

/// One part's call in an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    pub part: u32,
    pub call: u32,
}

/// One collective with the members that recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Index of the group.
    pub group: u32,
    pub kind: CollectiveKind,
    pub(crate) seq: Option<u64>,
    /// The largest size over the members, bytes.
    pub bytes: Option<i64>,
    pub method: MatchMethod,
    /// Index of its first member in [`Matched::members`].
    first: u32,
    count: u32,
    /// Number of members that it should have.
    pub expected: u32,
    /// Whether members disagree in size or type where they must agree.
    pub disagrees: bool,
}

impl Instance {
    /// Whether every member of the group recorded it.
    pub fn is_complete(&self) -> bool {
        self.count == self.expected
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it is a message between two ranks. Of inferred groups all ranks send and receive (`in_turn`).
    pub(crate) fn is_message(&self) -> bool {
        self.kind.is_point_to_point() && self.method != MatchMethod::Inferred
    }

    /// Whether no member ends before the last one has come.
    pub(crate) fn is_meeting(&self) -> bool {
        self.is_synchronous() || self.kind.is_meeting()
    }

    /// Whether all members end at nearly the same true moment.
    pub fn is_synchronous(&self) -> bool {
        self.kind.is_synchronous() || self.kind.is_point_to_point() && !self.is_message()
    }

    /// An instance of a kind, without members.
    #[cfg(test)]
    pub fn of(kind: CollectiveKind) -> Self {
        Instance {
            group: 0,
            kind,
            seq: None,
            bytes: None,
            method: MatchMethod::Number,
            first: 0,
            count: 0,
            expected: 0,
            disagrees: false,
        }
    }

    fn range(&self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

/// The groups and instances of a job.
#[derive(Debug, Clone, Default)]
pub struct Matched {
    pub groups: Vec<Group>,
    pub(crate) instances: Vec<Instance>,
    pub(super) members: Vec<Member>,
    /// Index of the group that each of a part is.
    of_local: HashMap<PartGroup, u32>,
    /// Different kinds that members of one group gave for one number: (group, number, kinds).
    pub conflicts: Vec<(u32, u64, Vec<CollectiveKind>)>,
}

impl Matched {
    /// Members of an instance, by part.
    pub(crate) fn members(&self, i: &Instance) -> &[Member] {
        self.members.get(i.range()).unwrap_or(&[])
    }

    /// Whether it is not known for whom the members of an instance wait, because a rank of its group is not
    /// recorded. A message needs its two ends only.
    pub fn is_cut(&self, i: &Instance) -> bool {
        !i.is_message() && self.groups.get(i.group as usize).is_some_and(|g| g.misses_rank)
    }

    pub(super) fn add_group(&mut self, group: Group) -> u32 {
        let g = self.groups.len() as u32;
        self.of_local.extend(group.uses.iter().map(|u| (*u, g)));
        self.groups.push(group);
        g
    }

    /// The group of one part's local group; `None` if it is unknown.
    pub fn group_of(&self, part: u32, local: u32) -> Option<u32> {
        self.of_local.get(&PartGroup { part, local }).copied()
    }

    pub(crate) fn add(
        &mut self,
        parts: &[RankSummary],
        group: u32,
        method: MatchMethod,
        expected: usize,
        mut members: Vec<Member>,
    ) {
        members.sort_unstable();
        let call = |m: &Member| &parts[m.part as usize].calls.calls[m.call as usize];
        let Some(head) = members.first().map(call) else { return };
        let (kind, seq) = (head.shape.kind, head.seq);
        let dtype = |m: &Member| parts[m.part as usize].calls.dtype(call(m));
        let disagrees = kind.has_one_size()
            && members.iter().any(|m| {
                let (a, b) = (call(m).shape.bytes, head.shape.bytes);
                (a.is_some() && b.is_some() && a != b)
                    || dtype(m).zip(dtype(&members[0])).is_some_and(|(a, b)| a != b)
            });
        self.instances.push(Instance {
            group,
            kind,
            seq: seq.filter(|_| method == MatchMethod::Number),
            bytes: members.iter().filter_map(|m| call(m).shape.bytes).max(),
            method,
            first: self.members.len() as u32,
            count: members.len() as u32,
            expected: expected as u32,
            disagrees,
        });
        self.members.extend(members);
    }
}

/// A group's calls on one part: indices into its calls, in order of submission.
pub(super) struct Use {
    pub(super) part: u32,
    pub(super) calls: Vec<u32>,
}

pub(super) fn call<'a>(parts: &'a [RankSummary], u: &Use, i: u32) -> &'a CollectiveCall {
    &parts[u.part as usize].calls.calls[i as usize]
}
