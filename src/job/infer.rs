//! Infers the members of groups for which no rank recorded them.
//!
//! Members of one group run the same collectives and end them at the same moments, up to the offset of their clocks;
//! ranks of different groups do not, however similar their work is. So ranks are clustered by how well their ends
//! agree. The result is accepted only if it is unambiguous: clusters of the recorded size, each far tighter than the
//! distance between any two. Otherwise the calls are left unmatched and reported. The order of rank numbers is not used
//! as evidence.

use crate::job::groups::Group;
use crate::job::part::RankSummary;
use crate::job::sequence::{Pairing, Sequence, TokenAtEnd, Tokens, offset, pairs};
use crate::trace::collective::{CollectiveKind, Members};
use crate::units::Ns;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// An inferred group: the calls of each part.
pub struct Inferred {
    pub group: Group,
    pub calls: Vec<(u32, Vec<u32>)>,
}

/// One part's calls of one nameless group.
struct PartCalls {
    id: (u32, u32),
    calls: Vec<u32>,
    sequence: Sequence,
    /// Start of each call; `None` for kinds that some members leave early.
    starts: Vec<Option<Ns>>,
}

/// Largest number of ends compared between two ranks.
const SAMPLE: usize = 64;

/// Finds groups among local groups without members, given as (part, local group).
pub fn infer(parts: &[RankSummary], unknown: &[(u32, u32)]) -> Vec<Inferred> {
    let mut tokens = Tokens::default();
    // Units with different recorded properties cannot be in one group.
    let mut classes: BTreeMap<(Option<u32>, Option<&str>), Vec<PartCalls>> = BTreeMap::new();
    for &(part, g) in unknown {
        let p = &parts[part as usize];
        let local = &p.calls.groups[g as usize];
        let calls: Vec<u32> = (0u32..)
            .zip(&p.calls.calls)
            .filter(|(_, c)| c.group == g && !c.kind.is_point_to_point())
            .map(|(i, _)| i)
            .collect();
        if calls.is_empty() {
            continue;
        }
        let item = |i: &u32| {
            let c = &p.calls.calls[*i as usize];
            let bytes = c.bytes.filter(|_| c.kind != CollectiveKind::AllToAll);
            TokenAtEnd { token: tokens.of((c.kind, bytes, c.seq)), end: c.span.end }
        };
        let sequence = Sequence::new(calls.iter().map(item).collect());
        let start = |i: &u32| {
            let c = &p.calls.calls[*i as usize];
            c.kind.is_synchronous().then_some(c.arrival())
        };
        let starts = calls.iter().map(start).collect();
        let unit = PartCalls { id: (part, g), calls, sequence, starts };
        classes.entry((local.size, local.name.as_deref())).or_default().push(unit);
    }
    let mut out = Vec::new();
    for ((size, name), units) in classes {
        let distinct: std::collections::BTreeSet<u32> = units.iter().map(|u| u.id.0).collect();
        let job = parts.iter().filter_map(|p| p.world).max().map_or(parts.len(), |w| w as usize);
        // If the size is unknown, only a group of all ranks is unambiguous.
        let wanted = size.map_or(job, |s| s as usize);
        if wanted < 2 {
            continue;
        }
        let clusters = if units.len() <= wanted && distinct.len() == units.len() {
            agree_all(&units).then(|| vec![(0..units.len()).collect::<Vec<_>>()])
        } else {
            cluster(&units, wanted)
        };
        for cluster in clusters.unwrap_or_default() {
            let of = |i: &usize| &units[*i];
            let members = (cluster.len() == wanted)
                .then(|| Members::listed(cluster.iter().map(|i| parts[of(i).id.0 as usize].rank).collect()));
            out.push(Inferred {
                group: Group {
                    name: name.map(str::to_string),
                    desc: None,
                    members,
                    size: Some(wanted as u32),
                    is_inferred: true,
                    uses: cluster.iter().map(|i| of(i).id).collect(),
                },
                calls: cluster.iter().map(|i| (of(i).id.0, of(i).calls.clone())).collect(),
            });
        }
    }
    out
}

