//! The report on the steps of all ranks: their durations, variation, and what takes longer in slow ones.

use crate::api::{Align, Options, Output, Partial, View};
use crate::job::delay::StepKey;
use crate::population::reasons;
use crate::steps::join::{SlowStep, join, labels_are_unique, rules, slow_steps};
use crate::steps::tables::{SlowStepRow, SlowSteps, StepRow, StepSummary, StepSummaryRow, StepsTable};
use crate::steps::words::{cause, observation, signed};
use crate::summary::Summary;
use crate::worst_first::WorstFirst;
use hta_base::units::{fmt_ns, fmt_pct};
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::{rank_list, ranks_named};
use hta_trace::step::StepRule;
use std::cmp::Reverse;

/// Number of marks in a row of steps.
const STEPS_SHOWN: usize = 24;

/// Number of slow steps described by a sentence below their table.
const SENTENCES: usize = 3;

pub fn reduce(partials: &[Partial], options: &Options) -> Output {
    let by_label = labels_are_unique(partials);
    let comparable = rules(partials).len() == 1 && partials.len() > 1;
    let found = slow_steps(partials, if by_label { "label" } else { "index" }, comparable);
    let mut tables = Vec::new();
    for spec in [StepsTable::SPEC, StepSummary::SPEC] {
        tables.extend(partials.iter().filter_map(|p| p.table(spec).cloned()));
    }
    for partial in partials {
        let Some(batch) = partial.table(SlowSteps::SPEC) else { continue };
        tables.push(if comparable { join(batch, &found, by_label) } else { batch.clone() });
    }
    let mut views = vec![overview(partials, options)];
    let several_devices = found.iter().any(|s| s.several_devices);
    views.extend((!found.is_empty()).then(|| slow_view(&found, options, comparable, several_devices)));
    Output {
        tables,
        observations: observation(partials, &found).into_iter().collect(),
        views,
        ..Output::default()
    }
}

fn overview(partials: &[Partial], options: &Options) -> View {
    let mut view = View {
        title: "How long steps take".to_string(),
        columns: vec![
            ("ranks", Align::Left),
            ("full steps", Align::Right),
            ("median", Align::Right),
            ("longest", Align::Right),
            ("vary by", Align::Right),
            ("slow", Align::Right),
            ("over the median", Align::Left),
        ],
        rows: Vec::new(),
        notes: reasons(partials),
    };
    let summaries = partials.iter().filter_map(|p| Some((p, p.rows::<StepSummary>().next()?)));
    let (unmarked, marked): (Vec<_>, Vec<(&Partial, StepSummaryRow)>) =
        summaries.partition(|(_, s)| s.step_rule == StepRule::Capture.name());
    if !unmarked.is_empty() {
        let ranks = rank_list(&Vec::from_iter(unmarked.iter().map(|(p, _)| p.rank)));
        view.notes.push(format!("rank {ranks}: no step marks, the whole capture counts as one step"));
    }
    let shown = WorstFirst::new(&marked, options.top, |(_, s)| s.slow_ns);
    let shown = shown.rows(
        |(p, _)| (p.rank, String::new()),
        |name, of| {
            let sum =
                |count: fn(&StepSummaryRow) -> u32| of.iter().map(|(_, s)| u64::from(count(s))).sum::<u64>();
            let median = Summary::new(of.iter().map(|(_, s)| s.median_ns).collect()).p50;
            let longest = of.iter().map(|(_, s)| s.slowest_ns).max().unwrap_or(0);
            let one = match of {
                [one] => Some(one),
                _ => None,
            };
            let variation = one.and_then(|(_, s)| s.variation_ratio).map(|v| 100.0 * v);
            let judged = of.iter().any(|(_, s)| s.slow_above_ns.is_some());
            vec![
                name,
                format!("{} of {}", sum(|s| s.full_count), sum(|s| s.step_count)),
                fmt_ns(median),
                fmt_ns(longest),
                fmt_pct(variation),
                if judged { sum(|s| s.slow_count).to_string() } else { "-".to_string() },
                one.map(|(p, _)| picture(&p.rows::<StepsTable>().collect::<Vec<_>>())).unwrap_or_default(),
            ]
        },
    );
    let how = "sums, median of the medians and longest";
    view.notes.extend(shown.others_note("rank", how, "whose slow steps cost no more"));
    view.rows = shown.rows;
    let total = marked.iter().map(|(_, s)| s.step_count).max().unwrap_or(0);
    if !view.rows.is_empty() {
        view.notes.push(
            "over the median: . below 5 %, - 5 %, + 10 %, # 25 %, @ 100 % or more; _ a partial step that is \
             not slow"
                .to_string(),
        );
        view.notes.push("median, variation (standard deviation by mean): over full steps".to_string());
    }
    if let Some((p, s)) = marked.iter().find(|(_, s)| s.period.is_some()) {
        let every = s.period.unwrap_or(1);
        let first = p.rows::<StepsTable>().find(|r| Some(r.step) == s.period_first);
        let from = first.map_or_else(String::new, |r| StepKey::new(r.step, r.step_label).shown());
        view.notes.push(format!(
            "every {every} steps (from step {from} on) one launches more work, as with accumulated \
             gradients: it is compared with its like, and {every} steps are the unit, {} by the medians",
            fmt_ns(s.period_ns.unwrap_or(0))
        ));
    }
    if total as usize > STEPS_SHOWN {
        view.notes.push(format!("with more than {STEPS_SHOWN} steps a mark is the longest of several"));
    }
    let all_partial: Vec<u32> =
        marked.iter().filter(|(_, s)| s.full_count == 0).map(|(p, _)| p.rank).collect();
    if !all_partial.is_empty() {
        view.notes.push(format!("{}: no step is full, all count", ranks_named(&all_partial)));
    }
    view
}

