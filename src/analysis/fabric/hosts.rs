//! Where the ranks of a job run: host, and local rank, which is the rail of its NIC.

use crate::fabric::places::{FabricPlace, Seat};
use hta_job::{Job, RankSummary};
use std::collections::{BTreeMap, BTreeSet};

/// The seats of all ranks.
#[derive(Debug, Clone, Default)]
pub(crate) struct FabricHosts {
    seats: BTreeMap<u32, Seat>,
    ranks: BTreeMap<Seat, u32>,
    /// Names of the hosts, by index.
    names: Vec<String>,
    /// Whether hosts are known. If not, each rank counts as a host of its own: only ports of ranks, and links
    /// between ranks, can be told.
    pub(crate) is_known: bool,
}

impl FabricHosts {
    pub(crate) fn of(job: &Job) -> Self {
        let hosts = &job.mesh.hosts;
        let known = |p: &RankSummary| {
            Some((p.rank, Seat { host: hosts.host_of(p.rank)?, rail: hosts.local_rank(p.rank)? }))
        };
        match job.parts.iter().map(known).collect::<Option<BTreeMap<u32, Seat>>>() {
            Some(seats) => Self::at(seats, hosts.names.clone(), true),
            None => {
                let seat = |(host, p): (u32, &RankSummary)| (p.rank, Seat { host, rail: 0 });
                Self::at((0..).zip(&job.parts).map(seat).collect(), Vec::new(), false)
            }
        }
    }

    fn at(seats: BTreeMap<u32, Seat>, names: Vec<String>, is_known: bool) -> Self {
        Self { ranks: seats.iter().map(|(rank, seat)| (*seat, *rank)).collect(), seats, names, is_known }
    }

    pub(crate) fn seat(&self, rank: u32) -> Option<Seat> {
        self.seats.get(&rank).copied()
    }

    /// The rank at a seat.
    pub(crate) fn rank_at(&self, seat: Seat) -> Option<u32> {
        self.ranks.get(&seat).copied()
    }

    /// The ranks at a place.
    pub(crate) fn ranks_of(&self, place: FabricPlace) -> Vec<u32> {
        let at = |seats: &[Seat]| seats.iter().filter_map(|s| self.rank_at(*s)).collect();
        match place {
            FabricPlace::Nic(s) | FabricPlace::GpuPort(s) => at(&[s]),
            FabricPlace::Link(a, b) => at(&[a, b]),
            FabricPlace::Nvl(host) | FabricPlace::Host(host) => self.ranks_where(|s| s.host == host),
            FabricPlace::Rail(rail) => self.ranks_where(|s| s.rail == rail),
        }
    }

    /// Ranks at some seats, ascending.
    pub(crate) fn ranks_where(&self, is_meant: impl Fn(&Seat) -> bool) -> Vec<u32> {
        self.seats.iter().filter(|(_, seat)| is_meant(seat)).map(|(rank, _)| *rank).collect()
    }

    /// The name of a host; its index where it is not known.
    pub(crate) fn name(&self, host: u32) -> String {
        self.names.get(host as usize).cloned().unwrap_or_else(|| host.to_string())
    }

    /// Whether ranks run on several hosts; `None` if hosts are not known.
    pub(crate) fn spans(&self, ranks: &[u32]) -> Option<bool> {
        let hosts: BTreeSet<u32> = ranks.iter().filter_map(|r| Some(self.seat(*r)?.host)).collect();
        self.is_known.then_some(hosts.len() > 1)
    }
}
