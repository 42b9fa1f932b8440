//! Infers the members of groups for which no rank recorded them.
//!
//! Members of one group run the same collectives and end them at the same moments, up to the offset of their
//! clocks; ranks of different groups do not, however similar their work is. So ranks are clustered by how
//! well their ends agree. The result is accepted only if it is unambiguous: clusters of the recorded size,
//! each far tighter than the distance to any other rank. Otherwise the calls are left unmatched and reported.
//! The order of rank numbers is not used as evidence.

use crate::groups::{Group, PartGroup};
use crate::part::RankSummary;
use crate::sequence::{CallSequence, KeyNumbers, PartnerKind, TokenAtEnd, offset, pairs};
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_trace::collective::group::FUSED_GROUP;
use hta_trace::collective::{CollectiveKind, Members};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// An inferred group: the calls of each part.
pub(crate) struct Inferred {
    pub(crate) group: Group,
    pub(crate) calls: Vec<(u32, Vec<u32>)>,
}

/// One part's calls of one nameless group.
struct PartCalls {
    id: PartGroup,
    calls: Vec<u32>,
    sequence: CallSequence,
    /// Of fused kernels the host: groups of these may do the same at different places of a step, which looks
    /// like an offset of clocks.
    fused_on: Option<Option<String>>,
    /// Start of each call; `None` for kinds that some members leave early.
    starts: Vec<Option<Ns>>,
}

/// Largest offset between clocks that are set, of one host and of several, ns.
const CLOCKS_MAX: [Ns; 2] = [20_000, 1_000_000];

/// Largest number of ends compared between two ranks.
const SAMPLE: usize = 64;

/// Finds groups among those of parts without members.
pub(crate) fn infer(parts: &[RankSummary], unknown: &[PartGroup]) -> Vec<Inferred> {
    let mut tokens = KeyNumbers::default();
    // Units with different recorded properties cannot be in one group.
    type Class<'a> = (u32, Option<u32>, Option<&'a str>);
    let mut classes: BTreeMap<Class, Vec<PartCalls>> = BTreeMap::new();
    for &id in unknown {
        let (p, local) = (id.summary(parts), id.group(parts));
        let calls: Vec<u32> = (0u32..)
            .zip(&p.calls.calls)
            .filter(|(_, c)| c.shape.group == id.local && !c.shape.kind.is_point_to_point())
            .map(|(i, _)| i)
            .collect();
        if calls.is_empty() {
            continue;
        }
        let item = |i: &u32| {
            let c = &p.calls.calls[*i as usize];
            let bytes = c.shape.bytes.filter(|_| c.shape.kind != CollectiveKind::AllToAll);
            TokenAtEnd { token: tokens.of((c.shape.kind, bytes, c.seq)), end: c.span.end }
        };
        let sequence = CallSequence::new(calls.iter().map(item).collect());
        let start = |i: &u32| {
            let c = &p.calls.calls[*i as usize];
            c.shape.kind.is_meeting().then_some(c.arrival())
        };
        let starts = calls.iter().map(start).collect();
        let unit =
            PartCalls { id, fused_on: local.is_of_fused().then(|| p.host.clone()), calls, sequence, starts };
        classes.entry((p.program(), local.size, local.name.as_deref())).or_default().push(unit);
    }
    let mut out = Vec::new();
    for ((program, size, name), units) in classes {
        let distinct: BTreeSet<u32> = units.iter().map(|u| u.id.part).collect();
        let of_program = || parts.iter().filter(|p| p.program() == program);
        let known = of_program().filter_map(RankSummary::program_size).max();
        let all = size.or(known).map_or_else(|| of_program().count(), |w| w as usize);
        let is_fused = units.iter().all(|u| u.fused_on.is_some());
        let first = units.first().filter(|_| is_fused).map(|u| u.id.summary(parts));
        let found = sizes(all, first).into_iter().rev().filter(|wanted| *wanted > 1).find_map(|wanted| {
            let clusters = if units.len() <= wanted && distinct.len() == units.len() {
                agree_all(&units).then(|| vec![(0..units.len()).collect::<Vec<_>>()])
            } else {
                cluster(&units, wanted)
            };
            Some((wanted, clusters?))
        });
        let Some((wanted, clusters)) = found else { continue };
        for cluster in clusters {
            let of = |i: &usize| &units[*i];
            let members = (cluster.len() == wanted)
                .then(|| Members::listed(cluster.iter().map(|i| of(i).id.summary(parts).rank).collect()));
            let size = size.or(members.as_ref().filter(|_| is_fused).map(|m| m.len() as u32));
            if !cluster.iter().all(|i| is_recorded(of(i).id.summary(parts), size, members.as_ref())) {
                continue;
            }
            out.push(Inferred {
                group: Group {
                    name: name.map(str::to_string),
                    desc: is_fused.then(|| FUSED_GROUP.to_string()),
                    members,
                    size: Some(wanted as u32),
                    is_inferred: true,
                    misses_rank: false,
                    uses: cluster.iter().map(|i| of(i).id).collect(),
                },
                calls: cluster.iter().map(|i| (of(i).id.part, of(i).calls.clone())).collect(),
            });
        }
    }
    out
}

