//! Describes a set of ranks by what its members have in common: all ranks, the same place on every node,
//! whole hosts; else by their numbers.

use hta_base::wording::ranks::{rank_list, ranks_named};
use hta_job::mesh::Coordinates;
use hta_job::rank_words::RankWords;
use hta_job::{HostSource, Job};
use std::collections::{BTreeMap, BTreeSet};

/// What a cause extends over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RankScope {
    All,
    LocalRank,
    Host,
    Rank,
}

impl RankScope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RankScope::All => "all",
            RankScope::LocalRank => "local_rank",
            RankScope::Host => "host",
            RankScope::Rank => "rank",
        }
    }
}

/// Where the ranks of a job run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topology {
    /// By rank: host, and place on that host.
    places: BTreeMap<u32, (String, u32)>,
    /// Whether the names of hosts are made up.
    is_inferred: bool,
    words: RankWords,
}

impl Topology {
    pub fn of(job: &Job) -> Self {
        let hosts = &job.mesh.hosts;
        let place = |(rank, host, place): (u32, Option<&str>, u32)| {
            (rank, (host.unwrap_or_default().to_string(), place))
        };
        Self {
            places: hosts.places().map(place).collect(),
            is_inferred: hosts.source == HostSource::Devices,
            words: job.words.clone(),
        }
    }

    /// The scope of a set of ranks (ascending), and words for it.
    pub(crate) fn describe(&self, ranks: &[u32]) -> (RankScope, String) {
        let n = ranks.len();
        let label = || self.words.shared(ranks).map_or(String::new(), |label| format!("{label}, "));
        match self.shared_place(ranks) {
            SharedPlace::All if n == 1 => (RankScope::All, ranks_named(ranks)),
            SharedPlace::All => (RankScope::All, format!("all {n} ranks")),
            SharedPlace::Hosts(hosts) => {
                let noun = match hosts.len() {
                    _ if self.is_inferred => "",
                    1 => "host ",
                    _ => "hosts ",
                };
                let names: Vec<&str> = hosts.iter().take(4).copied().collect();
                let more =
                    if hosts.len() > 4 { format!(" and {} more", hosts.len() - 4) } else { String::new() };
                (RankScope::Host, format!("{noun}{}{more} ({}{n} ranks)", names.join(", "), label()))
            }
            SharedPlace::Local(locals) => {
                let noun = if locals.len() == 1 { "local rank" } else { "local ranks" };
                (
                    RankScope::LocalRank,
                    format!("{noun} {} of every node ({}{n} ranks)", rank_list(&locals), label()),
                )
            }
            SharedPlace::None => {
                let is_counted = n > 2 && self.words.roles.is_empty();
                let count =
                    if is_counted { format!(" ({n} of {})", self.places.len()) } else { String::new() };
                (RankScope::Rank, format!("{}{count}", self.words.named(ranks)))
            }
        }
    }

    /// Where the ranks of a job of one program are in its mesh.
    pub(crate) fn coordinates(&self) -> Option<&Coordinates> {
        self.words.only_program()
    }

    /// The same for a column of a table: `all 16`, `pp 1 (8)`, `9 (dp 2, pp 1)`, `local 0, 6 (4)`, `0-2, 4`.
    pub(crate) fn in_column(&self, ranks: &[u32]) -> String {
        let n = ranks.len();
        match (self.shared_place(ranks), self.words.shared(ranks)) {
            (SharedPlace::All, _) if n > 1 => format!("all {n}"),
            (SharedPlace::Local(locals), None) => format!("local {} ({n})", rank_list(&locals)),
            _ => self.words.in_column(ranks),
        }
    }

    fn shared_place(&self, ranks: &[u32]) -> SharedPlace<'_> {
        let n = ranks.len();
        if n == self.places.len() {
            return SharedPlace::All;
        }
        // Ranks of several programs may share a device, and a host has several of each kind.
        if !self.words.roles.is_empty() {
            return SharedPlace::None;
        }
        let members: BTreeSet<u32> = ranks.iter().copied().collect();
        let inside = |keep: &dyn Fn(&(String, u32)) -> bool| -> BTreeSet<u32> {
            self.places.iter().filter(|(_, place)| keep(place)).map(|(r, _)| *r).collect()
        };
        let of_set: Vec<&(String, u32)> = ranks.iter().filter_map(|r| self.places.get(r)).collect();
        let locals: BTreeSet<u32> = of_set.iter().map(|p| p.1).collect();
        let hosts: BTreeSet<&str> = of_set.iter().map(|p| p.0.as_str()).collect();
        let all_hosts: BTreeSet<&str> = self.places.values().map(|p| p.0.as_str()).collect();
        if n > 1 && all_hosts.len() > 1 && inside(&|p| hosts.contains(p.0.as_str())) == members {
            return SharedPlace::Hosts(hosts);
        }
        if n > locals.len() && inside(&|p| locals.contains(&p.1)) == members {
            return SharedPlace::Local(locals.into_iter().collect());
        }
        SharedPlace::None
    }
}

/// What the ranks of a set, and only they, have in common.
enum SharedPlace<'a> {
    All,
    /// They are all ranks of these hosts.
    Hosts(BTreeSet<&'a str>),
    /// They have these places on every host.
    Local(Vec<u32>),
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(hosts: u32, size: u32) -> Topology {
        let place = |r: u32| (r, (format!("node{}", r / size), r % size));
        Topology { places: (0..hosts * size).map(place).collect(), ..Topology::default() }
    }

    #[test]
    fn ranks_of_several_programs_are_named_by_their_roles() {
        let mut job = nodes(1, 5);
        let word = |r: u32| if r < 3 { ("actor".to_string(), r) } else { ("rollout".to_string(), r - 3) };
        job.words.roles = (0..5).map(|r| (r, word(r))).collect();
        assert_eq!(job.describe(&[0, 1, 2]).1, "actor 0-2");
        assert_eq!(job.describe(&[1, 4]).1, "actor 1, rollout 1");
        assert_eq!(job.in_column(&[3, 4]), "rollout 0, 1");
        assert_eq!(job.describe(&[0, 1, 2, 3, 4]).1, "all 5 ranks");
    }

    #[test]
    fn ranks_are_described_by_what_they_share() {
        let two = nodes(2, 8);
        let words = |ranks: &[u32]| two.describe(ranks).1;
        assert_eq!(words(&(0..16).collect::<Vec<_>>()), "all 16 ranks");
        assert_eq!(words(&[0, 6, 8, 14]), "local ranks 0, 6 of every node (4 ranks)");
        assert_eq!(words(&(8..16).collect::<Vec<_>>()), "host node1 (8 ranks)");
        assert_eq!(words(&[3]), "rank 3");
        assert_eq!(words(&[3, 4, 5]), "ranks 3-5 (3 of 16)");
        assert_eq!(nodes(1, 1).describe(&[0]).1, "rank 0");
        let column = |ranks: &[u32]| two.in_column(ranks);
        assert_eq!(column(&(0..16).collect::<Vec<_>>()), "all 16");
        assert_eq!(
            (column(&[0, 6, 8, 14]), column(&[3, 4, 5])),
            ("local 0, 6 (4)".to_string(), "3-5".to_string())
        );
        assert_eq!(nodes(1, 1).in_column(&[0]), "0");
    }
}
