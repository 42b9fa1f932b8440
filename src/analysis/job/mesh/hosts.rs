//! On which host each rank runs, and as which rank of that host.
//!
//! The host's name, if the ranks have several, or one and no device twice. Containers often share one name:
//! then the number of a rank's device tells, if it is `rank mod n` on all ranks and each sees `n` devices.

use crate::job::part::RankSummary;
use std::collections::{BTreeMap, BTreeSet};

/// How the hosts were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSource {
    /// By the names in the files.
    Names,
    /// By the numbers of the devices.
    Devices,
    /// Not at all.
    #[default]
    Unknown,
}

impl HostSource {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            HostSource::Names => "host_name",
            HostSource::Devices => "device_index",
            HostSource::Unknown => "unknown",
        }
    }
}

/// The hosts of a job.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    pub(crate) source: HostSource,
    /// Names, in order of their lowest rank.
    pub(crate) names: Vec<String>,
    /// By rank: host and rank on the host.
    places: BTreeMap<u32, (u32, u32)>,
}

impl Hosts {
    pub(super) fn new(parts: &[RankSummary]) -> Self {
        let of_name: Option<Vec<(u32, &str)>> =
            parts.iter().map(|p| Some((p.rank, p.host.as_deref()?))).collect();
        if let Some(named) = of_name
            && (named.iter().any(|(_, name)| *name != named[0].1) || !repeats_devices(parts))
        {
            return Self::grouped(named.into_iter().map(|(r, n)| (r, n.to_string())), HostSource::Names);
        }
        let Some(size) = devices_of_host(parts) else { return Self::default() };
        let host = |p: &RankSummary| (p.rank, format!("host {}", p.rank / size));
        Self::grouped(parts.iter().map(host), HostSource::Devices)
    }

    fn grouped(ranks: impl Iterator<Item = (u32, String)>, source: HostSource) -> Self {
        let mut hosts = Self { source, ..Self::default() };
        let mut known: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for (rank, name) in ranks {
            let next = hosts.names.len() as u32;
            let (host, ranks) = known.entry(name.clone()).or_insert_with(|| {
                hosts.names.push(name);
                (next, 0)
            });
            hosts.places.insert(rank, (*host, *ranks));
            *ranks += 1;
        }
        hosts
    }

    /// The host of a rank, as its position among the names.
    pub(crate) fn host_of(&self, rank: u32) -> Option<u32> {
        self.places.get(&rank).map(|(host, _)| *host)
    }

    /// Which rank of its host a rank is.
    pub(crate) fn local_rank(&self, rank: u32) -> Option<u32> {
        self.places.get(&rank).map(|(_, local)| *local)
    }

    /// Whether all of these ranks are on one host; `None` if that of one is unknown.
    pub(crate) fn are_together(&self, mut ranks: impl Iterator<Item = u32>) -> Option<bool> {
        let first = self.host_of(ranks.next()?)?;
        let mut together = true;
        for rank in ranks {
            together &= self.host_of(rank)? == first;
        }
        Some(together)
    }
}

/// Whether two ranks use a device of one number.
fn repeats_devices(parts: &[RankSummary]) -> bool {
    let mut seen = BTreeSet::new();
    parts.iter().filter_map(RankSummary::gpu_device).any(|d| !seen.insert(d))
}

/// How many devices, and so ranks, a host has: every rank uses the device `rank mod n`.
fn devices_of_host(parts: &[RankSummary]) -> Option<u32> {
    let size = parts.first()?.device_count.filter(|n| *n > 1)?;
    let fits =
        |p: &RankSummary| p.device_count == Some(size) && p.gpu_device() == Some(i64::from(p.rank % size));
    parts.iter().all(fits).then_some(size)
}
