//! The expert layers of a rank (mixture of experts): dispatch, expert compute, combine.
//!
//! ```text
//!   dispatch   tokens go to the ranks of their experts     sent, received      sizes of the combine are
//!   expert     the rank computes what it received                              mirrored: what was received
//!   combine    results go back                             received, sent      goes back
//! ```
//!
//! A pair of exchanges is a layer if their sizes are mirrored (or their names say dispatch and combine), if
//! compute lies between them, in one step and direction, and if something says that it is of experts: the
//! group, a name, a kernel, or uneven sizes. Exchanges of equal sizes without a name are not: sequence
//! parallelism and embedding tables use them as well. A fused kernel that dispatches, computes and combines
//! is a layer by itself, whose times are not known.

mod barriers;
mod compute;
mod exchange;
pub mod kernel_ranks;
mod name;
mod sizes;

use crate::collectives::collectives;
use crate::direction::Direction;
use barriers::StreamOrder;
use compute::ExpertCompute;
use exchange::{Exchange, exchanges};
use hta_base::units::Ns;
use hta_trace::collective::RankCalls;
use hta_trace::rank_trace::RankTrace;
use name::LayerRole;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One pass of a rank through an expert layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertLayer {
    /// Indices of the calls of its exchanges.
    pub dispatch: u32,
    pub combine: u32,
    /// Those of the barriers of its library before and behind the dispatch, and the combine.
    pub barriers: [[Option<u32>; 2]; 2],
    pub direction: Direction,
    /// Position among the layers of the same step and direction.
    pub ordinal: u32,
    /// Name of its module or annotation; empty where none is recorded.
    pub name: Arc<str>,
    /// Time of the experts, ns; `None` inside fused kernels.
    pub expert: Option<Ns>,
    pub tokens: LayerTokens,
}

/// What a rank sends and receives in the dispatch of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerTokens {
    /// All that is received, sent, and (of both) stays on the rank, bytes.
    pub received: Option<i64>,
    pub sent: Option<i64>,
    pub own: Option<i64>,
    /// Bytes of a token; `None` where only the number of elements is recorded.
    pub of_token: Option<i64>,
    /// Bytes to each member of the group, and from each; empty if not known of all.
    pub sent_parts: Vec<i64>,
    pub received_parts: Vec<i64>,
}

/// The expert layers of a rank, in order of dispatch.
pub fn expert_layers(trace: &RankTrace) -> Arc<Vec<ExpertLayer>> {
    trace.shared(|trace| {
        let all = exchanges(trace);
        if all.is_empty() {
            return Vec::new();
        }
        let calls = collectives(trace);
        let mut out = layers(&calls, &all, &ExpertCompute::new(trace));
        let order = StreamOrder::new(trace, &calls);
        for l in &mut out {
            l.barriers = [l.dispatch, l.combine].map(|call| order.barriers(call));
        }
        out
    })
}

impl ExpertLayer {
    /// The calls of its dispatch and its combine, each with the barriers around it.
    pub fn exchanges(&self) -> [[Option<u32>; 3]; 2] {
        let [there, back] = self.barriers;
        [[Some(self.dispatch), there[0], there[1]], [Some(self.combine), back[0], back[1]]]
    }

    /// The call in which the rank meets the others once its experts are done.
    pub fn meets(&self) -> u32 {
        self.barriers[1][0].unwrap_or(self.combine)
    }
}

/// Most exchanges of one group, step and direction that wait for the way back. The dispatches of a few layers
/// may be open at once; exchanges that are no layers never have a way back, and a trace may have any number
/// of them.
const MOST_OPEN: usize = 64;

/// What may be one layer's exchanges: of one group, step and direction.
type PairKey = (u32, Option<u32>, Direction);

