//! Describes slow steps in words: the cause of each, and their total cost.

use crate::api::{Certainty, Observation, Partial, rows};
use crate::job::delay::StepKey;
use crate::steps::join::SlowStep;
use crate::steps::tables::{SlowStepRow, SlowSteps, StepRow, StepSummary, StepSummaryRow, StepsTable};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_base::wording::counts::capital;
use hta_base::wording::counts::plural;
use hta_base::wording::names::clip;
use hta_trace::kernel::short_name;
use std::cmp::Reverse;

/// Smallest share of the steps' time for an observation about slow steps, percent.
const LEAST_PCT: f64 = 0.5;

/// Number of steps listed in a sentence.
const LISTED: usize = 6;

/// A duration with its sign: `+1.20 ms`, `-300 us`, `0 ns`.
pub(crate) fn signed(ns: Ns) -> String {
    if ns > 0 { format!("+{}", fmt_ns(ns)) } else { fmt_ns(ns) }
}

/// The largest cause of a slow step in words, and its certainty.
pub(crate) fn cause(a: &SlowStepRow) -> (String, Certainty) {
    let time = match a.largest {
        "compute" => a.compute_diff_ns,
        "exposed_communication" => a.exposed_communication_diff_ns,
        "copies" => a.copies_diff_ns,
        "fused" => a.fused_diff_ns,
        _ => a.idle_diff_ns,
    };
    let kernel = || {
        let (name, ns) = (a.work_name?, a.work_diff_ns.unwrap_or(0));
        // A small part explains nothing.
        if ns * 4 < time {
            return None;
        }
        let more = match a.work_count_diff.unwrap_or(0) {
            0 => String::new(),
            n if n > 0 => format!(", {}", plural(n as usize, "more call")),
            n => format!(", {}", plural(n.unsigned_abs() as usize, "fewer call")),
        };
        Some(format!(", the largest part in `{}` ({}{more})", clip(&short_name(name), 50), signed(ns)))
    };
    let with_kernel = |text: String| (text + &kernel().unwrap_or_default(), Certainty::Measured);
    match a.largest {
        "compute" => with_kernel(format!("{} more compute", fmt_ns(time))),
        "exposed_communication" => with_kernel(format!("{} more waiting or transfer", fmt_ns(time))),
        "copies" => with_kernel(format!("{} more copies and sets", fmt_ns(time))),
        "fused" => {
            with_kernel(format!("{} more in fused kernels (product, exchange or waiting)", fmt_ns(time)))
        }
        _ => idle_cause(a, time),
    }
}

fn idle_cause(a: &SlowStepRow, time: Ns) -> (String, Certainty) {
    let parts = [a.host_wait_diff_ns, a.kernel_wait_diff_ns, a.other_diff_ns];
    let text = format!("{} more idle", fmt_ns(time));
    if parts[0] >= parts[1].max(parts[2]) {
        let used = match (a.host_activity, a.host_name) {
            (Some("annotation"), Some("[step]")) => "the step, outside any operator".to_string(),
            (Some(activity), Some(name)) => format!("{} `{}`", activity.replace('_', " "), clip(name, 60)),
            (Some("untracked"), None) => "nothing that was recorded".to_string(),
            (Some(activity), None) => activity.replace('_', " "),
            (None, _) => return (text, Certainty::Measured),
        };
        let spends = format!(
            ", waiting for the host, which spends {} more in {used}",
            fmt_ns(a.host_diff_ns.unwrap_or(0))
        );
        return (text + &spends, Certainty::Inferred);
    }
    let why = if parts[2] >= parts[1] {
        ": work was submitted but could not start, or its launch is unknown"
    } else {
        ", between launches and starts"
    };
    (text + why, Certainty::Measured)
}

/// The observation: the cost of slow steps on the rank that loses most in them.
pub(crate) fn observation(partials: &[Partial], found: &[SlowStep]) -> Option<Observation> {
    let summary = rows::<StepSummary>(partials).max_by_key(|s| (s.slow_ns, Reverse(s.rank)))?;
    let (rank, lost, total) = (summary.rank, summary.slow_ns, summary.dur_ns);
    let share = percent(lost, total);
    if lost == 0 || share.is_none_or(|s| s < LEAST_PCT) {
        return None;
    }
    let own: Vec<&SlowStep> = found.iter().filter(|s| s.slow.contains(&rank)).collect();
    let steps: Vec<StepRow> = partials.iter().find(|p| p.rank == rank)?.rows::<StepsTable>().collect();
    let is_slow = |s: &&StepRow| s.is_slow == Some(true);
    let slow: Vec<String> =
        steps.iter().filter(is_slow).map(|s| StepKey::new(s.step, s.step_label).shown()).collect();
    let counted =
        steps.iter().filter(|s| !s.is_partial || summary.full_count == 0 || is_slow(s)).count() as i64;
    let (median, slowest) = (summary.usual_ns, summary.slowest_ns);
    let mut sentence = match slow.len() {
        1 => format!("Step {}{} takes {}", slow[0], of_rank(partials, rank), fmt_ns(slowest)),
        n => format!(
            "{} of {}{} are slow ({}), by {} together; the slowest, {}, takes {}",
            n,
            plural(counted as usize, "step"),
            of_rank(partials, rank),
            listed(&slow),
            fmt_ns(lost),
            StepKey::new(summary.slowest_step, summary.slowest_label).shown(),
            fmt_ns(slowest),
        ),
    };
    sentence.push_str(&format!(
        ", {} longer than the median of {}",
        fmt_ns(slowest - median),
        fmt_ns(median)
    ));
    let mut certainty = Certainty::Measured;
    // The slowest step of the rank, and the rank that is slow by itself in it.
    if let Some(s) = own.iter().find(|s| is_slowest(s, &summary)) {
        let extent = match (s.ranks, s.slow.len()) {
            (0 | 1, _) => String::new(),
            (n, k) if k == n as usize => format!(" (slow on all {n} ranks)"),
            (_, 1) => " (slow on this rank only)".to_string(),
            (n, k) => format!(" (slow on {k} of {n} ranks)"),
        };
        sentence.push_str(&extent);
        let (text, sure) = cause(&s.worst);
        let speaker =
            if s.worst.rank == rank { String::new() } else { format!("rank {} has ", s.worst.rank) };
        sentence.push_str(&format!(": {speaker}{text}"));
        certainty = sure;
    }
    Some(Observation {
        analysis: "steps",
        ranks: vec![rank],
        steps: slow,
        cost_ns_per_step: lost / counted.max(1),
        share_of_step: share.map(|s| s / 100.0),
        certainty,
        sentence: capital(&sentence),
        table: SlowSteps::SPEC.name,
    })
}

/// Whether the step is the longest one of the summary's rank.
fn is_slowest(s: &SlowStep, summary: &StepSummaryRow) -> bool {
    let index = Some(i64::from(summary.slowest_step));
    (if s.joined_by == "label" { summary.slowest_label } else { index }) == Some(s.key)
}

fn of_rank(partials: &[Partial], rank: u32) -> String {
    if partials.len() > 1 { format!(" of rank {rank}") } else { String::new() }
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let shown = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
