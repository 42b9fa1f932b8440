//! Families of process groups: those that cut all ranks by one rule, such as the pipelines of a job.
//!
//! A rank lists only its own groups, and torch gives all groups of one kind the same description. Groups
//! without a description are of one family if they have the same [`GroupFactors`]. Groups of one rank in one
//! family with the same members are twins, made for two back ends.

use crate::counted_groups::{ALL_RANKS, counted};
use crate::part::RankSummary;
use hta_trace::collective::{LocalGroup, Members};
use std::collections::BTreeMap;

/// One factor of a group: `size` ranks, each `stride` after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor {
    pub(crate) size: u32,
    pub stride: u32,
}

/// A member list as a product, smallest stride first: 0, 1, 4, 5 is 2 ranks at distance 1, twice at
/// distance 4.
pub(crate) type GroupFactors = Vec<Factor>;

/// The factors of a member list; `None` if it is no product of regular steps.
pub(crate) fn factors(members: &Members) -> Option<GroupFactors> {
    let ranks = match members {
        Members::Regular { count: 1, .. } => return Some(Vec::new()),
        Members::Regular { stride, count, .. } => {
            return Some(vec![Factor { size: *count, stride: *stride }]);
        }
        Members::Listed(ranks) => ranks,
    };
    let first = *ranks.first()?;
    let mut found = GroupFactors::new();
    // Number of ranks that the factors found so far produce: these are the first of the list.
    let mut known = 1usize;
    while known < ranks.len() {
        let stride = ranks.get(known)? - first;
        // Whether the first ranks stand there again, so many strides further.
        let is_repeated = |times: &usize| {
            let there = ranks.get(times * known..(times + 1) * known).unwrap_or_default();
            let distance = u64::from(stride) * *times as u64;
            there.len() == known
                && there.iter().zip(ranks).all(|(b, a)| u64::from(*b) == u64::from(*a) + distance)
        };
        let size = (1..ranks.len()).take_while(is_repeated).count() + 1;
        if size < 2 {
            return None;
        }
        found.push(Factor { size: u32::try_from(size).ok()?, stride });
        known *= size;
    }
    (known == ranks.len()).then_some(found)
}

/// What the groups of a family have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FamilyKey {
    /// Their description.
    Described(String),
    /// Their place in the order in which an engine makes groups.
    Counted(&'static str),
    /// Their factors, for want of a description.
    Shaped(GroupFactors),
    /// Their only member list, which is irregular and not described.
    Irregular(Members),
}

/// Groups of one kind.
#[derive(Debug, Clone)]
pub(crate) struct GroupFamily {
    pub(crate) key: FamilyKey,
    /// By part, the rank's groups of the family, the first of which is its own: positions among its groups.
    pub(crate) of_part: Vec<Vec<u32>>,
    /// The member lists, each once, ascending.
    pub(crate) groups: Vec<Members>,
}

impl GroupFamily {
    /// The rank's own group of the family, with its position among the rank's groups.
    pub(crate) fn own<'a>(&self, parts: &'a [RankSummary], part: usize) -> Option<(u32, &'a Members)> {
        let local = *self.of_part.get(part)?.first()?;
        let group = parts.get(part)?.calls.groups.get(local as usize)?;
        Some((local, group.members.as_ref()?))
    }

    /// Whether it is the group that torch makes by itself.
    pub(crate) fn is_default(&self) -> bool {
        match &self.key {
            FamilyKey::Described(text) => text == "default_pg",
            FamilyKey::Counted(name) => *name == ALL_RANKS,
            FamilyKey::Shaped(_) | FamilyKey::Irregular(_) => false,
        }
    }
}

/// The groups that a rank knows.
pub(crate) struct ListedGroups<'a> {
    pub(crate) rank: u32,
    pub(crate) groups: &'a [LocalGroup],
    /// Names of groups without a description, by position.
    pub(crate) counted: BTreeMap<u32, &'static str>,
}

/// The groups of all parts.
pub(crate) fn listed(parts: &[RankSummary]) -> Vec<ListedGroups<'_>> {
    parts
        .iter()
        .map(|p| ListedGroups { rank: p.rank, groups: &p.calls.groups, counted: counted(p) })
        .collect()
}

/// The families of all groups that ranks know with all members, those that torch makes by itself last.
pub(crate) fn families(ranks: &[ListedGroups]) -> Vec<GroupFamily> {
    let mut found: BTreeMap<FamilyKey, GroupFamily> = BTreeMap::new();
    for (part, p) in ranks.iter().enumerate() {
        for (local, group) in (0u32..).zip(p.groups) {
            let Some(members) = group.members.as_ref().filter(|m| m.contains(p.rank)) else { continue };
            let key = match (group.description(), p.counted.get(&local), factors(members)) {
                (Some(text), ..) => FamilyKey::Described(text.to_string()),
                (None, Some(name), _) => FamilyKey::Counted(name),
                (None, None, Some(factors)) => FamilyKey::Shaped(factors),
                (None, None, None) => FamilyKey::Irregular(members.clone()),
            };
            let family = found.entry(key.clone()).or_insert_with(|| GroupFamily {
                key,
                of_part: vec![Vec::new(); ranks.len()],
                groups: Vec::new(),
            });
            family.of_part[part].push(local);
            family.groups.push(members.clone());
        }
    }
    let mut families: Vec<GroupFamily> = found.into_values().collect();
    for family in &mut families {
        family.groups.sort_unstable();
        family.groups.dedup();
    }
    families.sort_by_key(GroupFamily::is_default);
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranks: &[u32]) -> Option<Vec<(u32, u32)>> {
        let found = factors(&Members::listed(ranks.to_vec()))?;
        Some(found.into_iter().map(|f| (f.size, f.stride)).collect())
    }

    #[test]
    fn member_lists_are_products() {
        assert_eq!(of(&[0, 1, 4, 5, 8, 9, 12, 13]), Some(vec![(2, 1), (4, 4)]));
        assert_eq!(of(&[3, 7, 19, 23]), Some(vec![(2, 4), (2, 16)]));
        assert_eq!(of(&[5]), Some(vec![]));
        assert_eq!(of(&[0, 8, 16]), Some(vec![(3, 8)]));
        assert_eq!(of(&[0, 1, 2, 3, 8, 9, 10, 11]), Some(vec![(4, 1), (2, 8)]));
        for irregular in [&[0, 1, 3][..], &[0, 1, 4, 6], &[0, 3, 4, 7, 9, 12], &[0, 1, 4]] {
            assert_eq!(of(irregular), None, "{irregular:?}");
        }
    }
}
