//! For what a family of groups is used, from the kinds and directions of its calls. Where it has no
//! description, this suggests a dimension, which is never sure.
//!
//! ```text
//!   only sends and receives, to the next ranks and back         pp
//!   only sends and receives, around a ring in one direction     cp
//!   mostly all-to-all                                           ep
//!   4 and more sums or gathers a step outside of the backward
//!   pass, on one host                                           tp
//!   gathers outside, scatters or gathers inside of it           dp_shard
//!   only inside of it                                           dp
//! ```

use crate::job::families::GroupFamily;
use crate::job::mesh::hosts::Hosts;
use crate::job::part::RankSummary;
use hta_trace::collective::{CollectiveKind, Message};
use std::collections::{BTreeMap, BTreeSet};

/// Fewest calls a step, outside of the backward pass, of a tensor-parallel group.
const FEWEST_OF_TENSORS: u64 = 4;

/// To which ranks each rank sends.
#[derive(Debug, Default)]
pub(super) struct Neighbours(BTreeMap<u32, BTreeSet<u32>>);

impl Neighbours {
    pub(super) fn add(&mut self, message: &Message) {
        self.0.entry(message.src).or_default().insert(message.dst);
    }

    /// Whether each rank sends to at most two others, and they send back.
    fn are_mutual(&self) -> bool {
        let sends_back = |a: &u32, b: &u32| self.0.get(b).is_some_and(|to| to.contains(a));
        self.0.iter().all(|(a, to)| to.len() <= 2 && to.iter().all(|b| sends_back(a, b)))
    }

    /// Whether at least three ranks send to the next and back, but the last not to the first.
    pub(super) fn are_line(&self) -> bool {
        let ends = self.0.values().filter(|to| to.len() == 1).count();
        self.are_mutual() && self.0.len() > 2 && ends == 2
    }

    /// Whether each rank sends to one other, which does not send back.
    fn are_one_way(&self) -> bool {
        !self.are_mutual() && self.0.values().all(|to| to.len() == 1)
    }
}

/// The calls of a family's groups, over all ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub(crate) calls: u64,
    /// Submitted by threads that run the backward pass.
    pub(crate) backward: u64,
    /// Bytes of the largest call.
    pub(crate) largest_bytes: Option<i64>,
    /// The dimension that this suggests.
    pub(crate) dimension: Option<&'static str>,
}

/// What is counted of one family.
#[derive(Default)]
struct FamilyUse {
    usage: Usage,
    messages: u64,
    neighbours: Neighbours,
    exchanges: u64,
    /// Gathers outside of the backward pass.
    gathers: u64,
    /// Sums, gathers and scatters outside of the backward pass.
    outside: u64,
    /// The same inside.
    inside: u64,
}

/// The use of each family.
pub(super) fn usages(parts: &[RankSummary], families: &[GroupFamily], hosts: &Hosts) -> Vec<Usage> {
    let mut counted: Vec<FamilyUse> = Vec::new();
    counted.resize_with(families.len(), FamilyUse::default);
    for (part, p) in parts.iter().enumerate() {
        // By local group, its family.
        let mut of_local: Vec<Option<usize>> = vec![None; p.calls.groups.len()];
        for (f, family) in families.iter().enumerate() {
            let Some(own) = family.own(parts, part).map(|(_, members)| members) else { continue };
            for (local, group) in p.calls.groups.iter().enumerate() {
                if group.members.as_ref() == Some(own) && family.describes(group) {
                    of_local[local] = Some(f);
                }
            }
        }
        for c in &p.calls.calls {
            if let Some(f) = of_local.get(c.shape.group as usize).copied().flatten() {
                let is_backward = c.shape.thread.is_some_and(|lane| p.backward_lanes.contains(&lane));
                counted[f].add(c.shape.kind, c.shape.bytes, is_backward);
            }
        }
        for m in &p.calls.edges {
            let group = p.calls.calls.get(m.call as usize).map(|c| c.shape.group);
            if let Some(f) = group.and_then(|group| of_local.get(group as usize).copied().flatten()) {
                counted[f].neighbours.add(m);
            }
        }
    }
    let steps = parts.iter().map(|p| p.steps.len() as u64).sum::<u64>().max(1);
    let together =
        |family: &GroupFamily| family.groups.iter().all(|m| hosts.are_together(m.iter()) != Some(false));
    counted.iter().zip(families).map(|(c, f)| c.usage(steps, || together(f))).collect()
}

impl FamilyUse {
    fn add(&mut self, kind: CollectiveKind, bytes: Option<i64>, is_backward: bool) {
        self.usage.calls += 1;
        self.usage.backward += u64::from(is_backward);
        self.usage.largest_bytes = self.usage.largest_bytes.max(bytes);
        match kind {
            _ if kind.is_point_to_point() => self.messages += 1,
            CollectiveKind::AllToAll => self.exchanges += 1,
            CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
                self.gathers += u64::from(kind == CollectiveKind::AllGather && !is_backward);
                self.outside += u64::from(!is_backward);
                self.inside += u64::from(is_backward);
            }
            _ => {}
        }
    }

    fn usage(&self, steps: u64, together: impl Fn() -> bool) -> Usage {
        let collectives = self.exchanges + self.outside + self.inside;
        let dimension = match () {
            () if self.messages > 0 && collectives == 0 && self.neighbours.are_one_way() => Some("cp"),
            () if self.messages > 0 && collectives == 0 => {
                Some("pp").filter(|_| self.neighbours.are_mutual())
            }
            () if self.exchanges * 2 > collectives => Some("ep"),
            () if self.outside >= FEWEST_OF_TENSORS * steps && together() => Some("tp"),
            () if self.inside > 0 && self.gathers > 0 => Some("dp_shard"),
            () if self.inside > 0 => Some("dp"),
            () => None,
        };
        Usage { dimension, ..self.usage }
    }
}