/// A row of marks, one per step or per group of steps: how far the longest is above the median.
fn picture(steps: &[StepRow]) -> String {
    let n = steps.len();
    let cells = n.min(STEPS_SHOWN);
    let mark = |step: &StepRow| {
        let over = step.ratio_to_median.unwrap_or(1.0) - 1.0;
        match over {
            _ if step.is_slow != Some(true) && step.is_partial => (0, '_'),
            x if x >= 1.0 => (5, '@'),
            x if x >= 0.25 => (4, '#'),
            x if x >= 0.1 => (3, '+'),
            x if x >= 0.05 => (2, '-'),
            _ => (1, '.'),
        }
    };
    (0..cells)
        .filter_map(|c| steps[c * n / cells..(c + 1) * n / cells].iter().map(mark).max())
        .map(|m| m.1)
        .collect()
}

/// Slow steps, those with the largest loss first.
fn ranked<'a, 'b>(found: &'b [SlowStep<'a>]) -> Vec<&'b SlowStep<'a>> {
    let mut order: Vec<&SlowStep> = found.iter().collect();
    order.sort_by_key(|s| (Reverse(s.worst.diff_ns), s.worst.rank, s.key));
    order
}

fn slow_view(found: &[SlowStep], options: &Options, comparable: bool, several_devices: bool) -> View {
    let right = |name| (name, Align::Right);
    let mut columns = vec![("step", Align::Left), ("rank", Align::Left)];
    columns.extend(comparable.then_some(("slow on", Align::Left)));
    columns.extend(["longer by", "compute", "waiting or transfer", "copies", "idle"].map(right));
    let mut view = View {
        title: "What slow steps have more of".to_string(),
        columns,
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let order = ranked(found);
    for s in order.iter().take(options.top) {
        let a = s.worst;
        let mut row = vec![a.step_name(), who(&a, several_devices)];
        row.extend(comparable.then(|| format!("{} of {}", s.slow.len(), s.ranks)));
        let parts = [a.compute_diff_ns, a.exposed_communication_diff_ns, a.copies_diff_ns, a.idle_diff_ns];
        row.push(signed(a.diff_ns));
        row.extend(parts.map(signed));
        view.rows.push(row);
    }
    for s in order.iter().take(SENTENCES) {
        let who = if s.ranks > 1 { format!("rank {}, ", s.worst.rank) } else { String::new() };
        view.notes.push(format!("step {}: {who}{}", s.worst.step_name(), cause(&s.worst).0));
    }
    if order.len() > options.top {
        view.notes.push(format!("{} in the table", plural(order.len() - options.top, "more slow step")));
    }
    view.notes.push("against the rank's own median step; parts sum to the difference".to_string());
    if comparable && found.iter().any(|s| s.slow.len() > 1) {
        view.notes.push("of several slow ranks: the one with most that is not communication".to_string());
    }
    view
}

fn who(a: &SlowStepRow, several_devices: bool) -> String {
    match a.device {
        Some(d) if several_devices => format!("{} device {d}", a.rank),
        _ => a.rank.to_string(),
    }
}
