//! Process groups as one rank describes them.
//!
//! A group is identified by its member list, if recorded, because names are reused (every tensor-parallel
//! group of a job may be called `1`). Recorded lists are cut after thirty entries. A cut list is completed if
//! it is regular: equal distances between members, and known size.

use crate::meta::{LARGEST_GROUP, Meta, ProcessGroup};
use hashbrown::HashMap;

/// The ranks of a process group, ascending, without duplicates.
///
/// Ranks at equal distances are stored as a progression, so a group takes only memory for the ranks that the
/// trace lists, however many members it claims to have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Members {
    /// `first`, `first + stride` and so on; a single member has stride 1. Constructed only by
    /// [`Members::regular`].
    Regular { first: u32, stride: u32, count: u32 },
    /// Ranks at unequal distances. Constructed only by [`Members::listed`].
    Listed(Vec<u32>),
}

impl Members {
    /// `count` ranks at equal distances. `None` if there are none, or the last one exceeds the range of
    /// ranks.
    pub fn regular(first: u32, stride: u32, count: u32) -> Option<Self> {
        let stride = if count == 1 { 1 } else { stride };
        let last = first.checked_add(stride.checked_mul(count.checked_sub(1)?)?);
        (stride > 0 && last.is_some()).then_some(Members::Regular { first, stride, count })
    }

    /// The ranks of a list in any order.
    pub fn listed(mut ranks: Vec<u32>) -> Self {
        ranks.sort_unstable();
        ranks.dedup();
        let regular = match ranks.as_slice() {
            [first] => Members::regular(*first, 1, 1),
            [first, second, ..] if ranks.windows(2).all(|w| w[1] - w[0] == second - first) => {
                u32::try_from(ranks.len())
                    .ok()
                    .and_then(|count| Members::regular(*first, second - first, count))
            }
            _ => None,
        };
        regular.unwrap_or(Members::Listed(ranks))
    }

    pub fn len(&self) -> usize {
        match self {
            Members::Regular { count, .. } => *count as usize,
            Members::Listed(ranks) => ranks.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, position: usize) -> Option<u32> {
        match self {
            Members::Regular { first, stride, count } => {
                let position = u32::try_from(position).ok().filter(|p| p < count)?;
                stride.checked_mul(position)?.checked_add(*first)
            }
            Members::Listed(ranks) => ranks.get(position).copied(),
        }
    }

    pub fn contains(&self, rank: u32) -> bool {
        match self {
            Members::Regular { first, stride, count } => {
                rank.checked_sub(*first).is_some_and(|d| d.is_multiple_of(*stride) && d / stride < *count)
            }
            Members::Listed(ranks) => ranks.binary_search(&rank).is_ok(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map_while(|i| self.get(i))
    }
}

/// A process group as one rank describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalGroup {
    pub name: Option<String>,
    pub desc: Option<String>,
    pub size: Option<u32>,
    /// All members, ascending; `None` if the trace does not list them all.
    pub members: Option<Members>,
    /// The beginning of a list that is cut.
    pub head: Vec<u32>,
    /// Distinguishes the rank's groups without a name: a pointer, which is meaningless on other ranks.
    pub pointer: Option<u64>,
}

/// The groups that the file's header lists, by name.
pub struct HeaderGroups<'a> {
    meta: &'a Meta,
    /// Of several groups with one name, the first.
    by_name: HashMap<&'a str, &'a ProcessGroup>,
}

impl<'a> HeaderGroups<'a> {
    pub fn new(meta: &'a Meta) -> Self {
        let mut by_name = HashMap::new();
        for g in &meta.groups {
            by_name.entry(g.name.as_str()).or_insert(g);
        }
        Self { meta, by_name }
    }

    /// All of them.
    pub fn all(&self) -> Vec<LocalGroup> {
        let group = |entry: &ProcessGroup| {
            let mut group = LocalGroup { name: Some(entry.name.clone()), ..LocalGroup::default() };
            group.complete(self);
            group
        };
        self.meta.groups.iter().map(group).collect()
    }
}

/// Description of the groups that fused kernels stand for.
pub const FUSED_GROUP: &str = "fused";

impl LocalGroup {
    /// The ranks that run a fused kernel together.
    pub fn of_fused(function: String) -> Self {
        LocalGroup { name: Some(function), desc: Some(FUSED_GROUP.to_string()), ..LocalGroup::default() }
    }

    /// Whether only the calls of the ranks can tell the members, because the name is that of a kernel.
    pub fn is_of_fused(&self) -> bool {
        self.members.is_none() && self.desc.as_deref() == Some(FUSED_GROUP)
    }

    /// The description, if it says something.
    pub fn description(&self) -> Option<&str> {
        self.desc.as_deref().filter(|d| !d.is_empty() && *d != "undefined")
    }

    /// Whether nothing distinguishes it from the rank's other groups.
    pub fn is_unknown(&self) -> bool {
        self.name.is_none() && self.members.is_none() && self.head.is_empty() && self.pointer.is_none()
    }