/// The sizes that a group may have. If it is unknown, only a group of all ranks is unambiguous; of fused
/// kernels, the largest that the first rank lists.
fn sizes(known: usize, first: Option<&RankSummary>) -> BTreeSet<usize> {
    first.into_iter().flat_map(listed).map(Members::len).chain([known]).collect()
}

/// Whether a rank may be in a group of the inferred members: one that lists groups of this size is in one of
/// those. Calls of which not even the size is known may belong to several of them.
fn is_recorded(part: &RankSummary, size: Option<u32>, members: Option<&Members>) -> bool {
    let of_size = |size: u32| listed(part).any(|m| m.len() == size as usize);
    !part.lists_groups || size.is_some_and(|size| !of_size(size) || listed(part).any(|m| Some(m) == members))
}

/// The members of the groups that a rank lists.
fn listed(part: &RankSummary) -> impl Iterator<Item = &Members> {
    part.calls.groups.iter().filter_map(|g| g.members.as_ref())
}

/// Median deviation of two ranks' ends from a constant offset, ns. `None` if fewer than half of the calls
/// find a partner, or the two cannot have taken part in the same collectives.
fn disagreement(a: &PartCalls, b: &PartCalls) -> Option<Ns> {
    let most = a.fused_on.as_ref().map_or(Ns::MAX, |_| CLOCKS_MAX[usize::from(a.fused_on != b.fused_on)]);
    let shift = offset(&a.sequence, &b.sequence).filter(|shift| shift.abs() <= most)?;
    let matches = pairs(&a.sequence, &b.sequence, shift, PartnerKind::Ends);
    if matches.len() * 2 < a.calls.len().min(b.calls.len()) {
        return None;
    }
    // No member leaves a collective before the last one arrives; ranks that often seem to are not in the same
    // group.
    let start = |u: &PartCalls, i: u32| u.starts.get(i as usize).copied().flatten();
    let is_impossible = |&&(i, j): &&(u32, u32)| {
        start(a, i).zip(start(b, j)).is_some_and(|(x, y)| {
            let (end_x, end_y) = (a.sequence.end(i), b.sequence.end(j) - shift);
            y - shift > end_x || x > end_y
        })
    };
    if matches.iter().filter(is_impossible).count() * 10 > matches.len() {
        return None;
    }
    let step = matches.len().div_ceil(SAMPLE).max(1);
    let end = |u: &PartCalls, i: u32| u.sequence.end(i);
    let mut d: Vec<Ns> = matches.iter().step_by(step).map(|(i, j)| end(b, *j) - end(a, *i)).collect();
    let middle = median(&mut d)?;
    median(&mut d.iter().map(|x| (x - middle).abs()).collect::<Vec<Ns>>())
}

/// Whether all units form one group: each agrees with the first to within a quarter of the distance between
/// its own calls.
fn agree_all(units: &[PartCalls]) -> bool {
    let Some((first, rest)) = units.split_first() else { return false };
    !rest.is_empty()
        && rest.par_iter().all(|u| disagreement(first, u).is_some_and(|d| d <= first.sequence.rhythm() / 4))
}

/// Largest number of pairs of units that are compared: some minutes of work. Jobs of 11,000 ranks have as
/// many in groups of 8.
const MOST: usize = 1 << 23;

