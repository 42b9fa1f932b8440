//! Offsets between the clocks of ranks, estimated from the ends of collectives. Times in ns.
//!
//! A synchronous collective ends at nearly the same true moment on every member. With `e(r, c)` the end of
//! instance `c` on rank `r`, the estimate is one offset `o(r)` per rank such that `e(r, c) - o(r)` agree over
//! members. Two equations are evaluated in turn until nothing changes, over the graph of ranks connected by
//! shared groups:
//!
//! ```text
//!   m(c) = median over members r of  e(r, c) - o(r)          the moment of c
//!   o(r) = median over instances c of  e(r, c) - m(c)        small messages have more weight: their ends agree better
//! ```
//!
//! Medians of an even number of values are the lower one, except for `m`, which is the mean of the middle
//! two: with two members, the lower one would make one clock always right and the other always wrong. Offsets
//! are relative to the median rank of their connected component. The residual is the median absolute
//! deviation of `e(r, c) - o(r) - m(c)`, which shows how far the offset can be trusted. The drift is the
//! Theil-Sen slope of the same differences over time.
//!
//! Which offsets are applied is decided by `end_fit`.

use crate::end_fit::{EndFit, SMALL};
use crate::matching::{Instance, Matched};
use crate::part::RankSummary;
use hta_base::order_statistics::{median, weighted_percentile};
use hta_base::units::Ns;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Values of `--clock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockMode {
    /// Apply an offset if it is large compared with its residual.
    #[default]
    Auto,
    /// Apply every offset.
    Collectives,
    /// Apply none.
    None,
}

impl ClockMode {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Collectives, Self::None];

    /// The value of `--clock`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Collectives => "collectives",
            Self::None => "none",
        }
    }
}

/// A rank's clock relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// The offset found: to subtract from the rank's times at `at`, ns.
    pub offset: Ns,
    /// Median absolute deviation of its ends from the moments of their instances, ns.
    pub residual: Ns,
    /// How far the offset can be wrong by what the ends of few instances show, ns; 0 where they are many.
    pub doubt: Ns,
    /// Change of the offset, ns per second.
    pub drift: i64,
    /// Whether the drift is significant, so that the offset is linear in time.
    pub is_linear: bool,
    /// Number of instances used.
    pub instances: u32,
    /// Whether the rank shares instances with other ranks.
    pub is_aligned: bool,
    /// Whether the offset is subtracted from the rank's times in tables that compare ranks.
    pub is_applied: bool,
    /// Time at which `offset` holds, ns.
    pub at: Ns,
}

impl Clock {
    /// The offset at `t`, ns.
    fn found_at(&self, t: Ns) -> Ns {
        if self.is_linear { self.offset + slope(self.drift, t - self.at) } else { self.offset }
    }

    /// The rank's time `t` on the common axis by the offset found, whether or not it is applied.
    pub(crate) fn found(&self, t: Ns) -> Ns {
        t - self.found_at(t)
    }

    /// Whether medians over its instances prove nothing.
    pub fn is_few(&self) -> bool {
        (self.instances as usize) < FEW
    }

    /// Converts the rank's time `t` to the common axis.
    pub fn aligned(&self, t: Ns) -> Ns {
        if self.is_applied { self.found(t) } else { t }
    }
}

fn slope(drift: i64, dt: Ns) -> Ns {
    ((i128::from(drift) * i128::from(dt)) / 1_000_000_000) as Ns
}

/// Fewest instances whose medians prove an offset.
const FEW: usize = 8;
/// Largest number of iterations; usually a few suffice.
const ROUNDS: usize = 12;
/// Largest plausible drift between two clocks, ns per second: crystals are within 100 ppm each. A larger
/// slope is noise.
const MAX_DRIFT: i64 = 200_000;
/// Fewest instances for a significant slope.
const FEW_FOR_DRIFT: u32 = 24;
/// Largest number of points for a slope, because all pairs of points are compared.
const SLOPE_POINTS: usize = 160;

/// The median; for an even number of values the mean of the middle two (rounded down).
fn center(values: &mut [Ns]) -> Option<Ns> {
    let low = median(values)?;
    if values.len() % 2 == 1 {
        return Some(low);
    }
    let high = values[values.len() / 2..].iter().min().copied()?;
    Some(low + (high - low) / 2)
}

/// The weight of an instance: small or short ones weigh more, because their ends agree better.
fn weight(i: &Instance) -> u32 {
    match i.bytes {
        None | Some(..=1_048_576) => 4,
        Some(..=67_108_864) => 2,
        _ => 1,
    }
}

/// One end of an instance: part, end in ns.
type End = (u32, Ns);

/// An instance as used for alignment.
struct AlignedInstance {
    ends: Vec<End>,
    weight: u32,
    group: u32,
}

/// The clocks of all parts.
pub(crate) fn align(parts: &[RankSummary], matched: &Matched, mode: ClockMode) -> Vec<Clock> {
    let usable = |i: &&Instance| i.is_synchronous() && i.len() > 1 && !i.disagrees;
    let call = |m: &crate::matching::Member| &parts[m.part as usize].calls.calls[m.call as usize];
    let mut moments: Vec<AlignedInstance> = matched
        .instances
        .iter()
        .filter(usable)
        .map(|i| AlignedInstance {
            ends: matched.members(i).iter().map(|m| (m.part, call(m).span.end)).collect(),
            weight: weight(i),
            group: i.group,
        })
        .collect();
    let mut clocks = fit(parts, &moments);
    let is_possible = |i: &Instance, on: &dyn Fn(u32, Ns) -> Ns| {
        let members = matched.members(i);
        let last = members.iter().map(|m| on(m.part, call(m).arrival())).max();
        let end = members.iter().map(|m| on(m.part, call(m).span.end)).min();
        last <= end
    };
    // An instance that ends before its last arrival is not synchronous: exclude it and repeat.
    let found = |part: u32, t: Ns| t - clocks[part as usize].found_at(t);
    let arrivals: Vec<bool> =
        matched.instances.iter().filter(usable).map(|i| is_possible(i, &found)).collect();
    let bad = arrivals.iter().filter(|ok| !**ok).count();
    if bad > 0 && bad * 2 < moments.len() {
        let mut at = 0;
        moments.retain(|_| {
            at += 1;
            arrivals[at - 1]
        });
        clocks = fit(parts, &moments);
    }
    // The residual of the rank that is usually the middle one is too small, because it defines the moment; so
    // the typical residual is the lower bound.
    let mut all: Vec<Ns> =
        clocks.iter().filter(|c| c.is_aligned && c.instances > 0).map(|c| c.residual).collect();
    let usual = median(&mut all).unwrap_or(0);
    let is_off = |c: &Clock| c.offset.abs() > 4 * c.residual.max(usual);
    if mode == ClockMode::Auto && clocks.iter().any(is_off) {
        let mut fits = vec![EndFit::default(); clocks.len()];
        for i in matched.instances.iter().filter(usable) {
            let found = |part: u32, t: Ns| t - clocks[part as usize].found_at(t);
            let worse = i64::from(is_possible(i, &|_, t| t)) - i64::from(is_possible(i, &found));
            let ends = || matched.members(i).iter().map(|m| found(m.part, call(m).span.end));
            let apart = ends().max().unwrap_or(0) - ends().min().unwrap_or(0);
            let shortest = matched.members(i).iter().map(|m| call(m).span.len()).min().unwrap_or(0);
            for m in matched.members(i) {
                fits[m.part as usize].add(worse, apart, shortest, call(m).shape.on_host);
            }
        }
        for (c, fit) in clocks.iter_mut().zip(fits) {
            c.is_applied = c.is_aligned && is_off(c) && fit.proves(c.offset, c.is_few());
            c.doubt = if c.is_few() { fit.doubt() } else { 0 };
        }
    }
    for c in clocks.iter_mut().filter(|c| c.is_aligned) {
        c.is_applied = match mode {
            ClockMode::Auto => c.is_applied || (c.is_linear && !c.is_few()),
            ClockMode::Collectives => true,
            ClockMode::None => false,
        };
    }
    clocks
}

fn fit(parts: &[RankSummary], moments: &[AlignedInstance]) -> Vec<Clock> {
    let middle = |p: &RankSummary| p.capture.start + p.capture.len() / 2;
    let mut clocks: Vec<Clock> = parts.iter().map(|p| Clock { at: middle(p), ..Clock::default() }).collect();
    let component = place(&mut clocks, moments);
    settle(&mut clocks, moments);
    drifts(parts, &mut clocks, moments);
    let mut by_component: BTreeMap<u32, Vec<Ns>> = BTreeMap::new();
    for (c, k) in clocks.iter().zip(&component).filter(|(c, _)| c.is_aligned) {
        by_component.entry(*k).or_default().push(c.offset);
    }
    let base: BTreeMap<u32, Ns> =
        by_component.into_iter().filter_map(|(k, mut o)| Some((k, median(&mut o)?))).collect();
    for (c, k) in clocks.iter_mut().zip(&component).filter(|(c, _)| c.is_aligned) {
        c.offset -= base.get(k).copied().unwrap_or(0);
    }
    clocks
}

/// Assigns initial offsets, rank by rank along shared groups, and the connected component of each part.
fn place(clocks: &mut [Clock], moments: &[AlignedInstance]) -> Vec<u32> {
    let mut component: Vec<u32> = (0..clocks.len() as u32).collect();
    let mut by_group: BTreeMap<u32, Vec<&AlignedInstance>> = BTreeMap::new();
    for m in moments {
        by_group.entry(m.group).or_default().push(m);
    }
    // Groups with the most instances first.
    let mut groups: Vec<Vec<&AlignedInstance>> = by_group.into_values().collect();
    groups.sort_by_key(|g| std::cmp::Reverse(g.iter().map(|m| m.ends.len()).sum::<usize>()));
    let mut waiting: Vec<usize> = (0..groups.len()).collect();
    while !waiting.is_empty() {
        let placed = |g: &[&AlignedInstance], clocks: &[Clock]| {
            g.iter().any(|m| m.ends.iter().any(|(p, _)| clocks[*p as usize].is_aligned))
        };
        let next = waiting.iter().position(|&g| placed(&groups[g], clocks)).unwrap_or(0);
        let g = &groups[waiting.remove(next)];
        if !placed(g, clocks)
            && let Some((first, _)) = g.iter().find_map(|m| m.ends.first())
        {
            clocks[*first as usize].is_aligned = true;
        }
        let mut differences: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
        let mut home = None;
        for m in g {
            let on = |(p, e): &End| (clocks[*p as usize].is_aligned).then(|| e - clocks[*p as usize].offset);
            let Some(center) = center(&mut m.ends.iter().filter_map(on).collect::<Vec<_>>()) else {
                continue;
            };
            home =
                home.or_else(|| m.ends.iter().find(|e| on(e).is_some()).map(|(p, _)| component[*p as usize]));
            for (p, e) in m.ends.iter().filter(|e| on(e).is_none()) {
                differences.entry(*p).or_default().push((e - center, m.weight));
            }
        }
        let grows = !differences.is_empty();
        for (p, mut d) in differences {
            if let Some(o) = weighted_percentile(&mut d, 50) {
                (clocks[p as usize].offset, clocks[p as usize].is_aligned) = (o, true);
                component[p as usize] = home.unwrap_or(p);
            }
        }
        // Members that shared no moment with an aligned part are tried again in the next round.
        let left = g.iter().any(|m| m.ends.iter().any(|(p, _)| !clocks[*p as usize].is_aligned));
        if left && grows {
            let again = groups.iter().position(|x| std::ptr::eq(x, g));
            waiting.extend(again);
        }
    }
    component
}

/// Differences of each part's ends from the moments: (time, difference, weight).
fn differences(clocks: &[Clock], moments: &[AlignedInstance]) -> Vec<Vec<(Ns, Ns, u32)>> {
    let centers: Vec<Option<Ns>> = moments
        .par_iter()
        .map(|m| {
            center(&mut m.ends.iter().map(|(p, e)| e - clocks[*p as usize].found_at(*e)).collect::<Vec<_>>())
        })
        .collect();
    let mut out: Vec<Vec<(Ns, Ns, u32)>> = vec![Vec::new(); clocks.len()];
    for (m, center) in moments.iter().zip(centers) {
        let Some(center) = center else { continue };
        for (p, e) in &m.ends {
            let d = e - clocks[*p as usize].found_at(*e) - center;
            out[*p as usize].push((*e, d, m.weight));
        }
    }
    out
}

/// Iterates until nothing changes, then sets residuals and counts.
fn settle(clocks: &mut [Clock], moments: &[AlignedInstance]) {
    for _ in 0..ROUNDS {
        let moves: Vec<Ns> = differences(clocks, moments)
            .into_par_iter()
            .map(|d| {
                weighted_percentile(&mut d.into_iter().map(|(_, d, w)| (d, w)).collect::<Vec<_>>(), 50)
                    .unwrap_or(0)
            })
            .collect();
        for (c, by) in clocks.iter_mut().zip(&moves) {
            c.offset += by;
        }
        if moves.iter().all(|m| m.abs() <= 1) {
            break;
        }
    }
    let found: Vec<(Ns, u32)> = differences(clocks, moments)
        .into_par_iter()
        .map(|d| {
            (median(&mut d.iter().map(|(_, d, _)| d.abs()).collect::<Vec<_>>()).unwrap_or(0), d.len() as u32)
        })
        .collect();
    for (c, (residual, instances)) in clocks.iter_mut().zip(found) {
        (c.residual, c.instances) = (residual, instances);
    }
}

/// Estimates slopes. A rank whose slope over its capture is significant gets a linear offset.
fn drifts(parts: &[RankSummary], clocks: &mut [Clock], moments: &[AlignedInstance]) {
    let fitted: Vec<Option<(i64, Ns, Ns)>> = differences(clocks, moments)
        .into_par_iter()
        .map(|mut d| {
            d.sort_unstable();
            theil_sen(&d)
        })
        .collect();
    let mut any = false;
    for ((c, p), fit) in clocks.iter_mut().zip(parts).zip(fitted) {
        let Some((drift, _, residual)) = fit else { continue };
        c.drift = drift;
        let over = slope(drift, p.capture.len()).abs();
        c.is_linear = is_clear(c, over, residual);
        any |= c.is_linear;
    }
    if any {
        // A linear offset holds at the middle of the capture; the constant one held approximately there, too.
        settle(clocks, moments);
        let again: Vec<Option<(i64, Ns, Ns)>> = differences(clocks, moments)
            .into_par_iter()
            .map(|mut d| {
                d.sort_unstable();
                theil_sen(&d)
            })
            .collect();
        for ((c, p), fit) in clocks.iter_mut().zip(parts).zip(again).filter(|((c, _), _)| c.is_linear) {
            let (drift, _, residual) = fit.unwrap_or_default();
            c.drift += drift;
            c.is_linear = is_clear(c, slope(c.drift, p.capture.len()).abs(), residual);
        }
        settle(clocks, moments);
    }
}

/// Whether a slope that changes the offset by `over` is significant.
fn is_clear(c: &Clock, over: Ns, residual: Ns) -> bool {
    c.instances >= FEW_FOR_DRIFT && over > 4 * residual && over > SMALL && c.drift.abs() <= MAX_DRIFT
}

/// Slope in ns per s, the difference at the middle, and the median deviation from the line. `points` are in
/// order of time.
fn theil_sen(points: &[(Ns, Ns, u32)]) -> Option<(i64, Ns, Ns)> {
    let step = points.len().div_ceil(SLOPE_POINTS).max(1);
    let some: Vec<(Ns, Ns)> = points.iter().step_by(step).map(|(t, d, _)| (*t, *d)).collect();
    let mut slopes: Vec<Ns> = Vec::new();
    for (i, a) in some.iter().enumerate() {
        for b in &some[i + 1..] {
            if b.0 > a.0 {
                slopes.push(((i128::from(b.1 - a.1) * 1_000_000_000) / i128::from(b.0 - a.0)) as Ns);
            }
        }
    }
    let drift = median(&mut slopes)?;
    let t0 = some.first()?.0;
    let mut flat: Vec<Ns> = points.iter().map(|(t, d, _)| d - slope(drift, t - t0)).collect();
    let level = median(&mut flat)?;
    let mut off: Vec<Ns> = flat.iter().map(|v| (v - level).abs()).collect();
    Some((drift, level, median(&mut off)?))
}
