//! What was left out, corrected or refused.

use crate::output::columns::hanging;
use crate::output::text::heading;
use crate::run::{Outcome, Refused};
use hta_base::health::{Counter, CounterTally, Severity};
use hta_base::units::fmt_count;
use hta_base::wording::counts::{capital, plural};
use hta_base::wording::ranks::ranks_named;
use hta_job::recording::rules::class_doubts;
use hta_read::error::ReadError;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What was left out, corrected or refused, and why; worst first.
pub(super) fn problems(out: &mut String, outcome: &Outcome, width: usize, is_full: bool) {
    let mut lines: Vec<(&str, String)> = outcome.refused.iter().map(refusal).collect();
    let merged = merged(outcome);
    lines.extend(counted_lines(outcome, &merged, is_full));
    let notes = merged.keys().filter(|(severity, _)| severity.0 == Severity::Info).count();
    if lines.is_empty() && (notes == 0 || !is_full) {
        return;
    }
    heading(out, "About the input");
    for (kind, line) in &lines {
        hanging(out, &format!("{kind:<10}"), line, width);
    }
    if lines.is_empty() {
        let _ = writeln!(out, "nothing was left out or corrected");
    }
    if notes > 0 {
        let _ = writeln!(
            out,
            "{} of harmless oddities {} in the `health` table",
            plural(notes, "kind"),
            if notes == 1 { "is" } else { "are" }
        );
    }
}

/// The line of a file that was not analysed.
fn refusal(r: &Refused) -> (&'static str, String) {
    match &r.error {
        ReadError::NotATrace { file, what, .. } if !r.is_loss() => ("skipped", format!("{file}: {what}")),
        ReadError::FrontEnd { file } => ("skipped", format!("{file}: process without GPU work (front end?)")),
        ReadError::MergedCopy { file } => {
            ("skipped", format!("{file}: a merged file of ranks whose files are beside it"))
        }
        ReadError::TwinOfJson { file } => {
            ("skipped", format!("{file}: the recording of the JSON file beside it, which says more"))
        }
        ReadError::OtherEvents { file, categories } if !r.is_loss() => {
            ("skipped", format!("{file}: TrackEvents of another program ({categories})"))
        }
        ReadError::NothingRecorded { file, what } if !r.is_loss() => ("skipped", format!("{file}: {what}")),
        error => ("refused", error.to_string()),
    }
}

/// By severity and counter: its ranks, and their counts together.
type CountedProblems = BTreeMap<(Reverse<Severity>, Counter), (Vec<u32>, CounterTally)>;

fn merged(outcome: &Outcome) -> CountedProblems {
    let mut merged = CountedProblems::new();
    for (rank, _, health) in &outcome.rank_health {
        for (counter, tally) in health.iter() {
            let key = (Reverse(counter.spec().severity), counter);
            let entry = merged.entry(key).or_insert_with(|| (Vec::new(), tally.clone()));
            if !entry.0.is_empty() {
                entry.1.count += tally.count;
            }
            entry.0.push(*rank);
        }
    }
    merged
}

/// The lines of counters with their kinds: of the ranks, then of the set.
fn counted_lines(outcome: &Outcome, merged: &CountedProblems, is_full: bool) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for ((severity, counter), (ranks, tally)) in merged.iter().filter(|(k, _)| k.0.0 != Severity::Info) {
        let spec = counter.spec();
        let mut line = format!("{} x {}: {}", fmt_count(tally.count), spec.name, spec.doc);
        if outcome.rank_health.len() > 1 {
            let _ = write!(line, " ({})", ranks_named(ranks));
        }
        if !tally.example.is_empty() {
            let _ = write!(line, " e.g. `{}`", tally.example);
        } else if let Some(byte) = tally.first_byte {
            let _ = write!(line, ", first at byte {byte}");
        }
        lines.push((severity.0.name(), line));
    }
    // The number of a single rank tells nothing apart.
    let is_only = |counter: Counter| counter == Counter::RankByPosition && outcome.ranks().len() == 1;
    for (counter, tally) in outcome.set_health.iter().filter(|(counter, _)| is_full || !is_only(*counter)) {
        let mut line = format!("{}: {}", counter.spec().name, counter.spec().doc);
        if !tally.example.is_empty() {
            let _ = write!(line, " ({}{})", tally.example, if tally.count > 1 { ", ..." } else { "" });
        }
        lines.push(("note", line));
    }
    for limit in class_doubts(&outcome.recording) {
        lines.push(("note", format!("{}. {}", capital(&limit.sentence), capital(&limit.next))));
    }
    for (counter, (ranks, _)) in merged.iter().map(|((_, c), v)| (c, v)) {
        if *counter == Counter::NoCommunicationFound {
            lines.push(("note", format!("{} ({})", counter.spec().doc, ranks_named(ranks))));
        }
    }
    lines
}

/// One line per loss, for standard error when a single table is printed.
pub fn loss_lines(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for (rank, file, health) in &outcome.rank_health {
        for (counter, tally) in health.iter().filter(|(c, _)| c.spec().severity >= Severity::Lost) {
            lines.push(format!(
                "hta: rank {rank} ({file}): {} x {}: {}",
                fmt_count(tally.count),
                counter.spec().name,
                counter.spec().doc
            ));
        }
    }
    lines
}