/// How much farther a unit of another group must be than the farthest of the own group.
const APART: Ns = 4;
/// Ends of one group agree only to microseconds: smaller spreads say nothing about what is far, ns.
const LEAST: Ns = 1_000;

/// Divides units into groups of exactly `size`: with each unit go the `size - 1` whose ends agree best with
/// its own. `None` where that is ambiguous: the next best unit is not much farther away.
///
/// ```text
///   distance from the first   0  1  1  2 .................. 19  20 ..
///                             [ its group of 4 ]            others: more than 4 x 2 away
/// ```
///
/// A unit is compared with those that are in no group yet, so the comparisons are those of all pairs, divided
/// by the size of a group.
fn cluster(units: &[PartCalls], size: usize) -> Option<Vec<Vec<usize>>> {
    let pairs = units.len().checked_div(size)?.saturating_mul(units.len()) / 2;
    if !units.len().is_multiple_of(size) || pairs > MOST {
        return None;
    }
    let mut left: Vec<usize> = (0..units.len()).collect();
    let (mut inside, mut outside) = (LEAST, Ns::MAX);
    let mut clusters = Vec::new();
    while let Some((&first, others)) = left.split_first() {
        let distance = |&i: &usize| Some((disagreement(&units[first], &units[i])?, i));
        let mut near: Vec<(Ns, usize)> = others
            .par_iter()
            .filter(|i| units[**i].id.part != units[first].id.part)
            .filter_map(distance)
            .collect();
        near.sort_unstable();
        let own = near.get(..size.checked_sub(1)?)?;
        inside = inside.max(own.last().map_or(0, |(d, _)| *d));
        outside = outside.min(near.get(own.len()).map_or(Ns::MAX, |(d, _)| *d));
        if inside.saturating_mul(APART) >= outside {
            return None;
        }
        let mut cluster: Vec<usize> = std::iter::once(first).chain(own.iter().map(|(_, i)| *i)).collect();
        cluster.sort_unstable();
        // Units are in order of part: two of one part, which cannot be in one group, would be neighbours.
        if cluster.windows(2).any(|w| units[w[0]].id.part == units[w[1]].id.part) {
            return None;
        }
        left.retain(|i| cluster.binary_search(i).is_err());
        clusters.push(cluster);
    }
    Some(clusters)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit whose calls end once a millisecond, each at a moment of its own for a group, on a clock of its
    /// own.
    fn unit(part: u32, group: u64) -> PartCalls {
        const CALLS: u64 = 12;
        // Mixed, so that the moments of two groups differ by more than a constant.
        let moment = |i: u64| {
            let mut x = (group * CALLS + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (x ^ x >> 27) as Ns & 0x3_ffff
        };
        let noise = |i: u64| (i as Ns * 17 + Ns::from(part) * 31) % 400;
        let end = |i: u64| i as Ns * 1_000_000 + moment(i) + noise(i) + Ns::from(part % 100) * 1_000;
        let items = (0..CALLS).map(|i| TokenAtEnd { token: 0, end: end(i) }).collect();
        let calls: Vec<u32> = (0..CALLS as u32).collect();
        PartCalls {
            id: PartGroup { part, local: 0 },
            fused_on: None,
            starts: vec![None; calls.len()],
            sequence: CallSequence::new(items),
            calls,
        }
    }

    #[test]
    fn many_thousand_ranks_are_divided_into_their_groups() {
        const GROUPS: u32 = 14;
        let units: Vec<PartCalls> = (0..4200).map(|part| unit(part, u64::from(part % GROUPS))).collect();
        let clusters = cluster(&units, 300).expect("groups differ by far more than their members");
        let expected: Vec<Vec<usize>> = (0..14).map(|g| (0..300).map(|i| g + i * 14).collect()).collect();
        assert_eq!(clusters, expected);
    }

    #[test]
    fn groups_that_end_at_the_same_moments_are_not_divided() {
        let units: Vec<PartCalls> = (0..8).map(|part| unit(part, 0)).collect();
        assert_eq!(cluster(&units, 2), None);
        let units: Vec<PartCalls> = (0..8).map(|part| unit(part, u64::from(part / 2))).collect();
        assert_eq!(cluster(&units, 2), Some(vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]]));
        assert_eq!(cluster(&units, 3), None, "they do not divide into threes");
    }
}
