//! What transfers among the same ranks: the calls of a group; of messages, those between a pair of ranks,
//! because a group of all stages of a pipeline has as many ways as neighbours.

use hta_job::{Instance, Job};

/// A group, or of messages a pair of its ranks, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferLink {
    pub group: u32,
    pub(crate) pair: Option<[u32; 2]>,
}

impl TransferLink {
    pub fn of(job: &Job, instance: &Instance) -> Self {
        let pair = || match job.members(instance) {
            [a, b] => {
                let [a, b] = [a, b].map(|m| job.parts[m.part as usize].rank);
                Some([a.min(b), a.max(b)])
            }
            _ => None,
        };
        Self { group: instance.group, pair: instance.kind.is_point_to_point().then(pair).flatten() }
    }

    /// The recorded ranks, ascending.
    pub fn ranks(self, job: &Job) -> Vec<u32> {
        if let Some(pair) = self.pair {
            return pair.to_vec();
        }
        let Some(group) = job.matched.groups.get(self.group as usize) else { return Vec::new() };
        let mut ranks: Vec<u32> =
            group.parts().filter_map(|part| Some(job.parts.get(part as usize)?.rank)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The recorded ranks that all of some links have, ascending; none without links.
    pub fn common(job: &Job, mut links: impl Iterator<Item = Self>) -> Vec<u32> {
        let mut common = links.next().map(|link| link.ranks(job)).unwrap_or_default();
        links.for_each(|link| common.retain(|r| link.ranks(job).contains(r)));
        common
    }

    /// The ranks, if all of them are recorded.
    pub fn all_ranks(self, job: &Job) -> Option<Vec<u32>> {
        let group = job.matched.groups.get(self.group as usize)?;
        let ranks = self.ranks(job);
        let is_whole = self.pair.is_some() || ranks.len() >= group.expected();
        (ranks.len() >= 2 && is_whole).then_some(ranks)
    }

    /// What groups of one purpose have in common: the dimension that they are along, or their description.
    pub fn purpose(self, job: &Job) -> Option<String> {
        let group = job.matched.groups.get(self.group as usize)?;
        let dimension = job.mesh.dimension_of(self.group);
        Some(dimension.or(group.desc.as_deref()).unwrap_or_default().to_string())
    }
}
