//! Matches the process groups of different ranks.
//!
//! A group is identified by its member list, if that is known. Several groups with the same list (often two
//! groups contain all ranks) are distinguished by name, or else by the order in which each rank uses them. A
//! group without a list is identified by its name, size and truncated list, as long as no more ranks claim it
//! than it has members. Otherwise, and without a name, its members have to be inferred from its collectives
//! (`infer`).

use crate::part::RankSummary;
use hta_base::wording::ranks::rank_list;
use hta_trace::collective::ranks::member_list;
use hta_trace::collective::{LocalGroup, Members};
use std::collections::BTreeMap;

/// A process group as one part names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartGroup {
    /// Index of the part.
    pub part: u32,
    /// Index into the groups of its calls.
    pub local: u32,
}

impl PartGroup {
    pub(crate) fn summary(self, parts: &[RankSummary]) -> &RankSummary {
        &parts[self.part as usize]
    }

    pub(crate) fn group(self, parts: &[RankSummary]) -> &LocalGroup {
        &self.summary(parts).calls.groups[self.local as usize]
    }
}

/// A process group of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: Option<String>,
    pub desc: Option<String>,
    /// All members, if known.
    pub members: Option<Members>,
    pub(crate) size: Option<u32>,
    /// Whether the members were inferred from the ranks' calls.
    pub is_inferred: bool,
    /// Whether a member is not recorded, so that it is not known for whom the others wait.
    pub(crate) misses_rank: bool,
    /// The groups of the parts that it is, by part.
    pub uses: Vec<PartGroup>,
}

impl Group {
    fn of(local: &LocalGroup) -> Self {
        Self {
            name: local.name.clone(),
            desc: local.desc.clone(),
            members: local.members.clone(),
            size: local.size,
            is_inferred: false,
            misses_rank: false,
            uses: Vec::new(),
        }
    }

    /// The parts that use it.
    pub fn parts(&self) -> impl Iterator<Item = u32> {
        self.uses.iter().map(|u| u.part)
    }

    /// Number of members that an instance of the group needs; without a size, the number of ranks seen.
    pub fn expected(&self) -> usize {
        self.size.map_or(self.uses.len(), |s| s as usize).max(self.uses.len())
    }

    /// Whether a member is not among the ranks that are recorded (ascending).
    pub(crate) fn misses(&self, recorded: &[u32]) -> bool {
        match &self.members {
            Some(members) => members.iter().any(|rank| recorded.binary_search(&rank).is_err()),
            None => self.size.is_some_and(|size| size as usize > recorded.len()),
        }
    }

    /// Display name, e.g. `1 (tp) [0-3]`.
    pub fn shown(&self, parts: &[RankSummary]) -> String {
        let name = match (&self.name, &self.desc) {
            (Some(n), Some(d)) if d != n && d != "undefined" => format!("{n} ({d})"),
            (Some(n), _) => n.clone(),
            (None, _) => String::new(),
        };
        let seen: Vec<u32> =
            self.parts().filter_map(|part| parts.get(part as usize)).map(|p| p.rank).collect();
        let ranks = self.members.as_ref().map_or_else(|| rank_list(&seen), member_list);
        if name.is_empty() { format!("[{ranks}]") } else { format!("{name} [{ranks}]") }
    }
}

/// The groups found, and those of parts whose members are unknown.
pub(crate) struct Resolved {
    pub(crate) groups: Vec<Group>,
    pub(crate) unknown: Vec<PartGroup>,
}

/// By program, name, size and truncated list.
type NamedGroups<'a> = BTreeMap<(u32, Option<&'a str>, Option<u32>, &'a [u32]), Vec<PartGroup>>;

/// Matches the local groups of all parts. `used[part]`: local groups with calls, in order of first use.
pub(crate) fn resolve(parts: &[RankSummary], used: &[Vec<u32>]) -> Resolved {
    let mut by_members: BTreeMap<&Members, Vec<PartGroup>> = BTreeMap::new();
    let mut by_name: NamedGroups = BTreeMap::new();
    let mut unknown = Vec::new();
    for (part, groups) in (0u32..).zip(used) {
        for &local in groups {
            let id = PartGroup { part, local };
            let (summary, l) = (id.summary(parts), id.group(parts));
            match &l.members {
                Some(m) if m.contains(summary.rank) => by_members.entry(m).or_default().push(id),
                _ if l.name.is_some() && !l.is_of_fused() => {
                    let key = (summary.program(), l.name.as_deref(), l.size, &l.head[..]);
                    by_name.entry(key).or_default().push(id);
                }
                _ => unknown.push(id),
            }
        }
    }
    let mut groups = Vec::new();
    for uses in by_members.into_values() {
        groups.extend(split(uses, parts));
    }
    for ((_, _, size, head), uses) in by_name {
        let claims = uses.len();
        if size.is_some_and(|s| claims > s as usize) && head.is_empty() {
            unknown.extend(uses);
            continue;
        }
        let mut group = Group::of(uses[0].group(parts));
        group.uses = uses;
        groups.push(group);
    }
    unknown.sort_unstable();
    groups.sort_by(|a, b| (&a.uses, &a.name).cmp(&(&b.uses, &b.name)));
    Resolved { groups, unknown }
}

/// Divides the uses of one member list into groups.
fn split(uses: Vec<PartGroup>, parts: &[RankSummary]) -> Vec<Group> {
    let mut of_part: BTreeMap<u32, Vec<PartGroup>> = BTreeMap::new();
    for u in uses {
        of_part.entry(u.part).or_default().push(u);
    }
    let names = |list: &[PartGroup]| {
        let mut names: Vec<_> = list.iter().map(|u| u.group(parts).name.as_deref()).collect();
        names.sort_unstable();
        names
    };
    let several = of_part.values().any(|l| l.len() > 1);
    // A part that has not used a group yet does not contradict the others.
    let most = of_part.values().max_by_key(|l| l.len()).map(|l| names(l)).unwrap_or_default();
    let distinct = most.windows(2).all(|w| w[0] != w[1]);
    let same_names = distinct && of_part.values().all(|l| names(l).iter().all(|n| most.contains(n)));
    let mut groups: BTreeMap<(Option<&str>, usize), Group> = BTreeMap::new();
    for list in of_part.values() {
        for (i, u) in list.iter().enumerate() {
            let key = match (several, same_names) {
                (false, _) => (None, 0),
                (true, true) => (u.group(parts).name.as_deref(), 0),
                (true, false) => (None, i),
            };
            groups.entry(key).or_insert_with(|| Group::of(u.group(parts))).uses.push(*u);
        }
    }
    groups.into_values().collect()
}
