//! The groups of collectives that name none, on ranks whose files list their groups.
//!
//! A call never joins ranks that no recorded group joins. The calls of one kind and size belong to one family
//! of groups; each family is tried: in each of its groups the n-th calls of the members would be one
//! collective. A family is refuted if members have different numbers of calls, or a member starts after
//! another one has ended. Where more than one is left, the calls stay without partners.
//!
//! ```text
//!   rank 0   [all_reduce]                     {0, 1}: rank 1 starts after rank 0 has ended: impossible
//!   rank 1                  [all_reduce]      {0, 2}: possible
//!   rank 2      [all_reduce]
//! ```

use crate::families::{GroupFamily, families, listed};
use crate::part::RankSummary;
use hta_base::units::Ns;
use hta_trace::collective::{CallShape, CallShapes, CollectiveKind, Members};
use std::collections::BTreeMap;

/// Times of one host may disagree by this much, ns.
const SLACK: Ns = 20_000;

/// Calls that may be one collective: size of the group where it is known, kind, bytes.
type NamelessToken = (Option<u32>, CollectiveKind, Option<i64>);

/// The calls of one part, with the group that they are given: its position among the rank's groups.
type NamedCalls = Vec<(u32, u32, Vec<u32>)>;

/// Gives nameless collectives the one recorded family that they can belong to.
pub(crate) fn name_groups(parts: &mut [RankSummary]) {
    let by_token = nameless(parts);
    if by_token.is_empty() {
        return;
    }
    let known = families(&listed(parts));
    let mut named = NamedCalls::new();
    for ((size, kind, _), calls) in by_token {
        let mut readings: Vec<NamedCalls> = Vec::new();
        for family in known.iter().filter(|f| f.groups.iter().all(|m| is_of_size(m, size))) {
            let Some(reading) = read(parts, family, kind, &calls) else { continue };
            if !readings.iter().any(|other| is_same(parts, other, &reading)) {
                readings.push(reading);
            }
        }
        if let [_] = &readings[..] {
            named.extend(readings.into_iter().flatten());
        }
    }
    for (part, group, calls) in named {
        let Some(part) = parts.get_mut(part as usize) else { continue };
        let mut shapes = CallShapes::default();
        for i in calls {
            let call = &mut part.calls.calls[i as usize];
            call.shape = shapes.shared(CallShape { group, ..(*call.shape).clone() });
        }
    }
}

/// The collectives without a group of the ranks that list groups, by token and part.
fn nameless(parts: &[RankSummary]) -> BTreeMap<NamelessToken, BTreeMap<u32, Vec<u32>>> {
    let mut by_token: BTreeMap<NamelessToken, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    for (part, p) in (0u32..).zip(parts).filter(|(_, p)| p.has_origin && p.lists_groups) {
        for (i, c) in (0u32..).zip(&p.calls.calls).filter(|(_, c)| !c.shape.kind.is_point_to_point()) {
            let group = &p.calls.groups[c.shape.group as usize];
            if group.name.is_none() && group.members.is_none() {
                let bytes = c.shape.bytes.filter(|_| c.shape.kind.has_one_size());
                let token = (group.size, c.shape.kind, bytes);
                by_token.entry(token).or_default().entry(part).or_default().push(i);
            }
        }
    }
    by_token
}

fn is_of_size(members: &Members, size: Option<u32>) -> bool {
    size.is_none_or(|size| members.len() == size as usize)
}

/// Whether two families give all calls groups with the same members, as those made for two back ends do.
fn is_same(parts: &[RankSummary], a: &NamedCalls, b: &NamedCalls) -> bool {
    let members = |(part, group, _): &(u32, u32, Vec<u32>)| {
        (*part, &parts[*part as usize].calls.groups[*group as usize].members)
    };
    a.iter().map(members).eq(b.iter().map(members))
}

/// The calls by part under one family; `None` if that is impossible.
fn read(
    parts: &[RankSummary],
    family: &GroupFamily,
    kind: CollectiveKind,
    calls: &BTreeMap<u32, Vec<u32>>,
) -> Option<NamedCalls> {
    let mut groups: BTreeMap<&Members, Vec<(u32, &Vec<u32>)>> = BTreeMap::new();
    let mut reading = NamedCalls::new();
    for (part, list) in calls {
        let (local, members) = family.own(parts, *part as usize)?;
        groups.entry(members).or_default().push((*part, list));
        reading.push((*part, local, list.clone()));
    }
    let recorded = |rank: u32| parts.binary_search_by_key(&rank, |p| p.rank).ok();
    let is_group = |(members, uses): (&Members, &Vec<(u32, &Vec<u32>)>)| {
        let present = members.iter().filter_map(recorded).filter(|i| parts[*i].has_origin).count();
        let is_even = uses.len() == present && uses.windows(2).all(|w| w[0].1.len() == w[1].1.len());
        members.len() > 1 && is_even && is_possible(parts, kind, uses)
    };
    groups.iter().map(|(m, uses)| (*m, uses)).all(is_group).then_some(reading)
}

/// Whether in each collective every member starts before any has ended. Only clocks of one host are compared.
fn is_possible(parts: &[RankSummary], kind: CollectiveKind, uses: &[(u32, &Vec<u32>)]) -> bool {
    let call = |part: u32, i: u32| &parts[part as usize].calls.calls[i as usize];
    let host = |part: u32| parts[part as usize].host.as_deref();
    let count = uses.first().map_or(0, |(_, list)| list.len());
    !kind.is_synchronous()
        || (0..count).all(|n| {
            // Maps a host to the last start and the first end on it.
            let mut extremes: BTreeMap<Option<&str>, (Ns, Ns)> = BTreeMap::new();
            for (part, list) in uses {
                let c = call(*part, list[n]);
                let e = extremes.entry(host(*part)).or_insert((Ns::MIN, Ns::MAX));
                *e = (e.0.max(c.arrival()), e.1.min(c.span.end));
            }
            extremes.values().all(|(start, end)| start.saturating_sub(SLACK) <= *end)
        })
}
