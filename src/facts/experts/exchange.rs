//! The exchanges of tokens of a rank: all-to-alls and kernels that dispatch and combine, fused ones too, with
//! what the events around them say.

use crate::collectives::collectives;
use crate::direction::{Direction, Directions};
use crate::experts::name::{LayerNames, LayerRole};
use crate::experts::sizes::ExchangeSizes;
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::activity::Activity;
use hta_trace::collective::{CollectiveCall, CollectiveKind, Members};
use hta_trace::rank_trace::RankTrace;
use std::sync::Arc;

/// One rank's part in an exchange of tokens.
pub(super) struct Exchange {
    /// Index of its call.
    pub(super) call: u32,
    pub(super) direction: Direction,
    /// What its name says that it is.
    pub(super) role: Option<LayerRole>,
    /// Whether its kernel may be one of two: low-latency kernels send and receive apart.
    pub(super) is_phase: bool,
    /// Whether it computes for experts, too, so that no time is known.
    pub(super) is_fused: bool,
    /// Name of its layer; empty where none is recorded.
    pub(super) name: Arc<str>,
    /// Whether a name, or its group's description, says that it is of experts.
    pub(super) is_of_experts: bool,
    pub(super) sizes: ExchangeSizes,
    /// The part that stays on the rank, in elements; sent and received are the same.
    pub(super) own: Option<i64>,
}

/// All exchanges, in order of submission.
pub(super) fn exchanges(trace: &RankTrace) -> Vec<Exchange> {
    let calls = collectives(trace);
    let is_exchange =
        |c: &CollectiveCall| matches!(c.shape.kind, CollectiveKind::AllToAll | CollectiveKind::Fused);
    if !calls.calls.iter().any(is_exchange) {
        return Vec::new();
    }
    let describing = DescribingRows::new(trace);
    let directions = Directions::of(trace);
    let rows: Vec<Vec<u32>> =
        calls.calls.iter().filter(|c| is_exchange(c)).map(|c| describing.of(c)).collect();
    let names = LayerNames::new(trace, rows.iter().map(|r| r.get(1).copied()).collect());
    let all = (0u32..).zip(&calls.calls).filter(|(_, c)| is_exchange(c));
    all.zip(rows)
        .enumerate()
        .map(|(i, ((call, c), rows))| {
            let group = calls.groups.get(c.shape.group as usize);
            let members = group.and_then(|g| g.members.as_ref());
            let size = group.and_then(|g| g.size).map(|n| n as usize);
            let sizes = ExchangeSizes::of(trace, &rows, size);
            let place = members.and_then(|m: &Members| m.iter().position(|rank| rank == trace.rank));
            let own = place.and_then(|i| sizes.sent_parts.get(i).or(sizes.received_parts.get(i))).copied();
            let activity = describing.activities.get(&c.event);
            let of_kernel = LayerRole::of_kernel(activity.and_then(|a| a.role), trace.name(c.event));
            let (name, of_name) = names.of(i);
            let words = [group.and_then(|g| g.desc.as_deref()), group.and_then(|g| g.name.as_deref())];
            let is_named = words.into_iter().flatten().any(is_expert_group);
            let of_operator = || rows.get(1).map_or(Direction::Forward, |op| directions.at(*op));
            Exchange {
                call,
                direction: names.direction(i).unwrap_or_else(of_operator),
                is_phase: of_kernel.is_some() && is_low_latency(trace.name(c.event)),
                is_fused: c.shape.kind == CollectiveKind::Fused,
                role: of_kernel.or(of_name),
                is_of_experts: of_kernel.is_some() || is_named || names.says_experts(i),
                name,
                sizes,
                own,
            }
        })
        .filter(|e| !e.is_fused || e.role.is_some())
        .collect()
}

/// Whether a kernel is one of the low-latency exchanges of DeepEP: `internode_ll::dispatch`.
fn is_low_latency(kernel: &str) -> bool {
    kernel.contains("_ll::")
}

/// Whether a group's name or description says that it is one of experts: `EXPERT_MODEL_PARALLEL_GROUP`, `ep`,
/// `mesh_ep`.
fn is_expert_group(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("expert")
        || text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| matches!(word, "ep" | "moe"))
}

/// The rows that describe a call: its own, then those of the operators around its launch or submission,
/// innermost first.
struct DescribingRows<'a> {
    trace: &'a RankTrace,
    /// By row of the kernel.
    activities: HashMap<u32, &'a Activity>,
    /// Rows of operators that submit exchanges on the host, by lane and start.
    submitted: HashMap<(u32, Ns), u32>,
}

impl<'a> DescribingRows<'a> {
    fn new(trace: &'a RankTrace) -> Self {
        let c = &trace.columns;
        let is_operator = c.strings.each(|t| t.starts_with("c10d::alltoall"));
        let ops = (0..c.len() as u32)
            .filter(|r| is_operator.holds(c.name(*r as usize)))
            .map(|r| ((c.lane[r as usize], c.ts[r as usize]), r));
        let calls = collectives(trace);
        let is_call = |a: &&Activity| calls.index_of(a.row).is_some();
        let activities = trace.activities.iter().filter(is_call).map(|a| (a.row, a)).collect();
        Self { trace, activities, submitted: ops.collect() }
    }

    fn of(&self, call: &CollectiveCall) -> Vec<u32> {
        let op = match self.activities.get(&call.event) {
            Some(a) => a.op().or(a.launch()),
            None => call.shape.thread.and_then(|lane| self.submitted.get(&(lane, call.submit))).copied(),
        };
        let around = op.into_iter().flat_map(|op| self.trace.stacks.outward(op));
        std::iter::once(call.event).chain(around).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_experts_are_told_by_words() {
        for text in ["EXPERT_MODEL_PARALLEL_GROUP", "ep", "mesh_ep", "moe"] {
            assert!(is_expert_group(text), "{text}");
        }
        for text in ["default_pg", "dp_rep", "sequence", "step"] {
            assert!(!is_expert_group(text), "{text}");
        }
    }
}
