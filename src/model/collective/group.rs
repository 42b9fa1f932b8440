//! Process groups as one rank names them.
//!
//! A group is its member list where that is given; names are reused (every tensor-parallel group of a job
//! may be called `1`), and lists are cut after thirty entries. A cut list is completed when the rest is
//! regular: same distance between members, known size.

use crate::model::meta::{Meta, ProcessGroup};
use hashbrown::HashMap;

/// A process group in the words of one rank.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalGroup {
    pub name: Option<String>,
    pub desc: Option<String>,
    pub size: Option<u32>,
    /// All members, ascending; `None` when the trace does not list them all.
    pub members: Option<Vec<u32>>,
    /// The list as far as it goes, where it is cut.
    pub head: Vec<u32>,
    /// What tells the rank's groups apart when they have no name: a pointer, which no other rank knows.
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
}

impl LocalGroup {
    /// Fills what is missing from the file's own list of groups.
    pub fn complete(&mut self, header: &HeaderGroups) {
        let meta = header.meta;
        let entry = match &self.name {
            Some(name) => header.by_name.get(name.as_str()).copied(),
            // a job with one group has no other
            None if meta.groups.len() == 1 && self.pointer.is_none() && self.size.is_none() => meta.groups.first(),
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
        if self.members.is_none() && self.size.is_some() && self.size == meta.world_size {
            // as many members as the job has ranks: all of them
            self.members = meta.world_size.map(|w| (0..w).collect());
        }
        if let Some(members) = &self.members {
            self.size = u32::try_from(members.len()).ok();
        }
    }

    /// Takes a member list; a cut one is completed where it is regular.
    pub fn list(&mut self, mut ranks: Vec<u32>, is_cut: bool) {
        ranks.sort_unstable();
        ranks.dedup();
        let size = self.size.map(|s| s as usize);
        if !is_cut && size.is_none_or(|s| s == ranks.len()) {
            self.members = Some(ranks);
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
            self.members = (0..n).map(|i| stride.checked_mul(i)?.checked_add(*first)).collect();
        }
        self.head = ranks;
    }

    /// A name for people.
    pub fn shown(&self) -> String {
        match (&self.name, &self.desc) {
            (Some(name), Some(desc)) if desc != name && desc != "undefined" => format!("{name} ({desc})"),
            (Some(name), _) => name.clone(),
            (None, _) => String::new(),
        }
    }
}

/// `[0, 2, 4, ...]` as torch writes it: the ranks, and whether the list was cut. `None`: not a list.
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
        assert_eq!(g.members, Some(vec![1, 9, 17, 25]));
        let mut g = LocalGroup { size: Some(4), ..LocalGroup::default() };
        g.list(vec![1, 9, 10], true);
        assert_eq!((g.members, g.head), (None, vec![1, 9, 10]));
    }

    #[test]
    fn a_group_as_large_as_the_job_is_all_ranks() {
        let mut g = LocalGroup { size: Some(3), ..LocalGroup::default() };
        g.complete(&HeaderGroups::new(&Meta { world_size: Some(3), ..Meta::default() }));
        assert_eq!(g.members, Some(vec![0, 1, 2]));
    }
}
