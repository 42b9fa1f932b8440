//! Lines that take longer on one rank than on the others.

use crate::api::{Partial, rows};
use crate::lines::key::LineKey;
use crate::lines::tables::{LineTotalRow, LineTotals, LinesTable};
use hta_base::order_statistics::median_of_sorted;
use hta_base::units::{Ns, percent};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Smallest difference between ranks that is reported, percent of the step.
const SPREAD_MIN_PCT: f64 = 20.0;

/// A line whose self time differs between ranks; times per step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineSpread<'a> {
    pub(crate) key: LineKey<'a>,
    /// The rank that is farthest from the median.
    pub(crate) rank: u32,
    /// Its self time.
    pub(crate) own: Ns,
    /// The lower median of all ranks.
    pub(crate) median: Ns,
    /// Largest less smallest self time.
    pub(crate) spread: Ns,
    /// The spread as a percentage of the mean step of all ranks.
    pub(crate) share: f64,
}

/// Number of steps, and their length, by rank.
fn steps(partials: &[Partial]) -> BTreeMap<u32, (i64, Ns)> {
    rows::<LineTotals>(partials).map(|t: LineTotalRow| (t.rank, (t.step_count as i64, t.steps_ns))).collect()
}

/// Lines and functions of user code with their self time per step, by rank; on threads that are not idle.
fn by_rank(partials: &[Partial]) -> BTreeMap<LineKey<'_>, BTreeMap<u32, Ns>> {
    let steps = steps(partials);
    let mut all: BTreeMap<LineKey, BTreeMap<u32, Ns>> = BTreeMap::new();
    let rows = rows::<LinesTable>(partials)
        .filter(|r| r.scope == "capture" && !r.is_idle_thread && r.level != "none");
    for r in rows {
        let count = steps.get(&r.rank).map_or(1, |s| s.0).max(1);
        *all.entry(LineKey::new(&r)).or_default().entry(r.rank).or_default() += r.host_self_ns / count;
    }
    all
}

/// The lines whose self time differs by enough of the step, largest difference first.
pub(crate) fn differing(partials: &[Partial]) -> Vec<LineSpread<'_>> {
    let steps = steps(partials);
    let (count, length) = steps.values().fold((0, 0), |(n, ns), s| (n + s.0, ns + s.1));
    if steps.len() < 2 || count == 0 {
        return Vec::new();
    }
    let step = length / count;
    let mut all: Vec<LineSpread> = Vec::new();
    for (key, of_rank) in by_rank(partials) {
        // A rank without the line spends no time there.
        let times: Vec<(u32, Ns)> =
            steps.keys().map(|rank| (*rank, of_rank.get(rank).copied().unwrap_or(0))).collect();
        let mut sorted: Vec<Ns> = times.iter().map(|t| t.1).collect();
        sorted.sort_unstable();
        let (Some(median), Some(least), Some(most)) =
            (median_of_sorted(&sorted), sorted.first(), sorted.last())
        else {
            continue;
        };
        let spread = most - least;
        let Some(share) = percent(spread, step).filter(|s| *s > SPREAD_MIN_PCT) else { continue };
        let farthest = times.into_iter().max_by_key(|(rank, ns)| ((ns - median).abs(), *ns, Reverse(*rank)));
        all.extend(farthest.map(|(rank, own)| LineSpread { key, rank, own, median, spread, share }));
    }
    all.sort_by_key(|s| (Reverse(s.spread), s.key));
    all
}
