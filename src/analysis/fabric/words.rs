//! Places in words: their names, what is said of slow ones, and what to do.

use crate::fabric::found::Fabric;
use crate::fabric::hosts::FabricHosts;
use crate::fabric::places::{FabricPlace, Seat};
use crate::fabric::verdict::{PlaceVerdict, STEPS_LEAST, SlowPlaces};
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::ranks_named;
use std::collections::{BTreeMap, BTreeSet};

/// The name of a place.
pub(crate) fn place_name(hosts: &FabricHosts, place: FabricPlace) -> String {
    let at = |s: Seat| match hosts.is_known {
        true => format!("host {} on rail {}", hosts.name(s.host), s.rail),
        false => hosts.rank_at(s).map_or_else(String::new, |rank| format!("rank {rank}")),
    };
    match place {
        FabricPlace::Nic(s) if hosts.is_known => format!("NIC of {}", at(s)),
        FabricPlace::Nic(s) => format!("network port of {}", at(s)),
        FabricPlace::Link(a, b) if hosts.is_known && a.host == b.host => {
            let ranks: Vec<u32> = [a, b].iter().filter_map(|s| hosts.rank_at(*s)).collect();
            format!("link between {} on host {}", ranks_named(&ranks), hosts.name(a.host))
        }
        FabricPlace::Link(a, b) if hosts.is_known && a.rail == b.rail => {
            format!("link between hosts {} and {} on rail {}", hosts.name(a.host), hosts.name(b.host), a.rail)
        }
        FabricPlace::Link(a, b) => format!("link between {} and {}", at(a), at(b)),
        FabricPlace::GpuPort(s) => {
            let rank = hosts.rank_at(s).map_or_else(String::new, |rank| format!(" of rank {rank}"));
            format!("GPU port{rank} on host {}", hosts.name(s.host))
        }
        FabricPlace::Nvl(h) => format!("GPU switch of host {}", hosts.name(h)),
        FabricPlace::Host(h) => format!("network of host {}", hosts.name(h)),
        FabricPlace::Rail(r) => format!("rail {r}"),
    }
}

/// What a set of places has of each kind: `its switch, one of 8 NICs or one of 8 links`.
fn members_of(slow: &SlowPlaces) -> String {
    let mut counts: BTreeMap<u8, (usize, &str, &str)> = BTreeMap::new();
    for place in slow.places.iter().filter(|p| Some(**p) != slow.around) {
        let (order, one, many) = match place {
            FabricPlace::Rail(_) => (0, "its switch", "rails"),
            FabricPlace::Nvl(_) => (1, "its GPU switch", "GPU switches"),
            FabricPlace::Host(_) => (2, "one host", "hosts"),
            FabricPlace::Nic(_) => (3, "one NIC", "NICs"),
            FabricPlace::Link(..) => (4, "one link", "links"),
            FabricPlace::GpuPort(_) => (5, "one GPU port", "GPU ports"),
        };
        counts.entry(order).or_insert((0, one, many)).0 += 1;
    }
    let mut words: Vec<String> = Vec::new();
    match slow.around {
        Some(place @ (FabricPlace::Rail(_) | FabricPlace::Nvl(_))) if slow.places.contains(&place) => {
            words.push("its switch".to_string());
        }
        Some(place) if slow.places.contains(&place) => words.push("all of it".to_string()),
        _ => {}
    }
    let of_kind = |(n, one, many): (usize, &str, &str)| match n {
        1 => one.to_string(),
        n => format!("one of {n} {many}"),
    };
    words.extend(counts.into_values().map(of_kind));
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

impl Fabric {
    /// The ranks that a slow place is about; those of its groups where no place is around all of a set.
    pub fn ranks_at(&self, slow: &SlowPlaces) -> Vec<u32> {
        let of_groups = || {
            let groups = slow.groups.iter().filter_map(|g| self.groups.get(*g as usize));
            groups.flat_map(|g| g.ranks.iter().copied()).collect::<BTreeSet<u32>>().into_iter().collect()
        };
        slow.around.map_or_else(of_groups, |place| self.hosts.ranks_of(place))
    }

    fn around(&self, slow: &SlowPlaces) -> String {
        slow.around.map_or_else(
            || format!("the network between {}", plural(slow.places.len(), "place")),
            |place| place_name(&self.hosts, place),
        )
    }

    /// What a cause is about: the same in every run in which it is slow.
    pub(crate) fn key(&self, slow: &SlowPlaces) -> String {
        self.around(slow)
    }

    /// What is slow, in one sentence without a full stop.
    pub fn sentence(&self, slow: &SlowPlaces) -> String {
        let steps = plural(self.transfers.steps.len(), "step");
        let how = format!(
            "{:.2} x slower than peers ({steps}, p {:.0} %)",
            slow.factor,
            (100.0 * slow.p_value).ceil()
        );
        match slow.verdict {
            PlaceVerdict::Named => format!("Network: {} is {how}", self.around(slow)),
            PlaceVerdict::InSet => {
                let all = members_of(slow);
                let carried = match slow.groups.as_slice() {
                    [_] => "one group carries all",
                    _ => "the same groups pass all",
                };
                format!("Network {how}. Cannot tell where: {}, {all} ({carried})", self.around(slow))
            }
            PlaceVerdict::Late => format!(
                "Transfers of {} are {how}: a place is named from {STEPS_LEAST} steps on",
                self.slow_groups(slow)
            ),
        }
    }

    /// The slow groups, as the ranks of the slowest of them.
    fn slow_groups(&self, slow: &SlowPlaces) -> String {
        let mut groups: Vec<_> = slow.groups.iter().filter_map(|g| self.groups.get(*g as usize)).collect();
        groups.sort_by(|a, b| b.factor.unwrap_or(0.0).total_cmp(&a.factor.unwrap_or(0.0)));
        let shown = groups.first().map_or_else(String::new, |g| ranks_named(&g.ranks));
        match groups.len() {
            0 | 1 => format!("the group of {shown}"),
            n => format!("{} (the slowest: {shown})", plural(n, "group")),
        }
    }

    /// What to do.
    pub fn action(&self, slow: &SlowPlaces) -> String {
        let name = self.around(slow);
        match (slow.verdict, slow.around) {
            (PlaceVerdict::Late, _) => format!("record {STEPS_LEAST} steps or more"),
            (PlaceVerdict::InSet, _) => {
                format!("run nccl-tests between pairs of ranks on {name}: they part what one group joins")
            }
            (_, Some(FabricPlace::Nvl(_) | FabricPlace::GpuPort(_))) => {
                format!("look at the NVLink state and errors of the {name} (nvidia-smi nvlink)")
            }
            (_, Some(FabricPlace::Host(_))) => {
                format!("look at PCIe width, NUMA binding and the NICs of the {name}")
            }
            (_, Some(FabricPlace::Rail(_))) => {
                format!("look at the switch of {name}: ports, errors, routing")
            }
            _ => format!("look at link speed, errors and firmware of the {name}"),
        }
    }
}
