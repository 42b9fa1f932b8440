//! What is seen beside the low clocks of several ranks: of all together where it is the same, else by rank.
//! One device may be hot while another one is at its power plateau.

use crate::clocks::reason::SeenBeside;
use crate::clocks::words::performance;
use hta_job::Job;
use std::collections::BTreeSet;

/// Ranks of whose devices the same kind of state is seen, or none.
#[derive(Debug)]
struct SameSeen {
    /// The states, in any order; empty if none is seen.
    seen: Vec<SeenBeside>,
    /// Whether power and temperature are recorded.
    is_recorded: bool,
    ranks: BTreeSet<u32>,
}

/// What is seen beside the low clocks of some ranks.
#[derive(Debug, Default)]
pub(crate) struct SeenOfRanks {
    /// In the order of their first ranks.
    groups: Vec<SameSeen>,
}

impl SameSeen {
    fn words(&self) -> Option<String> {
        let by_value = |seen: &&SeenBeside| seen.value();
        let least = self.seen.iter().min_by_key(by_value)?;
        Some(least.words_to(*self.seen.iter().max_by_key(by_value)?))
    }

    fn named(&self, job: &Job) -> String {
        job.words.plain(&self.ranks.iter().copied().collect::<Vec<u32>>())
    }
}

impl SeenOfRanks {
    /// From the devices: the rank, what is seen, and whether power and temperature are recorded.
    pub(crate) fn new(devices: impl IntoIterator<Item = (u32, Option<SeenBeside>, bool)>) -> Self {
        let mut groups: Vec<SameSeen> = Vec::new();
        for (rank, seen, is_recorded) in devices {
            let kind = |seen: Option<&SeenBeside>| seen.map(|s| s.counter());
            let is_same = |g: &&mut SameSeen| {
                kind(g.seen.first()) == kind(seen.as_ref())
                    && (seen.is_some() || g.is_recorded == is_recorded)
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => {
                    group.seen.extend(seen);
                    group.ranks.insert(rank);
                }
                None => groups.push(SameSeen {
                    seen: seen.into_iter().collect(),
                    is_recorded,
                    ranks: BTreeSet::from([rank]),
                }),
            }
        }
        groups.sort_by_key(|g| g.ranks.first().copied());
        Self { groups }
    }

    /// `at a power plateau of 700 W`, or `rank 0 at 88 C while the clock falls, rank 1 at a power plateau of
    /// 700 W`; empty if nothing is seen.
    pub(crate) fn words(&self, job: &Job) -> String {
        let is_of_all = self.groups.len() == 1;
        let one = |g: &SameSeen| {
            let words = g.words()?;
            Some(if is_of_all { words } else { format!("{} {words}", g.named(job)) })
        };
        self.groups.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// What to do about it.
    pub(crate) fn action(&self, job: &Job) -> String {
        let of = |g: &SameSeen| (g.seen.first().copied(), g.is_recorded, g.named(job));
        performance(&self.groups.iter().map(of).collect::<Vec<_>>())
    }

    /// The kind of the counter that shows something, the ranks of which it does, and what it shows.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, Vec<u32>, String)> {
        let of = |g: &SameSeen| {
            Some((g.seen.first()?.counter(), g.ranks.iter().copied().collect::<Vec<u32>>(), g.words()?))
        };
        self.groups.iter().filter_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(devices: &[(u32, Option<SeenBeside>)]) -> Vec<(Vec<u32>, String)> {
        let seen = SeenOfRanks::new(devices.iter().map(|(rank, seen)| (*rank, *seen, true)));
        seen.shown().map(|(_, ranks, words)| (ranks, words)).collect()
    }

    #[test]
    fn a_reason_is_that_of_its_ranks_only() {
        let (hot, power) = (Some(SeenBeside::Heat(88)), Some(SeenBeside::Power(700)));
        let heat = "at 88 C while the clock falls".to_string();
        assert_eq!(
            shown(&[(0, hot), (1, power), (2, hot), (3, None)]),
            [(vec![0, 2], heat.clone()), (vec![1], "at a power plateau of 700 W".to_string())]
        );
        assert_eq!(shown(&[(1, hot), (0, hot)]), [(vec![0, 1], heat)]);
        // Devices of one kind do not all have the value of the first.
        let other = Some(SeenBeside::Power(1_200));
        assert_eq!(shown(&[(0, other), (1, power)])[0].1, "at a power plateau of 700 to 1,200 W");
        assert!(shown(&[(0, None)]).is_empty());
    }
}
