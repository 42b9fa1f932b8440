//! On which host each rank runs, and as which rank of that host.
//!
//! The host's name, if the ranks have several, or one and no device twice. Containers often share one name:
//! then the number of a rank's device tells, if it is `rank mod n` on all ranks and each sees `n` devices.

use crate::part::RankSummary;
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
    pub source: HostSource,
    /// Names, in order of their lowest rank; none if hosts are unknown.
    pub names: Vec<String>,
    /// By rank: its host, if known, and its place there.
    places: BTreeMap<u32, (Option<u32>, u32)>,
}

impl Hosts {
    pub(super) fn new(parts: &[RankSummary]) -> Self {
        let of_name: Option<Vec<&str>> = parts.iter().map(|p| p.host.as_deref()).collect();
        let named = of_name.filter(|of| of.iter().any(|name| *name != of[0]) || !repeats_devices(parts));
        let (source, names) = match (named, devices_of_host(parts)) {
            (Some(names), _) => (HostSource::Names, names.into_iter().map(str::to_string).collect()),
            (None, Some(size)) => {
                (HostSource::Devices, parts.iter().map(|p| format!("host {}", p.rank / size)).collect())
            }
            (None, None) => (HostSource::Unknown, vec![String::new(); parts.len()]),
        };
        Self::at(source, parts.iter().zip(names).map(|(p, name)| (p.rank, name, p.gpu_device())).collect())
    }

    /// Ranks with the names of their hosts and their devices. A place on a host is the number of the device:
    /// ranks may be missing before it. Where these are no places, as where each process sees only its own
    /// device, it is the order of the ranks.
    pub fn at(source: HostSource, ranks: Vec<(u32, String, Option<i64>)>) -> Self {
        let devices: BTreeSet<(&str, Option<i64>)> =
            ranks.iter().map(|(_, host, device)| (host.as_str(), *device)).collect();
        let numbers: BTreeSet<Option<i64>> = ranks.iter().map(|(.., device)| *device).collect();
        let is_each = source == HostSource::Unknown || devices.len() == ranks.len();
        let is_numbered = numbers.len() > 1 && !numbers.contains(&None) && is_each;
        let mut hosts = Self { source, ..Self::default() };
        let mut known: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for (rank, name, device) in ranks {
            let next = known.len() as u32;
            let (host, order) = known.entry(name).or_insert((next, 0));
            let by_device = device.filter(|_| is_numbered).and_then(|d| u32::try_from(d).ok());
            let is_known = source != HostSource::Unknown;
            hosts.places.insert(rank, (is_known.then_some(*host), by_device.unwrap_or(*order)));
            *order += 1;
        }
        if source != HostSource::Unknown {
            let mut names: Vec<(u32, String)> = known.into_iter().map(|(name, (i, _))| (i, name)).collect();
            names.sort_unstable();
            hosts.names = names.into_iter().map(|(_, name)| name).collect();
        }
        hosts
    }

    /// The host of a rank, as its position among the names.
    pub fn host_of(&self, rank: u32) -> Option<u32> {
        self.places.get(&rank)?.0
    }

    /// The name of the host of a rank.
    pub fn name_of(&self, rank: u32) -> Option<&str> {
        self.names.get(self.host_of(rank)? as usize).map(String::as_str)
    }

    /// Which rank of its host a rank is.
    pub fn local_rank(&self, rank: u32) -> Option<u32> {
        self.places.get(&rank).filter(|(host, _)| host.is_some()).map(|(_, local)| *local)
    }

    /// Host and place of each rank. The place is the device where the host is unknown.
    pub fn places(&self) -> impl Iterator<Item = (u32, Option<&str>, u32)> {
        self.places.iter().map(|(rank, (_, place))| (*rank, self.name_of(*rank), *place))
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