fn layers(calls: &RankCalls, all: &[Exchange], compute: &ExpertCompute) -> Vec<ExpertLayer> {
    let mut open: BTreeMap<PairKey, Vec<&Exchange>> = BTreeMap::new();
    let mut out: Vec<ExpertLayer> = Vec::new();
    for e in all {
        let Some(call) = calls.calls.get(e.call as usize) else { continue };
        if e.role == Some(LayerRole::Whole) {
            out.push(layer(e, e, None));
            continue;
        }
        let before = open.entry((call.shape.group, call.step, e.direction)).or_default();
        let is_either = e.role == Some(LayerRole::Either);
        let last = before.len().saturating_sub(1);
        let found = (0..before.len()).find_map(|k| {
            // The last before the experts, where each exchange may be a dispatch.
            let i = if is_either { last - k } else { k };
            let d = before.get(i)?;
            let dispatch = calls.calls.get(d.call as usize).filter(|_| is_mirrored(d, e))?;
            let (expert, is_named) = compute.between(dispatch, call);
            let is_of_experts =
                is_named || e.is_of_experts || d.is_of_experts || is_uneven(&d.sizes.received_parts);
            // Where kernels of experts have names, a layer has some, unless its exchanges say which they are:
            // then a router may be named so beside experts that are plain products.
            let are_told = d.role == Some(LayerRole::Dispatch) && e.role == Some(LayerRole::Combine);
            let has_work = expert > 0 && (is_named || are_told || !is_either && !compute.has_named(dispatch));
            let is_fused = d.is_fused || e.is_fused;
            (is_fused || has_work && is_of_experts).then_some((i, (!is_fused).then_some(expert)))
        });
        match found {
            Some((i, expert)) => {
                let dispatch = before.remove(i);
                // What came before in the same group has no combine any more.
                before.drain(..i);
                out.push(layer(dispatch, e, expert));
            }
            None => {
                // The second phase of a dispatch takes the place of the first.
                let is_second = |d: &&Exchange| {
                    d.is_phase && e.is_phase && d.role == e.role && e.role == Some(LayerRole::Dispatch)
                };
                before.pop_if(|d| is_second(d));
                before.push(e);
                before.drain(..before.len().saturating_sub(MOST_OPEN));
            }
        }
    }
    out.sort_by_key(|l| l.dispatch);
    number(calls, &mut out);
    out
}

/// Whether an exchange brings back what another one sent.
fn is_mirrored(dispatch: &Exchange, combine: &Exchange) -> bool {
    let (d, c) = (&dispatch.sizes, &combine.sizes);
    if dispatch.role == Some(LayerRole::Combine) || combine.role == Some(LayerRole::Dispatch) {
        return false;
    }
    let has_parts = |of: &[&Vec<i64>]| of.iter().all(|parts| !parts.is_empty());
    if has_parts(&[&d.sent_parts, &d.received_parts, &c.sent_parts, &c.received_parts]) {
        return d.sent_parts == c.received_parts && d.received_parts == c.sent_parts;
    }
    match (d.sent.zip(d.received), c.received.zip(c.sent)) {
        (Some(there), Some(back)) => there == back,
        _ => dispatch.role.is_some() && combine.role.is_some(),
    }
}

/// Whether parts differ by more than the rest of a division.
fn is_uneven(parts: &[i64]) -> bool {
    let (least, most) = (parts.iter().min(), parts.iter().max());
    least.zip(most).is_some_and(|(least, most)| most - least > most / 50)
}

fn layer(dispatch: &Exchange, combine: &Exchange, expert: Option<Ns>) -> ExpertLayer {
    let s = &dispatch.sizes;
    let bytes = |n: i64| s.width.and_then(|w| n.checked_mul(w));
    let all =
        |parts: &[i64]| parts.iter().map(|n| bytes(*n)).collect::<Option<Vec<i64>>>().unwrap_or_default();
    let name = if dispatch.name.is_empty() { &combine.name } else { &dispatch.name };
    ExpertLayer {
        dispatch: dispatch.call,
        combine: combine.call,
        barriers: [[None; 2]; 2],
        direction: dispatch.direction,
        ordinal: 0,
        name: Arc::clone(name),
        expert,
        tokens: LayerTokens {
            received: s.received.and_then(bytes),
            sent: s.sent.and_then(bytes),
            own: dispatch.own.and_then(bytes),
            of_token: s.of_token.and_then(bytes),
            sent_parts: all(&s.sent_parts),
            received_parts: all(&s.received_parts),
        },
    }
}

/// Numbers the layers of each step and direction.
fn number(calls: &RankCalls, layers: &mut [ExpertLayer]) {
    let mut next: BTreeMap<(Option<u32>, Direction), u32> = BTreeMap::new();
    for l in layers {
        let step = calls.calls.get(l.dispatch as usize).and_then(|c| c.step);
        let number = next.entry((step, l.direction)).or_default();
        l.ordinal = *number;
        *number += 1;
    }
}
