//! What ranks were late by, summed over chains: the chains of a job have an entry for each call, so only
//! their sums are kept.

use hta_base::units::Ns;
use hta_job::Job;
use hta_job::delay::{Chain, StepKey};
use std::collections::BTreeMap;

/// Sums of one part in one step, ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct DelaySums {
    pub(crate) gain: Ns,
    pub excess: Ns,
    pub(crate) local: Ns,
    pub(crate) last: u32,
    pub(crate) count: u32,
    pub(crate) imposed: Ns,
    pub(crate) wait: Ns,
}

pub(crate) type ByPart = BTreeMap<(u32, Option<StepKey>, Option<u32>), DelaySums>;

/// Delay by part, step and group; group `None` stands for all.
pub(crate) fn delay_sums(job: &Job, chains: &[Chain]) -> ByPart {
    let mut out: ByPart = BTreeMap::new();
    for c in chains {
        for (part, d) in of_chain(job, c) {
            out.entry((part, c.step, Some(c.group))).or_default().add(&d);
            out.entry((part, c.step, None)).or_default().add(&DelaySums { gain: c.own_gain(part), ..d });
        }
    }
    out
}

/// A chain's delays by part.
fn of_chain(job: &Job, c: &Chain) -> BTreeMap<u32, DelaySums> {
    let mut out: BTreeMap<u32, DelaySums> =
        c.arrivals.iter().map(|(part, _)| (*part, DelaySums::default())).collect();
    for (part, gain) in &c.gains {
        out.entry(*part).or_default().gain = *gain;
    }
    for late in &c.lates {
        let d = out.entry(late.member.part).or_default();
        (d.excess, d.local) = (late.excess(), late.local);
    }
    for (part, d) in &mut out {
        d.last = c.lasts.get(part).copied().unwrap_or(0);
        d.imposed = c.imposed.get(part).copied().unwrap_or(0);
    }
    for i in c.instances.iter().filter_map(|id| job.instances().get(*id as usize)) {
        for m in job.members(i) {
            let Some(d) = out.get_mut(&m.part) else { continue };
            d.count += 1;
            d.wait += job.outcome(*m).map_or(0, |o| o.wait);
        }
    }
    out
}

/// By part and step: own gains of the chains in which the part was ready last in some instance, ns.
pub(crate) type OwnGains = BTreeMap<(u32, Option<StepKey>), Ns>;

pub(crate) fn own_gains(chains: &[Chain]) -> OwnGains {
    let mut out = OwnGains::new();
    for c in chains {
        for part in c.gains.keys() {
            *out.entry((*part, c.step)).or_default() += c.own_gain(*part);
        }
    }
    out
}

impl DelaySums {
    pub(super) fn add(&mut self, other: &DelaySums) {
        self.gain += other.gain;
        self.excess += other.excess;
        self.local += other.local;
        self.last += other.last;
        self.count += other.count;
        self.imposed += other.imposed;
        self.wait += other.wait;
    }
}

pub(crate) fn totals(sums: &ByPart) -> BTreeMap<u32, DelaySums> {
    let mut out: BTreeMap<u32, DelaySums> = BTreeMap::new();
    for ((part, _, group), d) in sums {
        if group.is_none() {
            out.entry(*part).or_default().add(d);
        }
    }
    out
}
