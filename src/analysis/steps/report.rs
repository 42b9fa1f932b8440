//! The report on the steps of all ranks: their durations, variation, and what takes longer in slow ones.

use crate::analysis::api::{Align, Options, Output, Partial, View};
use crate::analysis::population::reasons;
use crate::analysis::steps::join::{At, SlowStep, join, labels_are_unique, rules, slow_steps};
use crate::analysis::steps::tables::{SlowSteps, StepSummary, StepsTable};
use crate::analysis::steps::words::{cause, finding, signed};
use crate::analysis::summary::Summary;
use crate::analysis::worst_first::WorstFirst;
use crate::table::schema::Batch;
use crate::trace::step::StepRule;
use crate::units::{fmt_ns, fmt_pct};
use crate::wording::counts::plural;
use crate::wording::ranks::rank_list;
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
        let mut batch = batch.clone();
        if comparable {
            join(&mut batch, &found, by_label);
        }
        tables.push(batch);
    }
    let mut views = vec![overview(partials, options)];
    let several_devices = found.iter().any(|s| s.several_devices);
    views.extend((!found.is_empty()).then(|| slow_view(&found, options, comparable, several_devices)));
    Output { tables, findings: finding(partials, &found).into_iter().collect(), views, raw: None }
}

fn overview(partials: &[Partial], options: &Options) -> View {
    let mut view = View {
        title: "How long steps take".to_string(),
        columns: vec![
            ("rank", Align::Left),
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
    let marked: Vec<(&Partial, &Batch)> = partials
        .iter()
        .filter_map(|p| Some((p, p.table(StepSummary::SPEC)?)))
        .filter(|(_, b)| !b.is_empty() && b.text("step_rule", 0) != Some(StepRule::Capture.name()))
        .collect();
    let unmarked: Vec<u32> = partials
        .iter()
        .filter(|p| p.table(StepSummary::SPEC).and_then(|b| b.text("step_rule", 0)) == Some(StepRule::Capture.name()))
        .map(|p| p.rank)
        .collect();
    if !unmarked.is_empty() {
        let ranks = rank_list(&unmarked);
        view.notes.push(format!("rank {ranks}: no step marks, the whole capture counts as one step"));
    }
    let int = |b: &Batch, column: &str| b.int(column, 0).unwrap_or(0);
    let shown = WorstFirst::new(&marked, options.top, |(_, b)| int(b, "slow_ns"));
    view.rows = shown.rows(
        |(p, _)| p.rank.to_string(),
        |name, of| {
            let sum = |column: &str| of.iter().map(|(_, b)| int(b, column)).sum::<i64>();
            let median = Summary::new(of.iter().map(|(_, b)| int(b, "median_ns")).collect()).p50;
            let longest = of.iter().map(|(_, b)| int(b, "slowest_ns")).max().unwrap_or(0);
            let one = match of {
                [one] => Some(one),
                _ => None,
            };
            let variation = one.and_then(|(_, b)| b.float("variation_ratio", 0)).map(|v| 100.0 * v);
            let judged = of.iter().any(|(_, b)| b.int("slow_above_ns", 0).is_some());
            vec![
                name,
                format!("{} of {}", sum("full_count"), sum("step_count")),
                fmt_ns(median),
                fmt_ns(longest),
                fmt_pct(variation),
                if judged { sum("slow_count").to_string() } else { "-".to_string() },
                one.and_then(|(p, _)| p.table(StepsTable::SPEC)).map(picture).unwrap_or_default(),
            ]
        },
    );
    let how = "sums, median of the medians and longest";
    view.notes.extend(shown.others_note("rank", how, "whose slow steps cost no more"));
    let total = shown.each.iter().map(|(_, b)| int(b, "step_count")).max().unwrap_or(0);
    if !view.rows.is_empty() {
        view.notes.push(
            "over the median: . below 5 %, - 5 %, + 10 %, # 25 %, @ 100 % or more; _ a partial step that is not slow"
                .to_string(),
        );
        view.notes.push("median, variation (standard deviation by mean): over full steps".to_string());
    }
    if total > STEPS_SHOWN as i64 {
        view.notes.push(format!("with more than {STEPS_SHOWN} steps a mark is the longest of several"));
    }
    let all_partial: Vec<u32> = marked.iter().filter(|(_, b)| int(b, "full_count") == 0).map(|(p, _)| p.rank).collect();
    if !all_partial.is_empty() {
        let s = if all_partial.len() == 1 { "" } else { "s" };
        view.notes.push(format!("rank{s} {}: no step is full, all count", rank_list(&all_partial)));
    }
    view
}

/// A row of marks, one per step or per group of steps: how far the longest is above the median.
fn picture(steps: &Batch) -> String {
    let n = steps.len();
    let cells = n.min(STEPS_SHOWN);
    let mark = |row: usize| {
        let over = steps.float("ratio_to_median", row).unwrap_or(1.0) - 1.0;
        let is_slow = steps.int("is_slow", row) == Some(1);
        match over {
            _ if !is_slow && steps.int("is_partial", row) == Some(1) => (0, '_'),
            x if x >= 1.0 => (5, '@'),
            x if x >= 0.25 => (4, '#'),
            x if x >= 0.1 => (3, '+'),
            x if x >= 0.05 => (2, '-'),
            _ => (1, '.'),
        }
    };
    (0..cells).filter_map(|c| (c * n / cells..(c + 1) * n / cells).map(mark).max()).map(|m| m.1).collect()
}

/// Slow steps, those that lose most first.
fn ranked<'a, 'b>(found: &'b [SlowStep<'a>]) -> Vec<&'b SlowStep<'a>> {
    let mut order: Vec<&SlowStep> = found.iter().collect();
    order.sort_by_key(|s| (Reverse(s.worst.int("diff_ns")), s.worst.rank, s.key));
    order
}

fn slow_view(found: &[SlowStep], options: &Options, comparable: bool, several_devices: bool) -> View {
    let right = |name| (name, Align::Right);
    let mut columns = vec![("step", Align::Left), ("rank", Align::Left)];
    columns.extend(comparable.then_some(("slow on", Align::Left)));
    columns.extend(["longer by", "compute", "exp. comm", "exp. mem", "idle"].map(right));
    let mut view =
        View { title: "What slow steps have more of".to_string(), columns, rows: Vec::new(), notes: Vec::new() };
    let order = ranked(found);
    for s in order.iter().take(options.top) {
        let a = s.worst;
        let mut row = vec![a.name(), who(&a, several_devices)];
        row.extend(comparable.then(|| format!("{} of {}", s.slow.len(), s.ranks)));
        for column in
            ["diff_ns", "compute_diff_ns", "exposed_communication_diff_ns", "exposed_memory_diff_ns", "idle_diff_ns"]
        {
            row.push(signed(a.int(column)));
        }
        view.rows.push(row);
    }
    for s in order.iter().take(SENTENCES) {
        let who = if s.ranks > 1 { format!("rank {}, ", s.worst.rank) } else { String::new() };
        view.notes.push(format!("step {}: {who}{}", s.worst.name(), cause(&s.worst).0));
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

fn who(a: &At, several_devices: bool) -> String {
    match a.batch.int("device", a.row) {
        Some(d) if several_devices => format!("{} device {d}", a.rank),
        _ => a.rank.to_string(),
    }
}
