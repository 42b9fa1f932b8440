//! What a group could transfer at most: the peak of its links, or else the best of its own steps.

use crate::api::{Options, Partial, rows};
use crate::fabric::excess::quantile;
use crate::fabric::hosts::FabricHosts;
use crate::fabric::links::{LinkPath, LinkRates};
use crate::fabric::transfers::{GroupTransfers, TransferClass};
use crate::settings::{Setting, ValueType};
use hta_base::table;
use hta_base::table::schema::Text;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// One row per rank with a GPU: its product.
    pub(crate) struct FabricDevices, FabricDeviceRow = "fabric_devices" by "rank" {
        rank;
        product: Text, "", "name of the device";
    }
}

pub(crate) const NIC_GBIT: Setting = Setting {
    stem: "fabric",
    flag: "--nic-gbit",
    value: "N",
    help: "Rate of one NIC in one direction, Gbit/s: no trace records it",
    kind: ValueType::Count { default: 0, min: 1 },
};

pub(crate) const LINKS: Setting = Setting {
    stem: "fabric",
    flag: "--links",
    value: "FILE",
    help: "Peak rates of links, in a file like data/links.toml, before the built-in ones",
    kind: ValueType::InputFile,
};

/// Share of the steps of a group that its own best rate is not below.
const OWN_BEST: f64 = 0.9;

/// The best rate that a group can have, GB/s.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupPeak {
    pub(crate) gb_per_s: f64,
    pub(crate) source: String,
}

/// Peaks of the links of a job.
pub(crate) struct FabricPeaks {
    rates: LinkRates,
    /// GB/s of one NIC.
    nic: Option<f64>,
    /// By rank.
    products: BTreeMap<u32, String>,
    /// What is wrong with the user's file.
    pub(crate) problem: Option<String>,
}

impl FabricPeaks {
    pub(crate) fn new(partials: &[Partial], options: &Options) -> Self {
        let settings = &options.settings;
        let gbit = settings.is_given(&NIC_GBIT).then(|| settings.count(&NIC_GBIT));
        let file = settings.file(&LINKS);
        let (rates, problem) = match LinkRates::with(file.map(|(_, text)| text)) {
            Ok(rates) => (rates, None),
            Err(reason) => {
                let path = file.map_or("", |(path, _)| path);
                (LinkRates::with(None).unwrap_or_default(), Some(format!("cannot use {path}: {reason}")))
            }
        };
        let products = rows::<FabricDevices>(partials).map(|r| (r.rank, r.product.to_string())).collect();
        Self { rates, nic: gbit.map(|gbit| gbit as f64 / 8.0), products, problem }
    }

    /// The peak of a group: inside a host that of a GPU's links, across hosts that of the NICs of its members
    /// on one host.
    pub(crate) fn of_group(
        &self,
        hosts: &FabricHosts,
        class: &TransferClass,
        group: &GroupTransfers,
        ranks: &[u32],
    ) -> Option<GroupPeak> {
        let products: BTreeSet<Option<&str>> =
            ranks.iter().map(|r| self.products.get(r).map(String::as_str)).collect();
        let product = products.first().copied().flatten().filter(|_| products.len() == 1);
        let known = match class.spans? {
            false => product
                .and_then(|p| self.rates.of(p, LinkPath::Nvlink))
                .map(|link| GroupPeak { gb_per_s: link.gb_per_s, source: link.name.clone() }),
            true => self.nics(product).map(|(each, name)| {
                let nics = fewest_on_a_host(hosts, ranks);
                let source = if nics > 1 { format!("{nics} x {name}") } else { name };
                GroupPeak { gb_per_s: each * f64::from(nics), source }
            }),
        };
        known.or_else(|| own_best(group, class.members))
    }

    fn nics(&self, product: Option<&str>) -> Option<(f64, String)> {
        let given = self.nic.map(|rate| (rate, NIC_GBIT.flag.to_string()));
        let of_file = || self.rates.of(product?, LinkPath::Nic).map(|l| (l.gb_per_s, l.name.clone()));
        given.or_else(of_file)
    }
}

/// Number of members on the host that has the fewest of a group.
fn fewest_on_a_host(hosts: &FabricHosts, ranks: &[u32]) -> u32 {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for seat in ranks.iter().filter_map(|r| hosts.seat(*r)) {
        *counts.entry(seat.host).or_default() += 1;
    }
    counts.into_values().min().unwrap_or(1)
}

fn own_best(group: &GroupTransfers, members: u32) -> Option<GroupPeak> {
    let mut rates: Vec<f64> = group.steps.iter().flatten().map(|t| group.bus_rate(*t, members)).collect();
    rates.sort_by(f64::total_cmp);
    let best = quantile(&rates, OWN_BEST)?;
    Some(GroupPeak { gb_per_s: best, source: "own 90th percentile".to_string() })
}
