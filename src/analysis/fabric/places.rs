//! Places of the fabric, and through which of them the transfers of a group go.
//!
//! ```text
//!   host 0   gpu 0 - gpu 1 - gpu 2 - gpu 3      inside a host: the NVSwitch (nvl) and ports of GPUs
//!              |       |       |       |
//!             nic     nic     nic     nic       one for each GPU
//!              |       |       |       |
//!            rail 0  rail 1  rail 2  rail 3     the switch of all NICs with this local rank
//! ```
//!
//! A ring passes the hosts of a group one after the other, the members of a host in order of rank. Whether
//! the channels of a library enter a host by one NIC or by those of all members is not recorded, so both are
//! modelled. A tree counts as a ring, because its slowest place decides, too.

use std::collections::{BTreeMap, BTreeSet};

/// Where a rank runs: host (its index), and local rank, which is the rail of its NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seat {
    pub(crate) host: u32,
    pub(crate) rail: u32,
}

/// What can make transfers slow. The order is that in which places are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FabricPlace {
    Nic(Seat),
    /// Between two NICs, or of a message inside a host between two GPUs; the lower one first.
    Link(Seat, Seat),
    GpuPort(Seat),
    /// The switch between the GPUs of a host.
    Nvl(u32),
    /// All NICs of a host: its PCIe switches, processors, memory.
    Host(u32),
    /// The switch of all NICs with this local rank.
    Rail(u32),
}

impl FabricPlace {
    /// As in the tables.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            FabricPlace::Nic(_) => "nic",
            FabricPlace::Link(..) => "link",
            FabricPlace::GpuPort(_) => "gpu port",
            FabricPlace::Nvl(_) => "nvl",
            FabricPlace::Host(_) => "host",
            FabricPlace::Rail(_) => "rail",
        }
    }
}

/// How the members of a group exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Traffic {
    /// Each with the next one; of two members: a message.
    Ring,
    /// Each with all others.
    AllToAll,
}

/// By which NICs a ring with several members on a host enters it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathModel {
    /// Those of its first and last member there.
    Boundary,
    /// Those of all its members there.
    AllNics,
}

/// Adds what an exchange between two NICs passes.
fn add_edge(a: Seat, b: Seat, path: &mut BTreeSet<FabricPlace>) {
    for seat in [a, b] {
        let (nic, host) = (FabricPlace::Nic(seat), FabricPlace::Host(seat.host));
        path.extend([nic, host, FabricPlace::Rail(seat.rail)]);
    }
    path.insert(FabricPlace::Link(a.min(b), a.max(b)));
}

fn add_inside(a: Seat, b: Seat, path: &mut BTreeSet<FabricPlace>) {
    path.extend([FabricPlace::Nvl(a.host), FabricPlace::GpuPort(a), FabricPlace::GpuPort(b)]);
}

/// The places that the transfers of a group pass; its members in order of rank.
pub(crate) fn path(members: &[Seat], traffic: Traffic, model: PathModel) -> BTreeSet<FabricPlace> {
    let mut by_host: Vec<(u32, Vec<Seat>)> = Vec::new();
    let mut index: BTreeMap<u32, usize> = BTreeMap::new();
    for seat in members {
        let at = *index.entry(seat.host).or_insert(by_host.len());
        match by_host.get_mut(at) {
            Some((_, of_host)) => of_host.push(*seat),
            None => by_host.push((seat.host, vec![*seat])),
        }
    }
    let mut path = BTreeSet::new();
    for (_, seats) in &by_host {
        seats.windows(2).for_each(|w| add_inside(w[0], w[1], &mut path));
    }
    if by_host.len() < 2 {
        if let [a, b] = members {
            path.insert(FabricPlace::Link(*a.min(b), *a.max(b)));
        }
        return path;
    }
    if traffic == Traffic::AllToAll {
        for seat in members {
            let (nic, host) = (FabricPlace::Nic(*seat), FabricPlace::Host(seat.host));
            path.extend([nic, host, FabricPlace::Rail(seat.rail)]);
        }
        return path;
    }
    // Between two hosts there is one way, although a ring of them is closed.
    let edges =
        if by_host.len() == 2 && by_host.iter().all(|(_, s)| s.len() == 1) { 1 } else { by_host.len() };
    for i in 0..edges {
        let (Some((_, from)), Some((_, to))) = (by_host.get(i), by_host.get((i + 1) % by_host.len())) else {
            continue;
        };
        match model {
            PathModel::Boundary => {
                if let (Some(a), Some(b)) = (from.last(), to.first()) {
                    add_edge(*a, *b, &mut path);
                }
            }
            PathModel::AllNics => {
                for k in 0..from.len().max(to.len()) {
                    if let (Some(a), Some(b)) = (from.get(k % from.len()), to.get(k % to.len())) {
                        add_edge(*a, *b, &mut path);
                    }
                }
            }
        }
    }
    path
}

/// By place the groups whose transfers pass it, by index, ascending.
pub(crate) fn columns(groups: &[(Vec<Seat>, Traffic)], model: PathModel) -> Vec<(FabricPlace, Vec<u32>)> {
    let mut columns: BTreeMap<FabricPlace, Vec<u32>> = BTreeMap::new();
    for (i, (members, traffic)) in (0u32..).zip(groups) {
        for place in path(members, *traffic, model) {
            columns.entry(place).or_default().push(i);
        }
    }
    columns.into_iter().collect()
}
