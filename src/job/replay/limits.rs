//! How long the job would take without its network, and without its hosts: the steps of the efficiency by
//! replay.

use crate::replay::{Assumed, NodeTimes, Replay};
use crate::{Job, TimeUse};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::window::Scope;
use std::collections::BTreeMap;

/// Times of the job in a replay, from its start to its last end, ns. Each is at least the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayLimits {
    /// As measured.
    pub replayed: Ns,
    /// Every transfer takes no time.
    pub instant_network: Ns,
    /// In addition hosts and copies take no time, and all ranks start together.
    pub instant_hosts: Ns,
}

impl ReplayLimits {
    /// The same, when no device can be faster than its own compute.
    pub fn at_least(self, compute: Ns) -> Self {
        let instant_hosts = self.instant_hosts.max(compute);
        let instant_network = self.instant_network.max(instant_hosts);
        Self { replayed: self.replayed.max(instant_network), instant_network, instant_hosts }
    }
}

impl Replay {
    /// The limits of the whole job and those of its steps. `None` if a rank has no device, because there is
    /// no host beside its work.
    pub(crate) fn limits(&self, job: &Job) -> Option<(ReplayLimits, Vec<ReplayLimits>)> {
        if self.nodes.iter().any(|n| n.host.is_none()) {
            return None;
        }
        let kernels = |i: usize| -> Ns {
            let of_kernels = self.local_uses(job, i).filter(|e| e.what == TimeUse::Kernel);
            of_kernels.map(|e| e.time).sum()
        };
        let compute: Vec<Ns> = (0..self.nodes.len()).map(|i| kernels(i).min(self.local(i))).collect();
        let measured = |i: usize| self.times_of(i);
        let only_compute =
            |i: usize| NodeTimes { local: compute[i], busy: compute[i], ..NodeTimes::default() };
        let replayed = self.replay(measured, Assumed::default());
        let network = self.replay(measured, Assumed { is_network_instant: true, ..Assumed::default() });
        let nothing = Assumed { is_network_instant: true, without_hosts: true, starts_together: true };
        let ends = self.ends(only_compute, nothing, |_, _| {});
        let hosts = self.times(|i| ends[i]);
        let limits = |(replayed, (instant_network, instant_hosts))| ReplayLimits {
            replayed,
            instant_network,
            instant_hosts,
        };
        let of_steps = replayed.steps().into_iter().zip(network.steps().into_iter().zip(hosts.steps()));
        let all = limits((replayed.total(), (network.total(), hosts.total())));
        Some((all, of_steps.map(limits).collect()))
    }

    /// By the last node of each rank: time from its end until the end of the rank's last step.
    pub(super) fn tails(&self, job: &Job) -> BTreeMap<usize, Ns> {
        let mut last: HashMap<u32, usize> = HashMap::new();
        for i in (0..self.nodes.len()).filter(|i| self.nodes[*i].step.is_some()) {
            let of_part = last.entry(self.part(i)).or_insert(i);
            if self.nodes[*of_part].end < self.nodes[i].end {
                *of_part = i;
            }
        }
        let tail = |(part, i): (u32, usize)| {
            let windows = || job.parts[part as usize].lanes.iter().flat_map(|l| &l.windows);
            let end = |scope: Scope| {
                windows().filter(|w| w.scope == scope).filter_map(|w| Some(w.spans.last()?.end)).max()
            };
            let end = job.aligned(part, end(Scope::DeviceStep).or_else(|| end(Scope::Span))?);
            Some((i, (end - self.nodes[i].end).max(0)))
        };
        last.into_iter().filter_map(tail).collect()
    }
}
