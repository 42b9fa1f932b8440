//! Transfers by group and step, in classes of what should be equally fast.
//!
//! The transfer of a call is that of the member that arrives last: it waits for nobody. Left out is what says
//! little about the network: short messages, calls that follow the previous one of their group without a
//! pause, kernels with several messages, and groups across hosts whose clocks are not known well enough.

use crate::fabric::hosts::FabricHosts;
use crate::fabric::places::Traffic;
use crate::fabric::wires::TransferLink;
use hta_base::order_statistics::median_of_sorted;
use hta_base::units::Ns;
use hta_job::delay::StepKey;
use hta_job::{Instance, Job, Member, PartStep, is_queued_behind};
use hta_trace::collective::{CollectiveCall, CollectiveKind};
use std::collections::{BTreeMap, BTreeSet};

/// Smallest message that fills the network, bytes.
pub(crate) const BYTES_MIN: i64 = 1 << 20;
/// Largest deviation of the clocks of a group across hosts, as a share of the transfer, percent.
const RESIDUAL_MOST: Ns = 5;

/// What should be equally fast.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransferClass {
    /// What the groups are for.
    pub(crate) purpose: String,
    pub(crate) members: u32,
    /// Whether a group spans hosts, if hosts are known.
    pub(crate) spans: Option<bool>,
    pub(crate) kind: &'static str,
    /// Power of two of the size.
    pub(crate) size: u32,
}

/// The middle transfer of a group in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepTransfer {
    pub(crate) transfer: Ns,
    pub(crate) bytes: i64,
    pub(crate) calls: u32,
}

impl StepTransfer {
    /// Logarithm of the time of a byte, ns.
    pub(crate) fn ln_pace(self) -> f64 {
        (self.transfer as f64 / self.bytes as f64).ln()
    }

    /// What all its calls take longer than at a level, ns.
    pub(crate) fn excess(self, level: f64) -> f64 {
        (self.transfer as f64 - self.bytes as f64 * level.exp()).max(0.0) * f64::from(self.calls)
    }

    /// Bytes of the buffer per ns, which is GB/s.
    pub(crate) fn rate(self) -> f64 {
        self.bytes as f64 / self.transfer as f64
    }
}

/// The transfers of one group in one class.
#[derive(Debug, Clone)]
pub(crate) struct GroupTransfers {
    pub(crate) link: TransferLink,
    pub(crate) kind: CollectiveKind,
    /// By step.
    pub(crate) steps: Vec<Option<StepTransfer>>,
}

impl GroupTransfers {
    /// By step: the logarithm of the time of a byte.
    pub(crate) fn ln_paces(&self) -> Vec<Option<f64>> {
        self.steps.iter().map(|s| Some((*s)?.ln_pace())).collect()
    }

    /// Bus bandwidth of one of its transfers, GB/s.
    pub(crate) fn bus_rate(&self, transfer: StepTransfer, members: u32) -> f64 {
        transfer.rate() * self.kind.bus_factor(members)
    }
}

/// The classes of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct FabricTransfers {
    pub(crate) steps: Vec<StepKey>,
    pub(crate) classes: BTreeMap<TransferClass, Vec<GroupTransfers>>,
}

/// All groups of one class, by link: their transfers by step.
type ByLink = BTreeMap<TransferLink, (CollectiveKind, BTreeMap<StepKey, Vec<(Ns, i64)>>)>;

impl FabricTransfers {
    pub(crate) fn of(job: &Job, hosts: &FabricHosts) -> Self {
        let context = TransferContext::new(job, hosts);
        let mut found: BTreeMap<TransferClass, ByLink> = BTreeMap::new();
        for (id, instance) in (0u32..).zip(job.instances()) {
            let Some((step, transfer, bytes)) = context.transfer(id, instance) else { continue };
            let Some((link, class)) = context.class(instance, bytes) else { continue };
            let of_link = found.entry(class).or_default().entry(link);
            let steps = &mut of_link.or_insert_with(|| (instance.kind, BTreeMap::new())).1;
            steps.entry(step).or_default().push((transfer, bytes));
        }
        let of_steps = found.values().flat_map(BTreeMap::values).flat_map(|(_, steps)| steps.keys());
        let steps: Vec<StepKey> = of_steps.copied().collect::<BTreeSet<_>>().into_iter().collect();
        type OfSteps = BTreeMap<StepKey, Vec<(Ns, i64)>>;
        let of_link = |(link, (kind, mut calls)): (TransferLink, (CollectiveKind, OfSteps))| {
            let steps = steps.iter().map(|step| middle(calls.remove(step)?)).collect();
            GroupTransfers { link, kind, steps }
        };
        let classes =
            found.into_iter().map(|(class, links)| (class, links.into_iter().map(of_link).collect()));
        Self { classes: classes.collect(), steps }
    }
}

