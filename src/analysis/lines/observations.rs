//! Observations: lines that take longer on one rank than on the others, and lines that wait for the GPU.

use crate::api::{Certainty, Observation, Partial, rows};
use crate::lines::key::{LineKey, shown};
use crate::lines::tables::{LineTotalRow, LineTotals, LinesTable};
use hta_base::order_statistics::median_of_sorted;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Smallest difference between ranks that is reported, percent of the step.
const SPREAD_MIN_PCT: f64 = 20.0;
/// Smallest waiting of one line that is reported, percent of the step.
const BLOCKED_MIN_PCT: f64 = 5.0;
/// Largest number of lines reported for each reason.
const MOST: usize = 3;

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

pub(crate) fn observations(stem: &'static str, partials: &[Partial]) -> Vec<Observation> {
    let observation = |rank: u32, cost: Ns, share: f64, sentence: String| Observation {
        analysis: stem,
        ranks: vec![rank],
        steps: Vec::new(),
        cost_ns_per_step: cost,
        share_of_step: Some(share / 100.0),
        certainty: Certainty::Measured,
        sentence,
        table: LinesTable::SPEC.name,
    };
    let ranks = rows::<LineTotals>(partials).count();
    let mut all = Vec::new();
    for s in differing(partials).iter().take(MOST) {
        let sentence = format!(
            "`{}` takes {} of a step on rank {}, {} in the median of {ranks} ranks: they differ by {}, {} of \
             the step",
            shown(&s.key.text()),
            fmt_ns(s.own),
            s.rank,
            fmt_ns(s.median),
            fmt_ns(s.spread),
            fmt_pct(Some(s.share))
        );
        all.push(observation(s.rank, s.spread, s.share, sentence));
    }
    for (key, rank, blocked, share) in blocked(partials).into_iter().take(MOST) {
        let sentence = format!(
            "`{}` blocks the host in synchronizing calls: {} of a step on rank {rank} ({})",
            shown(&key.text()),
            fmt_ns(blocked),
            fmt_pct(Some(share))
        );
        all.push(observation(rank, blocked, share, sentence));
    }
    all
}

/// Lines that wait for the GPU for enough of the step: of each the rank that waits longest, with its time per
/// step.
fn blocked(partials: &[Partial]) -> Vec<(LineKey<'_>, u32, Ns, f64)> {
    let steps = steps(partials);
    let mut worst: BTreeMap<LineKey, (f64, Ns, u32)> = BTreeMap::new();
    for r in rows::<LinesTable>(partials).filter(|r| r.scope == "capture" && r.level != "none") {
        let (count, length) = steps.get(&r.rank).copied().unwrap_or((1, 0));
        let Some(share) = percent(r.blocked_ns, length).filter(|s| *s > BLOCKED_MIN_PCT) else { continue };
        let found = (share, r.blocked_ns / count.max(1), r.rank);
        let of_line = worst.entry(LineKey::new(&r)).or_insert(found);
        if share > of_line.0 {
            *of_line = found;
        }
    }
    let mut all: Vec<_> = worst.into_iter().map(|(key, (share, ns, rank))| (key, rank, ns, share)).collect();
    all.sort_by_key(|(key, rank, ns, _)| (Reverse(*ns), *rank, *key));
    all
}