/// Median deviation of two ranks' ends from a constant offset, ns. `None` if fewer than half of the calls find a
/// partner, or the two cannot have taken part in the same collectives.
fn disagreement(a: &PartCalls, b: &PartCalls) -> Option<Ns> {
    let shift = offset(&a.sequence, &b.sequence)?;
    let matches = pairs(&a.sequence, &b.sequence, shift, Pairing::Ends);
    if matches.len() * 2 < a.calls.len().min(b.calls.len()) {
        return None;
    }
    // No member leaves a collective before the last one arrives; ranks that often seem to are not in the same group.
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
    d.sort_unstable();
    let median = *d.get((d.len().checked_sub(1)?) / 2)?;
    let mut off: Vec<Ns> = d.iter().map(|x| (x - median).abs()).collect();
    off.sort_unstable();
    off.get((off.len() - 1) / 2).copied()
}

/// Whether all units form one group: each agrees with the first to within a quarter of the distance between its own
/// calls.
fn agree_all(units: &[PartCalls]) -> bool {
    let Some((first, rest)) = units.split_first() else { return false };
    !rest.is_empty()
        && rest.par_iter().all(|u| disagreement(first, u).is_some_and(|d| d <= first.sequence.rhythm() / 4))
}

/// Largest number of units that are compared with each other.
const MOST: usize = 1 << PackedDistance::INDEX;

/// Number of units compared with all others before the results are merged, to limit memory.
const AT_ONCE: usize = 64;

/// The distance of two units, packed into one number because there is one for every pair: the distance (capped at some
/// minutes) in the high bits, so that links sort by it, then the two indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PackedDistance(u64);

impl PackedDistance {
    /// Bits of a unit's index.
    const INDEX: u32 = 12;
    const FARTHEST: u64 = u64::MAX >> (2 * Self::INDEX);

    fn new(distance: Ns, i: usize, j: usize) -> Self {
        let distance = distance.unsigned_abs().min(Self::FARTHEST);
        Self(distance << (2 * Self::INDEX) | (i as u64) << Self::INDEX | j as u64)
    }

    fn parts(&self) -> (Ns, usize, usize) {
        let index = |n: u64| (n & ((1 << Self::INDEX) - 1)) as usize;
        ((self.0 >> (2 * Self::INDEX)) as Ns, index(self.0 >> Self::INDEX), index(self.0))
    }
}

/// Clusters of exactly `size` units, if the distance between clusters is at least three times that inside; else `None`.
fn cluster(units: &[PartCalls], size: usize) -> Option<Vec<Vec<usize>>> {
    if !units.len().is_multiple_of(size) || units.len() > MOST {
        return None;
    }
    let mut links: Vec<PackedDistance> = Vec::with_capacity(units.len() * (units.len() - 1) / 2);
    let of = |i: usize| -> Vec<PackedDistance> {
        let others = (i + 1..units.len()).filter(|&j| units[i].id.0 != units[j].id.0);
        others.filter_map(|j| Some(PackedDistance::new(disagreement(&units[i], &units[j])?, i, j))).collect()
    };
    for from in (0..units.len()).step_by(AT_ONCE) {
        let rows = from..(from + AT_ONCE).min(units.len());
        let found: Vec<Vec<PackedDistance>> = rows.into_par_iter().map(of).collect();
        links.extend(found.into_iter().flatten());
    }
    links.sort_unstable();
    let mut root: Vec<usize> = (0..units.len()).collect();
    let mut count = vec![1usize; units.len()];
    fn find(root: &mut [usize], mut i: usize) -> usize {
        while root[i] != i {
            root[i] = root[root[i]];
            i = root[i];
        }
        i
    }
    let (mut inside, mut outside) = (0, Ns::MAX);
    for (d, i, j) in links.iter().map(PackedDistance::parts) {
        let (a, b) = (find(&mut root, i), find(&mut root, j));
        if a == b {
            continue;
        }
        if count[a] + count[b] <= size {
            root[b] = a;
            count[a] += count[b];
            inside = inside.max(d);
        } else {
            outside = outside.min(d);
        }
    }
    let mut clusters: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for i in 0..units.len() {
        clusters.entry(find(&mut root, i)).or_default().push(i);
    }
    let whole = clusters.values().all(|c| {
        let mut parts: Vec<u32> = c.iter().map(|i| units[*i].id.0).collect();
        parts.dedup();
        c.len() == size && parts.len() == size
    });
    // Ends of one group agree only to microseconds: the minimum avoids ratios of tiny spreads.
    let apart = outside == Ns::MAX || inside.max(1_000).saturating_mul(3) < outside;
    (whole && apart).then(|| clusters.into_values().collect())
}