    /// Fills missing fields from the file's own list of groups.
    pub fn complete(&mut self, header: &HeaderGroups) {
        let meta = header.meta;
        let entry = match &self.name {
            Some(name) => header.by_name.get(name.as_str()).copied(),
            // If the job has one group, it is that one.
            None if meta.groups.len() == 1 && self.pointer.is_none() && self.size.is_none() => {
                meta.groups.first()
            }
            None => None,
        };
        if let Some(entry) = entry {
            self.name.get_or_insert_with(|| entry.name.clone());
            if self.desc.is_none() && !entry.desc.is_empty() {
                self.desc = Some(entry.desc.clone());
            }
            self.size = self.size.or(entry.size);
            if self.members.is_none() && !entry.ranks.is_empty() {
                self.list(entry.ranks.clone(), entry.size.is_some_and(|s| s as usize > entry.ranks.len()));
            }
        }
        if let Some((first, world)) = meta.program()
            && self.members.is_none()
            && self.size == Some(world)
        {
            // As many members as the program has ranks: all ranks.
            self.members = Members::regular(first, 1, world);
        }
        if let (Some(role), Some(members)) = (&meta.role, &self.members)
            && members.iter().any(|rank| !role.holds(rank))
        {
            // It joins the program with others, and counts its members otherwise.
            (self.members, self.head) = (None, Vec::new());
        }
        if let Some(members) = &self.members {
            self.size = u32::try_from(members.len()).ok();
        }
    }

    /// Sets the member list; a cut list is completed if it is regular.
    pub fn list(&mut self, mut ranks: Vec<u32>, is_cut: bool) {
        ranks.sort_unstable();
        ranks.dedup();
        let size = self.size.map(|s| s as usize);
        if !is_cut && size.is_none_or(|s| s == ranks.len()) {
            self.members = Some(Members::listed(ranks));
            return;
        }
        let stride = match ranks.as_slice() {
            [a, b, ..] => b - a,
            _ => 0,
        };
        let regular = stride > 0 && ranks.windows(2).all(|w| w[1] - w[0] == stride);
        if let (true, Some(first), Some(n)) = (regular, ranks.first(), self.size)
            && n as usize >= ranks.len()
        {
            self.members = Members::regular(*first, stride, n);
        }
        self.head = ranks;
    }
}

/// The size of a group as an event states it, limited to plausible values: at least 1, at most
/// [`LARGEST_GROUP`].
pub fn possible_size(size: u32) -> Option<u32> {
    (1..=LARGEST_GROUP).contains(&size).then_some(size)
}

/// Parses `[0, 2, 4, ...]` as torch writes it: the ranks, and whether the list was cut. `None` if it is not a
/// list.
pub fn parse_ranks(text: &str) -> Option<(Vec<u32>, bool)> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut ranks = Vec::new();
    for part in inner.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        if part == "..." {
            return Some((ranks, true));
        }
        ranks.push(part.parse().ok()?);
    }
    if ranks.is_empty() { None } else { Some((ranks, false)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_a_regular_cut_one_is_completed() {
        assert_eq!(parse_ranks("[0, 1, 3]"), Some((vec![0, 1, 3], false)));
        assert_eq!(parse_ranks("[0, 8, ...]"), Some((vec![0, 8], true)));
        assert_eq!(parse_ranks(""), None);
        let mut g = LocalGroup { size: Some(4), ..LocalGroup::default() };
        g.list(vec![1, 9], true);
        assert_eq!(g.members, Some(Members::listed(vec![1, 9, 17, 25])));
        let mut g = LocalGroup { size: Some(4), ..LocalGroup::default() };
        g.list(vec![1, 9, 10], true);
        assert_eq!((g.members, g.head), (None, vec![1, 9, 10]));
    }

    #[test]
    fn a_group_as_large_as_the_job_is_all_ranks() {
        let mut g = LocalGroup { size: Some(3), ..LocalGroup::default() };
        g.complete(&HeaderGroups::new(&Meta { world_size: Some(3), ..Meta::default() }));
        assert_eq!(g.members, Some(Members::listed(vec![0, 1, 2])));
    }

    #[test]
    fn a_progression_has_the_members_of_its_list() {
        for ranks in [vec![3], vec![0, 1], vec![2, 6, 10], vec![0, 1, 5], vec![]] {
            let members = Members::listed(ranks.clone());
            assert_eq!(members.iter().collect::<Vec<_>>(), ranks);
            assert_eq!((members.len(), members.get(ranks.len())), (ranks.len(), None));
            (0..12).for_each(|r| assert_eq!(members.contains(r), ranks.contains(&r), "{r} in {ranks:?}"));
        }
        assert_eq!(Members::regular(4, 7, 1), Some(Members::listed(vec![4])));
        assert_eq!([Members::regular(0, 1, 0), Members::regular(0, 0, 2)], [None, None]);
        assert_eq!(Members::regular(u32::MAX - 2, 2, 3), None);
    }

    #[test]
    fn a_group_of_any_claimed_size_takes_the_memory_of_what_is_listed() {
        let mut g = LocalGroup { size: Some(u32::MAX), ..LocalGroup::default() };
        g.list(vec![0, 1], true);
        assert_eq!(g.members, Some(Members::Regular { first: 0, stride: 1, count: u32::MAX }));
        let mut g = LocalGroup { size: Some(4_000_000_000), ..LocalGroup::default() };
        g.complete(&HeaderGroups::new(&Meta { world_size: Some(4_000_000_000), ..Meta::default() }));
        assert_eq!(g.members.map(|m| m.len()), Some(4_000_000_000));
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(possible_size), [None, Some(1), Some(1_000_000), None]);
    }
}
