//! What stands out of iterations, and the line about them under the head of a report.

use crate::api::{Certainty, Observation, Output, Partial, ViewNote, rows};
use crate::iterations::phases::KindKey;
use crate::iterations::tables::{
    IterationCategories, IterationPhaseRow, IterationPhases, IterationRow, IterationsTable,
};
use hta_base::order_statistics::{median, median_of_sorted};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_number, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_trace::step::StepRule;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Share of idle time in the windows, or of a part of it, from which it is said, percent.
const IDLE_PCT: f64 = 5.0;
/// Share of one category from which it is said, percent.
const CATEGORY_PCT: f64 = 50.0;

pub fn reduce(partials: &[Partial]) -> Output {
    let all: Vec<IterationRow> = rows::<IterationsTable>(partials).collect();
    if all.is_empty() {
        return Output::default();
    }
    let notes = how_found(&all).into_iter().map(|text| ViewNote { view: "", text }).collect();
    let headline = headline(partials);
    Output { observations: observations(partials, &all), notes, headline, ..Output::default() }
}

fn by_kind(partials: &[Partial]) -> Vec<(KindKey<'_>, Vec<IterationPhaseRow<'_>>)> {
    let mut kinds: BTreeMap<KindKey, Vec<IterationPhaseRow>> = BTreeMap::new();
    for r in rows::<IterationPhases>(partials) {
        let process = r.process.map(|_| r.rank);
        kinds.entry((process, r.phase, r.mode, r.requests)).or_default().push(r);
    }
    let mut out: Vec<_> = kinds.into_iter().collect();
    out.sort_by_key(|(key, of)| (Reverse(of.iter().map(|r| r.window_ns).sum::<Ns>()), *key));
    out
}

/// Iterations of one phase and batch over all their ranks, as they are told.
struct KindRate {
    period: Ns,
    /// Median over ranks.
    tokens_per_s: Option<f64>,
    /// The period is that of the windows or of the host, so that the rate is an upper bound.
    is_bound: bool,
}

impl KindRate {
    fn of(rows: &[IterationPhaseRow]) -> Self {
        let mut rates: Vec<f64> = rows.iter().filter_map(|r| r.tokens_per_s).collect();
        rates.sort_by(f64::total_cmp);
        Self {
            period: usual(rows, |r| r.period_p50_ns),
            tokens_per_s: median_of_sorted(&rates),
            is_bound: rows.iter().all(|r| r.basis != "period"),
        }
    }
}

/// The median over rows; 0 without rows.
fn usual(rows: &[IterationPhaseRow], of_row: fn(&IterationPhaseRow) -> Ns) -> Ns {
    median(&mut rows.iter().map(of_row).collect::<Vec<Ns>>()).unwrap_or(0)
}

/// Largest number of phases and batches in the line under the head of the report.
const TOLD_KINDS: usize = 3;

