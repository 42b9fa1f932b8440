//! What is said of iterations, and the line about them under the head of a report.

use crate::api::{Output, Partial, ViewNote, rows};
use crate::iterations::phases::KindKey;
use crate::iterations::tables::{IterationPhaseRow, IterationPhases, IterationRow, IterationsTable};
use hta_base::order_statistics::{median, median_of_sorted};
use hta_base::units::{Ns, fmt_ns, fmt_number, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_trace::step::StepRule;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of idle time in the windows, or of a part of it, from which it is said, percent.
const IDLE_PCT: f64 = 5.0;

pub fn reduce(partials: &[Partial]) -> Output {
    let all: Vec<IterationRow> = rows::<IterationsTable>(partials).collect();
    if all.is_empty() {
        return Output::default();
    }
    let notes = how_found(&all).into_iter().chain(lost(&all)).chain(partial(&all)).map(ViewNote::first);
    Output { notes: notes.collect(), headline: headline(partials), ..Output::default() }
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

/// How busy the device is in iterations, and which of them the host holds up or take longer than others.
pub fn sentences(partials: &[Partial]) -> Vec<String> {
    let recorded: Vec<IterationRow> = rows::<IterationsTable>(partials).filter(|r| !r.is_lost).collect();
    [busy(&recorded), host_bound(&recorded), slow(&recorded)].into_iter().flatten().collect()
}

/// The busy share of the windows, and when the device idles otherwise.
fn busy(all: &[IterationRow]) -> Option<String> {
    all.first()?;
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
    Some(sentence)
}

fn pct(part: Ns, whole: Ns) -> String {
    fmt_pct(percent(part, whole))
}

/// Iterations whose host needs as long as their period.
fn host_bound(all: &[IterationRow]) -> Option<String> {
    let bound: Vec<&IterationRow> = all.iter().filter(|r| r.is_host_bound).collect();
    if bound.is_empty() {
        return None;
    }
    let sum = |of: fn(&IterationRow) -> Ns| bound.iter().map(|r| of(r)).sum::<Ns>();
    let gain = sum(|r| r.period_ns - r.window_busy_ns - r.gap_ns.unwrap_or(0) + r.gap_idle_ns.unwrap_or(0));
    let first = if bound.iter().all(|r| r.is_first) { FIRST } else { "" };
    Some(format!(
        "{} of {} bound by the host, whose cycle takes {} of a period of {} on average: at most {} each to \
         gain{first}.",
        bound.len(),
        if all.len() == 1 { "1 iteration is".to_string() } else { format!("{} iterations are", all.len()) },
        fmt_ns(sum(|r| r.host_cycle_ns) / bound.len() as Ns),
        fmt_ns(sum(|r| r.period_ns) / bound.len() as Ns),
        fmt_ns(gain / bound.len() as Ns),
    ))
}

/// Said where only the first iteration shows it.
const FIRST: &str = " (first iteration after the profiler started)";

/// Iterations that take longer than others of their phase and batch.
fn slow(all: &[IterationRow]) -> Option<String> {
    let slow: Vec<&IterationRow> = all.iter().filter(|r| r.is_slow == Some(true)).collect();
    let work = |r: &IterationRow| (r.dur_ns + r.post_busy_ns.unwrap_or(0), Reverse((r.rank, r.step)));
    let longest = slow.iter().max_by_key(|r| work(r))?;
    let after = match longest.post_busy_ns {
        Some(ns) if ns * 2 >= longest.dur_ns => format!(" and {} of work before the next one", fmt_ns(ns)),
        _ => String::new(),
    };
    Some(format!(
        "{} of {} slower than others of their phase and batch; the longest, @{} of rank {} ({}), takes \
         {}{after}.",
        slow.len(),
        plural(all.len(), "iteration"),
        longest.step,
        longest.rank,
        longest.label,
        fmt_ns(longest.dur_ns),
    ))
}

/// Iterations of which all work is missing.
fn lost(all: &[IterationRow]) -> Option<String> {
    let lost = all.iter().filter(|r| r.is_lost).count();
    (lost > 0).then(|| {
        format!(
            "{lost} of {} launched work that is not recorded: they are in no average, and nothing is known of \
             their time on the GPU. Record fewer iterations, or with a larger buffer of the profiler.",
            plural(all.len(), "iteration"),
        )
    })
}

/// Iterations of which work is missing.
fn partial(all: &[IterationRow]) -> Option<String> {
    let partial: Vec<&IterationRow> = all.iter().filter(|r| r.is_partial).collect();
    let first = partial.first()?;
    Some(format!(
        "{} of {} partial, the first @{} of rank {}: cut by the recording, a launch without its work, or \
         much less work than others of their phase and batch (record_edges); they are in no average.",
        partial.len(),
        if all.len() == 1 { "1 iteration is".to_string() } else { format!("{} iterations are", all.len()) },
        first.step,
        first.rank,
    ))
}
