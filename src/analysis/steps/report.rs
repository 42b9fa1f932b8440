//! What is said of the steps of all ranks below their tables, and what takes longer in slow ones.

use crate::api::{Output, Partial, ViewNote};
use crate::steps::join::{SlowStep, join, labels_are_unique, rules, slow_steps};
use crate::steps::tables::{SLOW, STEPS_SHOWN, SlowSteps, StepSummary, StepSummaryRow, StepsTable};
use crate::steps::words::cause;
use hta_base::units::fmt_ns;
use hta_base::wording::ranks::{rank_list, ranks_named};
use hta_job::delay::StepKey;
use hta_trace::step::StepRule;
use std::cmp::Reverse;

/// Number of slow steps described by a sentence below their table.
const SENTENCES: usize = 3;

pub fn reduce(partials: &[Partial]) -> Output {
    let by_label = labels_are_unique(partials);
    let comparable = rules(partials).len() == 1 && partials.len() > 1;
    let found = slow_steps(partials, if by_label { "label" } else { "index" }, comparable);
    let batches = partials.iter().filter_map(|partial| partial.table(SlowSteps::SPEC));
    let tables = batches.map(|batch| join(batch, &found, by_label, comparable)).collect();
    let note = |view| move |text| ViewNote { view, text };
    let notes = of_durations(partials).into_iter().map(note(""));
    let notes = notes.chain(of_slow_steps(&found, comparable).into_iter().map(note(SLOW))).collect();
    Output { tables, notes, ..Output::default() }
}

fn of_durations(partials: &[Partial]) -> Vec<String> {
    let mut notes = Vec::new();
    let summaries = partials.iter().filter_map(|p| Some((p, p.rows::<StepSummary>().next()?)));
    let (unmarked, marked): (Vec<_>, Vec<(&Partial, StepSummaryRow)>) =
        summaries.partition(|(_, s)| s.step_rule == StepRule::Capture.name());
    let ranks_with = |holds: fn(&StepSummaryRow) -> bool| -> Vec<u32> {
        marked.iter().filter(|(_, s)| holds(s)).map(|(p, _)| p.rank).collect()
    };
    if !unmarked.is_empty() {
        let ranks = rank_list(&Vec::from_iter(unmarked.iter().map(|(p, _)| p.rank)));
        notes.push(format!("rank {ranks}: no step marks, the whole capture counts as one step"));
    }
    if let Some((p, s)) = marked.iter().find(|(_, s)| s.period.is_some()) {
        let every = s.period.unwrap_or(1);
        let first = p.rows::<StepsTable>().find(|r| Some(r.step) == s.period_first);
        let from = first.map_or_else(String::new, |r| StepKey::new(r.step, r.step_label).shown());
        notes.push(format!(
            "every {every} steps (from step {from} on) one launches more work, as with accumulated \
             gradients: it is compared with its like, and {every} steps are the unit, {} by the medians",
            fmt_ns(s.period_ns.unwrap_or(0))
        ));
    }
    if marked.iter().any(|(_, s)| s.step_count as usize > STEPS_SHOWN) {
        notes.push(format!("with more than {STEPS_SHOWN} steps a mark is the longest of several"));
    }
    let unjudged = ranks_with(|s| s.slow_above_ns.is_none());
    if !unjudged.is_empty() {
        notes.push(format!(
            "{}: no step is judged slow, with fewer than three full ones or iterations that differ",
            ranks_named(&unjudged)
        ));
    }
    let all_partial = ranks_with(|s| s.full_count == 0);
    if !all_partial.is_empty() {
        notes.push(format!("{}: no step is full, all count", ranks_named(&all_partial)));
    }
    notes
}

/// The causes of the slow steps with the largest loss.
fn of_slow_steps(found: &[SlowStep], comparable: bool) -> Vec<String> {
    let mut order: Vec<&SlowStep> = found.iter().collect();
    order.sort_by_key(|s| (Reverse(s.worst.diff_ns), s.worst.rank, s.key));
    let of_step = |s: &&SlowStep| {
        let who = if s.ranks > 1 { format!("rank {}, ", s.worst.rank) } else { String::new() };
        format!("step {}: {who}{}", s.worst.step_name(), cause(&s.worst))
    };
    let mut notes: Vec<String> = order.iter().take(SENTENCES).map(of_step).collect();
    if comparable && found.iter().any(|s| s.slow.len() > 1) {
        notes.push("of several slow ranks: the one with most that is not communication".to_string());
    }
    notes
}