/// Phase, batch, time a token and tokens a second of the iterations that take most of the time.
fn headline(partials: &[Partial]) -> Option<String> {
    let kinds = by_kind(partials);
    let one = |((_, phase, mode, requests), of): &(KindKey, Vec<IterationPhaseRow>)| {
        let rate = KindRate::of(of);
        let (low, high) = if rate.is_bound { ("at least ", "at most ") } else { ("", "") };
        let mut what = phase.or(*mode).unwrap_or("iterations").to_string();
        if let Some(n) = requests {
            what.push_str(&format!(", batch {n}"));
        }
        let tokens = rate.tokens_per_s.filter(|r| *r > 0.0);
        // Each request of a batch that decodes gets its next token when the iteration ends.
        let each = requests.zip(tokens).filter(|_| *phase == Some("decode"));
        let time = match each {
            Some((n, rate)) => format!("{} a token", fmt_ns((n as f64 / rate * 1e9).round() as Ns)),
            None => format!("{} an iteration", fmt_ns(rate.period)),
        };
        let rate = tokens.map_or(String::new(), |r| format!(", {high}{} tokens/s", fmt_number(r)));
        format!("{what}: {low}{time}{rate}")
    };
    let mut told: Vec<String> = kinds.iter().take(TOLD_KINDS).map(one).collect();
    if kinds.len() > TOLD_KINDS {
        told.push(format!("{} in hta iterations", plural(kinds.len() - TOLD_KINDS, "more kind")));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// By which rule iterations were found that no engine named.
fn how_found(all: &[IterationRow]) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(r) = all.iter().find(|r| r.rule == StepRule::InnerAnnotation.name()) {
        let name = r.mode.unwrap_or_default();
        out.push(format!("no engine named these iterations: ranges `{name}` repeat inside another one"));
    }
    if all.iter().any(|r| r.rule == StepRule::Repeat.name()) {
        out.push(
            "no range names these iterations: kernels of a stream repeat, each time from the first launch to \
             the last"
                .to_string(),
        );
    }
    out
}

/// Count and summed duration of all activities of iterations, by category and part, the largest first.
fn categories(partials: &[Partial]) -> Vec<(String, u64, Ns)> {
    let mut sums: BTreeMap<(&str, &str), (u64, Ns)> = BTreeMap::new();
    for r in rows::<IterationCategories>(partials) {
        let sum = sums.entry((r.category, r.sub_category)).or_default();
        sum.0 += r.activity_count;
        sum.1 += r.sum_ns;
    }
    let name = |(category, part): (&str, &str)| match part {
        "" => category.to_string(),
        part => format!("{category}, {part}"),
    };
    let mut out: Vec<(String, u64, Ns)> =
        sums.into_iter().map(|(key, (count, ns))| (name(key), count, ns)).collect();
    out.sort_by(|a, b| (Reverse(a.2), &a.0).cmp(&(Reverse(b.2), &b.0)));
    out
}

fn observations(partials: &[Partial], all: &[IterationRow]) -> Vec<Observation> {
    let recorded: Vec<IterationRow> = all.iter().filter(|r| !r.is_lost).copied().collect();
    let mut out = Vec::from_iter(lost(all));
    out.push(busy(&recorded));
    out.extend(host_bound(&recorded));
    out.extend(largest_category(partials, &recorded));
    out.extend(slow(&recorded));
    out.extend(partial(&recorded));
    out
}

/// About some iterations, of `count` together; `cost` and `of` are sums over them and over all.
fn observation(some: &[&IterationRow], count: usize, cost: Ns, of: Ns, sentence: String) -> Observation {
    let ranks: BTreeSet<u32> = some.iter().map(|r| r.rank).collect();
    Observation {
        analysis: "iterations",
        ranks: ranks.into_iter().collect(),
        steps: Vec::new(),
        cost_ns_per_step: cost / count.max(1) as Ns,
        share_of_step: percent(cost, of).map(|p| p / 100.0),
        certainty: Certainty::Measured,
        sentence,
        table: "iterations",
    }
}

/// The busy share of the windows, and when the device idles otherwise.
fn busy(all: &[IterationRow]) -> Observation {
    let sum = |of: fn(&IterationRow) -> Ns| all.iter().map(of).sum::<Ns>();
    let (window, period) = (sum(|r| r.dur_ns), sum(|r| r.period_ns));
    let parts = [
        ("before the first graph launch call", sum(|r| r.idle_before_graph_ns)),
        ("inside graph launch calls", sum(|r| r.idle_in_graph_call_ns)),
        ("between iterations", sum(|r| r.gap_idle_ns.unwrap_or(0))),
    ];
    let (n, bare) = (plural(all.len(), "iteration"), sum(|r| r.bare_communication_ns));
    let (busy, share) = (pct(sum(|r| r.window_busy_ns), window), pct(bare, period));
    let is_bare = percent(bare, period).is_some_and(|p| p > IDLE_PCT);
    let (mut sentence, device) = if is_bare {
        (format!("{share} of the periods of {n} is communication that no compute hides"), "the GPU")
    } else {
        (format!("GPU busy {busy} of the windows of {n}"), "it")
    };
    let large: Vec<String> = parts
        .iter()
        .filter(|(_, ns)| percent(*ns, period).is_some_and(|p| p > IDLE_PCT))
        .map(|(when, ns)| format!("{} of the periods {when}", pct(*ns, period)))
        .collect();
    if !large.is_empty() {
        sentence.push_str(&format!("; {device} idles {}", large.join(", ")));
    }
    sentence.push('.');
    let idle = sum(|r| r.idle_ns) + parts[2].1;
    observation(&all.iter().collect::<Vec<_>>(), all.len(), idle, period, sentence)
}

fn pct(part: Ns, whole: Ns) -> String {
    fmt_pct(percent(part, whole))
}

/// Iterations whose host needs as long as their period.
fn host_bound(all: &[IterationRow]) -> Option<Observation> {
    let bound: Vec<&IterationRow> = all.iter().filter(|r| r.is_host_bound).collect();
    if bound.is_empty() {
        return None;
    }
    let sum = |of: fn(&IterationRow) -> Ns| bound.iter().map(|r| of(r)).sum::<Ns>();
    let gain = sum(|r| r.period_ns - r.window_busy_ns - r.gap_ns.unwrap_or(0) + r.gap_idle_ns.unwrap_or(0));
    let first = if bound.iter().all(|r| r.is_first) { FIRST } else { "" };
    let sentence = format!(
        "{} of {} bound by the host, whose cycle takes {} of a period of {} on average: at most {} each to \
         gain{first}.",
        bound.len(),
        if all.len() == 1 { "1 iteration is".to_string() } else { format!("{} iterations are", all.len()) },
        fmt_ns(sum(|r| r.host_cycle_ns) / bound.len() as Ns),
        fmt_ns(sum(|r| r.period_ns) / bound.len() as Ns),
        fmt_ns(gain / bound.len() as Ns),
    );
    Some(observation(&bound, all.len(), gain, all.iter().map(|r| r.period_ns).sum(), sentence))
}

/// Said where only the first iteration shows it.
const FIRST: &str = " (first iteration after the profiler started)";

/// A fact without advice, so it has no cost.
fn largest_category(partials: &[Partial], all: &[IterationRow]) -> Option<Observation> {
    let of = categories(partials);
    let total: Ns = of.iter().map(|c| c.2).sum();
    let (name, count, ns) = of.first().filter(|c| percent(c.2, total).is_some_and(|p| p > CATEGORY_PCT))?;
    let sentence = format!(
        "{} of the GPU time of iterations is {}: {} ({} recorded).",
        pct(*ns, total),
        name.replace('_', " "),
        fmt_ns(*ns),
        fmt_count(*count),
    );
    Some(Observation {
        share_of_step: None,
        ..observation(&all.iter().collect::<Vec<_>>(), all.len(), 0, 0, sentence)
    })
}

/// Iterations that take longer than others of their phase and batch.
fn slow(all: &[IterationRow]) -> Option<Observation> {
    let slow: Vec<&IterationRow> = all.iter().filter(|r| r.is_slow == Some(true)).collect();
    let work = |r: &IterationRow| (r.dur_ns + r.post_busy_ns.unwrap_or(0), Reverse((r.rank, r.step)));
    let longest = slow.iter().max_by_key(|r| work(r))?;
    let after = match longest.post_busy_ns {
        Some(ns) if ns * 2 >= longest.dur_ns => format!(" and {} of work before the next one", fmt_ns(ns)),
        _ => String::new(),
    };
    let sentence = format!(
        "{} of {} slower than others of their phase and batch; the longest, @{} of rank {} ({}), takes \
         {}{after}.",
        slow.len(),
        plural(all.len(), "iteration"),
        longest.step,
        longest.rank,
        longest.label,
        fmt_ns(longest.dur_ns),
    );
    Some(Observation { share_of_step: None, ..observation(&slow, all.len(), 0, 0, sentence) })
}

/// Iterations of which all work is missing.
fn lost(all: &[IterationRow]) -> Option<Observation> {
    let lost: Vec<&IterationRow> = all.iter().filter(|r| r.is_lost).collect();
    lost.first()?;
    let sentence = format!(
        "{} of {} launched work that is not recorded: they are in no average, and nothing is known of their \
         time on the GPU. Record fewer iterations, or with a larger buffer of the profiler.",
        lost.len(),
        plural(all.len(), "iteration"),
    );
    let certainty = Certainty::OfRecording;
    Some(Observation { share_of_step: None, certainty, ..observation(&lost, all.len(), 0, 0, sentence) })
}

/// Iterations of which work is missing.
fn partial(all: &[IterationRow]) -> Option<Observation> {
    let partial: Vec<&IterationRow> = all.iter().filter(|r| r.is_partial).collect();
    let first = partial.first()?;
    let sentence = format!(
        "{} of {} partial, the first @{} of rank {}: cut by the recording, a launch without its work, or \
         much less work than others of their phase and batch (record_edges); they are in no average.",
        partial.len(),
        if all.len() == 1 { "1 iteration is".to_string() } else { format!("{} iterations are", all.len()) },
        first.step,
        first.rank,
    );
    let certainty = Certainty::OfRecording;
    Some(Observation { share_of_step: None, certainty, ..observation(&partial, all.len(), 0, 0, sentence) })
}