/// The middle one of some transfers by the time of a byte; the lower one of two.
fn middle(mut calls: Vec<(Ns, i64)>) -> Option<StepTransfer> {
    calls.sort_by(|a, b| (i128::from(a.0) * i128::from(b.1)).cmp(&(i128::from(b.0) * i128::from(a.1))));
    let (transfer, bytes) = median_of_sorted(&calls)?;
    Some(StepTransfer { transfer, bytes, calls: calls.len() as u32 })
}

/// What is asked of every instance.
pub(crate) struct TransferContext<'a> {
    job: &'a Job,
    /// By link: its class without kind and size; `None` where a rank is not recorded.
    groups: BTreeMap<TransferLink, Option<(String, u32, Option<bool>)>>,
    /// By part and call: whether it says something about its own transfer.
    is_alone: Vec<Vec<bool>>,
}

impl<'a> TransferContext<'a> {
    pub(crate) fn new(job: &'a Job, hosts: &FabricHosts) -> Self {
        let links: BTreeSet<TransferLink> =
            job.instances().iter().map(|i| TransferLink::of(job, i)).collect();
        let group = |link: TransferLink| {
            let ranks = link.all_ranks(job)?;
            Some((link.purpose(job)?, ranks.len() as u32, hosts.spans(&ranks)))
        };
        let groups = links.into_iter().map(|link| (link, group(link))).collect();
        let is_alone = (0..job.parts.len() as u32).map(|part| alone(job, part)).collect();
        Self { job, groups, is_alone }
    }

    /// The group that an instance is of, and its class.
    pub(crate) fn class(&self, i: &Instance, bytes: i64) -> Option<(TransferLink, TransferClass)> {
        let link = TransferLink::of(self.job, i);
        let (purpose, members, spans) = self.groups.get(&link)?.clone()?;
        let kind = if i.kind.is_point_to_point() { CollectiveKind::SendRecv } else { i.kind };
        Some((link, TransferClass { purpose, members, spans, kind: kind.name(), size: bytes.ilog2() }))
    }

    /// Step, transfer and size of an instance that is evidence of the network.
    fn transfer(&self, id: u32, i: &Instance) -> Option<(StepKey, Ns, i64)> {
        let job = self.job;
        let bytes = i.bytes.filter(|b| *b >= BYTES_MIN)?;
        let members = job.members(i);
        if !i.is_complete() || members.len() < 2 || job.matched.is_cut(i) || i.disagrees {
            return None;
        }
        let last = *members.get(job.arrivals(id as usize).last_member as usize)?;
        job.transfer_of(last).filter(|o| o.instance == id)?;
        let is_alone = |m: &Member| self.is_alone.get(m.part as usize)?.get(m.call as usize).copied();
        if !members.iter().all(|m| is_alone(m) == Some(true)) {
            return None;
        }
        let transfer = job.transfer_ns(last).filter(|ns| *ns > 0)?;
        let residual = members.iter().filter_map(|m| Some(job.clocks.get(m.part as usize)?.residual)).max();
        let spans = self.groups.get(&TransferLink::of(job, i))?.as_ref()?.2;
        if spans != Some(false) && residual? * 100 > RESIDUAL_MOST * transfer {
            return None;
        }
        let step = job.parts.get(last.part as usize)?.step_of(job.call(last)).filter(|s| !s.is_partial)?;
        Some((key(step), transfer, bytes))
    }
}

fn key(step: &PartStep) -> StepKey {
    StepKey::new(step.index, step.label)
}

/// By call of a part: whether it is a kernel with one message that does not start behind the previous call of
/// its group, for which its rank was ready before.
fn alone(job: &Job, part: u32) -> Vec<bool> {
    let Some(p) = job.parts.get(part as usize) else { return Vec::new() };
    let calls = &p.calls.calls;
    let mut messages = vec![0u32; calls.len()];
    for e in &p.calls.edges {
        if let Some(count) = messages.get_mut(e.call as usize) {
            *count += 1;
        }
    }
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|i| (calls[*i].span.start, *i));
    let mut last: BTreeMap<(Option<i64>, Option<i64>), usize> = BTreeMap::new();
    let mut out = vec![false; calls.len()];
    for i in order {
        let call: &CollectiveCall = &calls[i];
        let previous = last.insert((call.shape.device, call.shape.stream), i).map(|b| &calls[b]);
        let is_chained = previous.is_some_and(|previous| {
            previous.shape.group == call.shape.group
                && is_queued_behind(previous, call)
                && job.ready(Member { part, call: i as u32 }) < previous.span.end
        });
        out[i] = !call.shape.on_host && messages[i] <= 1 && !is_chained;
    }
    out
}

impl TransferClass {
    /// How members exchange data.
    pub(crate) fn traffic(&self) -> Traffic {
        if self.kind == CollectiveKind::AllToAll.name() { Traffic::AllToAll } else { Traffic::Ring }
    }

    /// Its smallest size, bytes.
    pub(crate) fn size_least(&self) -> i64 {
        1i64.checked_shl(self.size).unwrap_or(i64::MAX)
    }
}
