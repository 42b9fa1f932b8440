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

use crate::families::GroupFamily;
use crate::groups::Group;
use crate::matching::Matched;
use crate::mesh::hosts::Hosts;
use crate::part::RankSummary;
use hta_trace::collective::{CollectiveKind, Message};
use std::collections::{BTreeMap, BTreeSet};

/// Fewest calls a step, outside of the backward pass, of a tensor-parallel group.
const FEWEST_OF_TENSORS: u64 = 4;

/// To which ranks each rank sends.
#[derive(Debug, Default)]
struct Neighbours(BTreeMap<u32, BTreeSet<u32>>);

impl Neighbours {
    fn add(&mut self, message: &Message) {
        self.0.entry(message.src).or_default().insert(message.dst);
    }

    /// Whether each rank sends to at most two others, and they send back.
    fn are_mutual(&self) -> bool {
        let sends_back = |a: &u32, b: &u32| self.0.get(b).is_some_and(|to| to.contains(a));
        self.0.iter().all(|(a, to)| to.len() <= 2 && to.iter().all(|b| sends_back(a, b)))
    }

    /// Whether at least three ranks send to the next and back, but the last not to the first.
    fn are_line(&self) -> bool {
        let ends = self.0.values().filter(|to| to.len() == 1).count();
        self.are_mutual() && self.0.len() > 2 && ends == 2
    }

    /// Whether each rank sends to one other, if to any, which does not send back.
    fn are_one_way(&self) -> bool {
        !self.are_mutual() && self.0.values().all(|to| to.len() == 1)
    }

    /// Whether all that are sent to send on.
    fn are_ring(&self) -> bool {
        self.are_one_way() && self.0.values().flatten().all(|to| self.0.contains_key(to))
    }
}

/// The calls of a family's groups, over all ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub calls: u64,
    /// Submitted by threads that run the backward pass.
    pub backward: u64,
    /// Bytes of the largest call.
    pub largest_bytes: Option<i64>,
    /// The dimension that this suggests.
    pub dimension: Option<&'static str>,
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

/// By part and local group, its family.
pub(super) type LocalFamilies = Vec<Vec<Option<usize>>>;

pub(super) fn local_families(parts: &[RankSummary], families: &[GroupFamily]) -> LocalFamilies {
    let mut of_local: LocalFamilies = parts.iter().map(|p| vec![None; p.calls.groups.len()]).collect();
    for (f, family) in families.iter().enumerate() {
        for (of_part, locals) in of_local.iter_mut().zip(&family.of_part) {
            for local in locals {
                if let Some(of) = of_part.get_mut(*local as usize) {
                    *of = Some(f);
                }
            }
        }
    }
    of_local
}

/// The use of each family.
pub(super) fn usages(
    parts: &[RankSummary],
    families: &[GroupFamily],
    of_local: &LocalFamilies,
    hosts: &Hosts,
) -> Vec<Usage> {
    let family_of = |part: usize, local: u32| *of_local.get(part)?.get(local as usize)?;
    let counted = counted(parts, families.len(), family_of);
    let together =
        |family: &GroupFamily| family.groups.iter().all(|m| hosts.are_together(m.iter()) != Some(false));
    counted.iter().zip(families).map(|(c, f)| c.usage(steps(parts), || together(f))).collect()
}

/// The use of a group of the job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupUse {
    pub usage: Usage,
    /// The dimensions that its calls suggest; there may be several: `ep and dp`.
    pub dimensions: Vec<&'static str>,
}

/// The use of each group of the job.
pub fn group_uses(parts: &[RankSummary], matched: &Matched, hosts: &Hosts) -> Vec<GroupUse> {
    let counted = counted_by_group(parts, matched);
    let together = |g: &Group| {
        g.members.as_ref().is_none_or(|members| hosts.are_together(members.iter()) != Some(false))
    };
    let of_group = |(c, g): (&FamilyUse, &Group)| GroupUse {
        usage: c.usage(steps(parts), || together(g)),
        dimensions: c.dimensions(steps(parts), &|| together(g)),
    };
    counted.iter().zip(&matched.groups).map(of_group).collect()
}

/// By group of the job, whether its ranks do nothing but send to the next and back.
pub(super) fn lines(parts: &[RankSummary], matched: &Matched) -> Vec<bool> {
    let is_line = |c: &FamilyUse| c.messages == c.usage.calls && c.neighbours.are_line();
    counted_by_group(parts, matched).iter().map(is_line).collect()
}

fn counted_by_group(parts: &[RankSummary], matched: &Matched) -> Vec<FamilyUse> {
    let group_of = |part: usize, local: u32| matched.group_of(part as u32, local).map(|g| g as usize);
    counted(parts, matched.groups.len(), group_of)
}

/// Steps of all ranks.
fn steps(parts: &[RankSummary]) -> u64 {
    parts.iter().map(|p| p.steps.len() as u64).sum::<u64>().max(1)
}

/// Counts the calls of all ranks by what `index` makes of a part and its local group.
fn counted(
    parts: &[RankSummary],
    count: usize,
    index: impl Fn(usize, u32) -> Option<usize>,
) -> Vec<FamilyUse> {
    let mut counted: Vec<FamilyUse> = Vec::new();
    counted.resize_with(count, FamilyUse::default);
    for (part, p) in parts.iter().enumerate() {
        for c in &p.calls.calls {
            if let Some(of) = index(part, c.shape.group).and_then(|i| counted.get_mut(i)) {
                let is_backward = c.shape.thread.is_some_and(|lane| p.backward_lanes.contains(&lane));
                of.add(c.shape.kind, c.shape.bytes, is_backward);
            }
        }
        for m in &p.calls.edges {
            let group = p.calls.calls.get(m.call as usize).map(|c| c.shape.group);
            if let Some(of) = group.and_then(|g| index(part, g)).and_then(|i| counted.get_mut(i)) {
                of.neighbours.add(m);
            }
        }
    }
    counted
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

    /// The dimension of one use.
    fn usage(&self, steps: u64, together: impl Fn() -> bool) -> Usage {
        let collectives = self.exchanges + self.outside + self.inside;
        let dimension = match () {
            () if self.messages > 0 && collectives == 0 => self.of_messages(),
            () if self.exchanges * 2 > collectives => Some("ep"),
            () => self.of_sums(steps, &together),
        };
        Usage { dimension, ..self.usage }
    }

    /// The dimensions of all uses.
    fn dimensions(&self, steps: u64, together: &dyn Fn() -> bool) -> Vec<&'static str> {
        let exchanges = Some("ep").filter(|_| self.exchanges > 0);
        let all = [self.of_messages(), exchanges, self.of_sums(steps, together)];
        all.into_iter().flatten().collect()
    }

    fn of_messages(&self) -> Option<&'static str> {
        match () {
            () if self.messages == 0 => None,
            () if self.neighbours.are_ring() => Some("cp"),
            // Without a backward pass, results are only handed on.
            () => Some("pp").filter(|_| self.neighbours.are_mutual() || self.neighbours.are_one_way()),
        }
    }

    fn of_sums(&self, steps: u64, together: &dyn Fn() -> bool) -> Option<&'static str> {
        match () {
            () if self.outside >= FEWEST_OF_TENSORS * steps && together() => Some("tp"),
            () if self.inside > 0 && self.gathers > 0 => Some("dp_shard"),
            () if self.inside > 0 => Some("dp"),
            () => None,
        }
    }
}
