//! The groups of messages that record only the position of the other rank (gloo).
//!
//! `c10d::send` and `c10d::recv_` say "to position 1" without naming the group. The group is the one family
//! of the recorded groups that explains all such messages of all ranks: every rank has a group in it that
//! has this position, nobody sends to itself, and as many messages are received as were sent.
//!
//! ```text
//!   rank 1 sends to position 0    mesh_pp [0, 1]    rank 0, which receives as many from position 1
//!                                 default [0-3]     rank 0, but rank 2 would send to it, too: counts differ
//!                                 mesh_dp [1, 3]    itself: impossible
//! ```

use crate::families::{GroupFamily, families, listed};
use crate::part::RankSummary;
use hta_trace::collective::{CallShape, CallShapes, CollectiveKind, Message};
use std::collections::BTreeMap;

/// The messages of all parts under one reading, by part: call, its group among the rank's, and the message.
type Readings = Vec<Vec<(u32, Message)>>;

/// Names group, sender and receiver of the messages that record only a position, where one family explains
/// them.
pub(crate) fn name_peers(parts: &mut [RankSummary]) {
    let has_peer = |p: &RankSummary| p.calls.calls.iter().any(|c| c.shape.peer.is_some());
    if !parts.iter().any(has_peer) {
        return;
    }
    let known = families(&listed(parts));
    let possible: Vec<(bool, Readings)> = known.iter().filter_map(|f| read(parts, f)).collect();
    let balanced = || possible.iter().filter(|(is_balanced, _)| *is_balanced);
    let mut candidates: Vec<&Readings> = balanced().map(|(_, readings)| readings).collect();
    if candidates.is_empty() {
        candidates = possible.iter().map(|(_, readings)| readings).collect();
    }
    // Twins, and the default group of a job that is one pipeline, read every message alike.
    let Some((first, others)) = candidates.split_first() else { return };
    let ends =
        |r: &Readings| -> Vec<(u32, u32)> { r.iter().flatten().map(|(_, m)| (m.src, m.dst)).collect() };
    let read_by_first = ends(first);
    if others.iter().any(|other| ends(other) != read_by_first) {
        return;
    }
    let chosen = (*first).clone();
    for (part, readings) in parts.iter_mut().zip(chosen) {
        apply(part, readings);
    }
}

/// What a family makes of the messages, and whether as many are received as sent between all recorded ranks;
/// `None` if a message is impossible in it.
fn read(parts: &[RankSummary], family: &GroupFamily) -> Option<(bool, Readings)> {
    let mut readings = Readings::with_capacity(parts.len());
    // Maps (sender, receiver) to messages sent less messages received.
    let mut balance: BTreeMap<(u32, u32), i64> = BTreeMap::new();
    for (part, p) in parts.iter().enumerate() {
        let mut of_part = Vec::new();
        for (call, c) in (0u32..).zip(&p.calls.calls) {
            let Some(position) = c.shape.peer else { continue };
            let (local, members) = family.own(parts, part)?;
            let other = members.get(position as usize).filter(|other| *other != p.rank)?;
            let is_sent = c.shape.kind == CollectiveKind::Send;
            let (src, dst) = if is_sent { (p.rank, other) } else { (other, p.rank) };
            *balance.entry((src, dst)).or_default() += if is_sent { 1 } else { -1 };
            of_part.push((local, Message { call, src, dst, bytes: c.shape.bytes }));
        }
        readings.push(of_part);
    }
    let is_recorded = |rank: u32| parts.binary_search_by_key(&rank, |p| p.rank).is_ok();
    let is_balanced =
        balance.iter().all(|((src, dst), n)| *n == 0 || !is_recorded(*src) || !is_recorded(*dst));
    Some((is_balanced, readings))
}

fn apply(part: &mut RankSummary, readings: Vec<(u32, Message)>) {
    let mut shapes = CallShapes::default();
    for (group, message) in readings {
        if let Some(call) = part.calls.calls.get_mut(message.call as usize) {
            call.shape = shapes.shared(CallShape { group, ..(*call.shape).clone() });
            part.calls.edges.push(message);
        }
    }
    part.calls.edges.sort_by_key(|m| m.call);
}
