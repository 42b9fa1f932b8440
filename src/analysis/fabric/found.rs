//! The fabric of a job: what its groups transfer, which places that shows, and which of them are slow.

use crate::fabric::excess;
use crate::fabric::hosts::FabricHosts;
use crate::fabric::places::{FabricPlace, PathModel, Seat, Traffic, columns};
use crate::fabric::rule::FabricEvidence;
use crate::fabric::transfers::{FabricTransfers, GroupTransfers, TransferClass};
use crate::fabric::verdict::{FabricColumns, SlowPlaces, judge};
use crate::fabric::wires::TransferLink;
use hta_base::units::Ns;
use hta_job::Job;
use std::collections::{BTreeMap, BTreeSet};

/// A group with its transfers compared with those of others.
#[derive(Debug, Clone)]
pub(crate) struct ComparedGroup {
    pub(crate) link: TransferLink,
    /// Ascending.
    pub(crate) ranks: Vec<u32>,
    pub(crate) traffic: Traffic,
    /// How many times slower than groups like it: mean over its classes and steps; `None` without any.
    pub(crate) factor: Option<f64>,
}

/// How one class compares.
#[derive(Debug, Clone)]
pub(crate) struct ComparedClass {
    /// By group of the class and step.
    pub(crate) z: Vec<Vec<Option<f64>>>,
    /// By step: the logarithm of the time of a byte of what is not slow.
    pub(crate) level: Vec<Option<f64>>,
}

/// The fabric of a job.
#[derive(Debug, Clone, Default)]
pub struct Fabric {
    pub(crate) hosts: FabricHosts,
    pub(crate) transfers: FabricTransfers,
    pub(crate) compared: BTreeMap<TransferClass, ComparedClass>,
    /// In order of link.
    pub(crate) groups: Vec<ComparedGroup>,
    pub(crate) boundary: FabricColumns,
    /// The most evident first.
    pub(crate) slow: Vec<SlowPlaces>,
}

impl Fabric {
    pub fn of(job: &Job) -> Self {
        let hosts = FabricHosts::of(job);
        let transfers = FabricTransfers::of(job, &hosts);
        let mut compared: BTreeMap<TransferClass, ComparedClass> = BTreeMap::new();
        for (class, groups) in &transfers.classes {
            let paces: Vec<Vec<Option<f64>>> = groups.iter().map(GroupTransfers::ln_paces).collect();
            let (z, level) = excess::of_class(&paces);
            compared.insert(class.clone(), ComparedClass { z, level });
        }
        let (groups, evidence) = gathered(job, &transfers, &compared);
        let seats: Vec<(Vec<Seat>, Traffic)> = groups.iter().map(|g| (seats(&hosts, g), g.traffic)).collect();
        let of_model = |model| {
            let mut all = columns(&seats, model);
            // Without hosts a rank stands for all that is near it.
            all.retain(|(p, _)| hosts.is_known || matches!(p, FabricPlace::Nic(_) | FabricPlace::Link(..)));
            FabricColumns::new(all, &evidence)
        };
        let boundary = of_model(PathModel::Boundary);
        let all_nics = seats.iter().any(|(s, _)| has_choice(s)).then(|| of_model(PathModel::AllNics));
        let slow = judge(&evidence, &boundary, all_nics.as_ref());
        let mut out = Self { hosts, transfers, compared, groups, boundary, slow };
        out.join_few(job);
        out
    }
}

impl Fabric {
    /// How many times slower some groups are than those like them, together.
    pub(crate) fn factor_of(&self, groups: &[u32]) -> Option<f64> {
        let factors = groups.iter().filter_map(|g| self.groups.get(*g as usize)?.factor);
        excess::mean(factors.map(f64::ln)).map(f64::exp)
    }

    /// The groups that a place makes slow.
    pub(crate) fn links_of<'a>(&'a self, slow: &'a SlowPlaces) -> impl Iterator<Item = TransferLink> + 'a {
        let compared = slow.groups.iter().filter_map(|g| Some(self.groups.get(*g as usize)?.link));
        compared.chain(slow.few.iter().copied())
    }

    /// What the slowest of some slow groups takes longer in a step than the level of its classes, ns.
    pub fn excess_per_step(&self, slow: &SlowPlaces) -> Ns {
        let links: BTreeSet<TransferLink> = self.links_of(slow).collect();
        let mut sums: BTreeMap<TransferLink, f64> = BTreeMap::new();
        for (class, groups) in &self.transfers.classes {
            let Some(level) = self.compared.get(class).map(|c| &c.level) else { continue };
            for group in groups.iter().filter(|g| links.contains(&g.link)) {
                let calls = group.steps.iter().zip(level).filter_map(|(t, level)| Some(((*t)?, (*level)?)));
                *sums.entry(group.link).or_default() += calls.map(|(t, level)| t.excess(level)).sum::<f64>();
            }
        }
        let most = sums.into_values().fold(0.0, f64::max);
        (most / self.transfers.steps.len().max(1) as f64) as Ns
    }
}

fn seats(hosts: &FabricHosts, group: &ComparedGroup) -> Vec<Seat> {
    group.ranks.iter().filter_map(|r| hosts.seat(*r)).collect()
}

/// Whether a ring may enter a host by one NIC or by several.
fn has_choice(seats: &[Seat]) -> bool {
    let hosts: BTreeSet<u32> = seats.iter().map(|s| s.host).collect();
    hosts.len() > 1 && hosts.len() < seats.len()
}

/// The groups, each with the mean of its classes by step. Groups are alike if they are
/// for one purpose, of one size, and all inside hosts or all across them.
fn gathered(
    job: &Job,
    transfers: &FabricTransfers,
    compared: &BTreeMap<TransferClass, ComparedClass>,
) -> (Vec<ComparedGroup>, FabricEvidence) {
    type Alike<'a> = (&'a str, u32, Option<bool>, Traffic);
    let mut families: BTreeMap<Alike, u32> = BTreeMap::new();
    // By step: the sum of z over classes, and their number.
    type OfSteps = (Traffic, Vec<(f64, u32)>);
    let mut sums: BTreeMap<(TransferLink, u32), OfSteps> = BTreeMap::new();
    for (class, groups) in &transfers.classes {
        let Some(of_class) = compared.get(class) else { continue };
        let next = families.len() as u32;
        let traffic = class.traffic();
        let family = *families.entry((&class.purpose, class.members, class.spans, traffic)).or_insert(next);
        for (group, z) in groups.iter().zip(&of_class.z) {
            let empty = || (traffic, vec![(0.0, 0); transfers.steps.len()]);
            let sum = &mut sums.entry((group.link, family)).or_insert_with(empty).1;
            for (sum, z) in sum.iter_mut().zip(z) {
                *sum = z.map_or(*sum, |z| (sum.0 + z, sum.1 + 1));
            }
        }
    }
    let (mut groups, mut evidence) = (Vec::new(), FabricEvidence::default());
    for ((link, family), (traffic, sums)) in sums {
        let z: Vec<Option<f64>> =
            sums.into_iter().map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect();
        let factor = excess::mean(z.iter().flatten().copied()).map(f64::exp);
        groups.push(ComparedGroup { link, ranks: link.ranks(job), traffic, factor });
        evidence.z.push(z);
        evidence.class.push(family);
    }
    (groups, evidence)
}
