//! Calls of which only the kernels are recorded, as nvprof does: neither groups nor numbers nor peers.
//!
//! The ranks of a program run the same collectives in the same order. Where all ranks have as many calls, of
//! the same kinds and types in the same order, and the k-th of all end together under one offset between two
//! clocks, the k-th calls are one collective of all ranks:
//!
//! ```text
//!   rank 0   [all_reduce....]   [send_recv.....]  [all_reduce]
//!   rank 1              [all_reduce]       [send_recv]  [all_reduce]       the same offset of all ends
//! ```
//!
//! A kernel that sends and receives is then an exchange of all ranks. Otherwise `infer` decides.

use crate::groups::{Group, PartGroup};
use crate::matching::Use;
use crate::part::RankSummary;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use hta_trace::collective::{CollectiveCall, Members};
use std::collections::BTreeMap;

/// Fewest ends that prove an offset.
const FEWEST: usize = 8;

/// Ends of one collective agree within this, ns.
const TOGETHER: u64 = 500_000;

/// Times of two clocks may disagree by this much besides their offset, ns.
const SLACK: Ns = 20_000;

/// Share of the collectives that must end together and be possible, percent.
const AGREE_PCT: usize = 90;

/// A group of all ranks of a program whose k-th calls are one collective.
pub(super) struct InTurn {
    pub(super) group: Group,
    pub(super) uses: Vec<Use>,
}

/// Takes from the groups of parts without members those that are one group.
pub(super) fn in_turn(parts: &[RankSummary], unknown: &mut Vec<PartGroup>) -> Vec<InTurn> {
    let mut programs: BTreeMap<u32, Vec<PartGroup>> = BTreeMap::new();
    for id in unknown.iter().filter(|id| !id.summary(parts).is_left_out) {
        programs.entry(id.summary(parts).program()).or_default().push(*id);
    }
    let mut found = Vec::new();
    for (program, ids) in programs {
        let of_program = || parts.iter().filter(|p| p.program() == program && !p.is_left_out);
        let size = of_program().filter_map(RankSummary::program_size).max();
        let wanted = size.map_or_else(|| of_program().count(), |size| size as usize);
        let is_bare = |id: &PartGroup| is_bare(id.summary(parts), id.local);
        if ids.len() != wanted || of_program().count() != wanted || !ids.iter().all(is_bare) {
            continue;
        }
        let all = |part: u32| (0..parts[part as usize].calls.calls.len() as u32).collect();
        let uses: Vec<Use> = ids.iter().map(|id| Use { part: id.part, calls: all(id.part) }).collect();
        let Some((first, rest)) = uses.split_first().filter(|(_, rest)| !rest.is_empty()) else { continue };
        if !rest.iter().all(|u| is_one(parts, first, u)) {
            continue;
        }
        unknown.retain(|id| !ids.contains(id));
        let group = Group {
            name: None,
            desc: None,
            members: Some(Members::listed(ids.iter().map(|id| id.summary(parts).rank).collect())),
            size: Some(wanted as u32),
            is_inferred: true,
            misses_rank: false,
            uses: ids,
        };
        found.push(InTurn { group, uses });
    }
    found
}

/// Whether nothing but kernels of one group is recorded, of which nothing is known.
fn is_bare(part: &RankSummary, group: u32) -> bool {
    let is_kernel = |c: &CollectiveCall| c.shape.group == group && !c.shape.on_host && c.seq.is_none();
    let local = part.calls.groups.get(group as usize);
    !part.lists_groups
        && part.calls.edges.is_empty()
        && local.is_some_and(|g| g.name.is_none() && g.size.is_none() && g.head.is_empty())
        && part.calls.calls.iter().all(is_kernel)
}

/// Whether the k-th calls of two ranks are alike and end together.
fn is_one(parts: &[RankSummary], x: &Use, y: &Use) -> bool {
    let calls = |u: &Use| parts[u.part as usize].calls.calls.iter();
    let what = |u: &Use, c: &CollectiveCall| {
        let dtype = parts[u.part as usize].calls.dtype(c).map(str::to_string);
        (c.shape.kind, c.shape.bytes, dtype)
    };
    let is_alike = |(a, b): (&CollectiveCall, &CollectiveCall)| what(x, a) == what(y, b);
    x.calls.len() == y.calls.len() && calls(x).zip(calls(y)).all(is_alike) && {
        let is_mutual =
            |(a, _): &(&CollectiveCall, _)| !a.shape.kind.is_from_root() && !a.shape.kind.is_to_root();
        end_together(calls(x).zip(calls(y)).filter(is_mutual).map(|(a, b)| (a.span, b.span)).collect())
    }
}

/// Whether the ends of pairs agree under one offset, and nobody leaves before the other one arrives.
fn end_together(pairs: Vec<(Span, Span)>) -> bool {
    let mut ends: Vec<Ns> = pairs.iter().map(|(a, _)| a.end).collect();
    ends.sort_unstable();
    let mut gaps: Vec<Ns> = ends.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    let apart = |(a, b): &(Span, Span)| b.end.saturating_sub(a.end);
    let offset = median(&mut pairs.iter().map(apart).collect::<Vec<_>>());
    let Some((offset, rhythm)) = offset.zip(median(&mut gaps)).filter(|_| pairs.len() >= FEWEST) else {
        return false;
    };
    let mut off: Vec<u64> = pairs.iter().map(|pair| apart(pair).abs_diff(offset)).collect();
    let most = TOGETHER.min(rhythm.max(SLACK).unsigned_abs());
    let together = off.iter().filter(|off| **off <= most).count();
    let is_possible = |(a, b): &&(Span, Span)| {
        let start = b.start.saturating_sub(offset);
        start <= a.end.saturating_add(SLACK) && a.start <= b.end.saturating_sub(offset).saturating_add(SLACK)
    };
    let possible = pairs.iter().filter(is_possible).count();
    together.min(possible) * 100 >= pairs.len() * AGREE_PCT
        && median(&mut off).is_some_and(|off| off * 4 <= rhythm.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    /// Twelve collectives at irregular times. The second rank arrives `late` after the first; its clock is
    /// ahead by `offset`, and further ahead by `more` with each.
    fn pairs(late: Ns, offset: Ns, more: Ns) -> Vec<(Span, Span)> {
        let at = |k: Ns| (k * 10 + k * k % 7) * MS;
        let pair = |k: Ns| {
            let end = at(k) + 8 * MS;
            let by = offset + k * more;
            (Span::new(at(k), end), Span::new(at(k) + late + by, end + by))
        };
        (0..12).map(pair).collect()
    }

    #[test]
    fn ends_that_agree_under_one_offset_are_those_of_one_collective() {
        assert!(end_together(pairs(5 * MS, 0, 0)));
        assert!(end_together(pairs(5 * MS, 248 * MS, 0)));
        assert!(!end_together(pairs(5 * MS, 0, MS)), "two runs of one program");
        assert!(!end_together(pairs(5 * MS, 0, 0)[..FEWEST - 1].to_vec()), "too few");
        let all = pairs(0, 0, 0);
        let next = all.iter().zip(all.iter().skip(1));
        assert!(!end_together(next.map(|((a, _), (_, b))| (*a, *b)).collect()), "each with the one after");
        // Short calls, of which each second one ends 0.4 ms before the other rank arrives.
        let short = |end: Ns| Span::new(end - 10_000, end);
        let by = |k: Ns| k % 2 * 400_000;
        let apart = (0..).zip(&all).map(|(k, (a, b))| (short(a.end), short(b.end + by(k))));
        assert!(!end_together(apart.collect()));
    }
}
