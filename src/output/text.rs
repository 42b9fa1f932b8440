//! The text report: the most important findings, problems of the input, then tables.

use crate::analysis::api::{self, Finding, Output};
use crate::analysis::inventory::record_edges;
use crate::analysis::inventory::{KernelRules, RankRow, Ranks};
use crate::health::{Counter, Severity, Tally};
use crate::output::columns::{set, wrap};
use crate::output::visible;
use crate::run::Outcome;
use crate::units::{Ns, fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use crate::wording::counts::{counted, plural};
use crate::wording::ranks::{missing_ranks, rank_list};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Largest number of findings printed.
const FINDINGS: usize = 5;

/// All findings of a run, the most expensive first.
pub fn findings(outcome: &Outcome) -> Vec<Finding> {
    let mut all: Vec<Finding> = outcome.outputs.iter().flat_map(|(_, o)| o.findings.clone()).collect();
    // Findings without a share of a step (such as a kernel's total) are not losses, so they come last.
    all.sort_by_key(|f| (f.share_of_step.is_none(), -f.cost_ns_per_step, f.analysis));
    all
}

/// The whole report, at most `width` characters wide.
pub fn report(outcome: &Outcome, width: usize) -> String {
    let mut out = String::new();
    header(&mut out, outcome, width);
    sentences(&mut out, &findings(outcome), width);
    problems(&mut out, outcome, width);
    for (analysis, output) in &outcome.outputs {
        for view in &output.views {
            heading(&mut out, &format!("{} ({})", view.title, analysis.stem()));
            out.push_str(&set(view, width));
        }
    }
    classes(&mut out, outcome, width);
    out
}

/// The first findings.
fn sentences(out: &mut String, findings: &[Finding], width: usize) {
    if findings.is_empty() {
        return;
    }
    heading(out, "What matters most");
    for (i, f) in findings.iter().take(FINDINGS).enumerate() {
        let sentence = format!("{}. {}", i + 1, f.sentence);
        for (k, line) in wrap(&sentence, width.saturating_sub(3)).iter().enumerate() {
            let _ = writeln!(out, "{}{line}", if k == 0 { "" } else { "   " });
        }
    }
}

/// The tables of one analysis, preceded by warnings.
pub fn one_analysis(outcome: &Outcome, width: usize) -> String {
    let mut out = String::new();
    for line in record_edges::note(&outcome.inventory).iter().flat_map(|note| wrap(&format!("note: {note}"), width)) {
        let _ = writeln!(out, "{line}");
    }
    sentences(&mut out, &findings(outcome), width);
    for (_, output) in &outcome.outputs {
        views(&mut out, output, width);
    }
    out.trim_start().to_string()
}

/// The findings of one answer, in its own order, and its tables.
pub fn one_output(output: &Output, width: usize) -> String {
    let mut out = String::new();
    sentences(&mut out, &output.findings, width);
    views(&mut out, output, width);
    out.trim_start().to_string()
}

fn views(out: &mut String, output: &Output, width: usize) {
    for view in &output.views {
        heading(out, &view.title);
        out.push_str(&set(view, width));
    }
    if output.views.is_empty() {
        out.push_str("no rows\n");
    }
}

fn heading(out: &mut String, title: &str) {
    let title = visible::line(title);
    let _ = writeln!(out, "\n{title}\n{}", "-".repeat(title.chars().count()));
}

fn header(out: &mut String, outcome: &Outcome, width: usize) {
    let rows: Vec<RankRow> = api::rows::<Ranks>(&outcome.inventory).collect();
    let ranks = outcome.ranks();
    let world = rows.iter().filter_map(|r| r.world_size).max();
    let mut line =
        format!("hta {}: {} rank{}", env!("CARGO_PKG_VERSION"), ranks.len(), if ranks.len() == 1 { "" } else { "s" });
    if let Some(world) = world {
        let _ = write!(line, " of {world}");
    }
    let _ = write!(
        line,
        " ({}), {}, {} of JSON",
        rank_list(&ranks),
        counted(rows.iter().map(|r| r.event_count).sum(), "event"),
        fmt_bytes(outcome.unpacked_bytes)
    );
    for l in wrap(&line, width) {
        let _ = writeln!(out, "{l}");
    }
    let mut notes: Vec<String> = Vec::new();
    if let Some(world) = world {
        let (missing, count) = missing_ranks(world, &ranks);
        if count > 0 {
            notes.push(format!("missing: rank{} {missing}", if count == 1 { "" } else { "s" }));
        }
    }
    let devices: BTreeSet<&str> = rows.iter().filter_map(|r| r.device_name).collect();
    if !devices.is_empty() {
        notes.push(format!("devices: {}", Vec::from_iter(devices).join(", ")));
    }
    let rules: Vec<&str> = rows.iter().map(|r| r.step_rule).collect::<BTreeSet<_>>().into_iter().collect();
    let steps = rows.iter().map(|r| r.step_count);
    let (low, high) = (steps.clone().min().unwrap_or(0), steps.max().unwrap_or(0));
    let count = if low == high { low.to_string() } else { format!("{low} to {high}") };
    notes.push(match rules.as_slice() {
        ["capture"] => "steps: none found, the whole capture counts as one".to_string(),
        [one] => format!("steps: {count} per rank, from {}", step_rule(one)),
        _ => {
            format!("steps: {count} per rank, found in different ways ({}): compare ranks by capture", rules.join(", "))
        }
    });
    let unlinked = rows.iter().map(|r| r.unlinked_count).sum::<u64>();
    if unlinked > 0 {
        notes.push(format!(
            "unlinked: {} of {} GPU activities ({} of GPU time) have no launch record",
            fmt_count(unlinked),
            fmt_count(rows.iter().map(|r| r.activity_count).sum()),
            fmt_pct(percent(rows.iter().map(|r| r.unlinked_ns).sum(), rows.iter().map(|r| r.gpu_sum_ns).sum()))
        ));
    }
    notes.extend(record_edges::note(&outcome.inventory).map(|note| format!("note: {note}")));
    for note in notes {
        for (k, l) in wrap(&note, width.saturating_sub(2)).iter().enumerate() {
            let _ = writeln!(out, "{}{l}", if k == 0 { "" } else { "  " });
        }
    }
}

fn step_rule(name: &str) -> &'static str {
    match name {
        "profiler_step" => "`ProfilerStep#n` annotations",
        "pattern" => "--step-pattern",
        "annotation" => "annotations that repeat",
        _ => "the whole capture",
    }
}

/// What was dropped, repaired or refused, and why; worst first.
fn problems(out: &mut String, outcome: &Outcome, width: usize) {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for r in &outcome.refused {
        match &r.error {
            crate::error::ReadError::NotATrace { file, what, .. } if !r.is_loss() => {
                lines.push(("skipped", format!("{file}: {what}")));
            }
            error => lines.push(("refused", error.to_string())),
        }
    }
    let mut merged: BTreeMap<(std::cmp::Reverse<Severity>, Counter), (Vec<u32>, Tally)> = BTreeMap::new();
    for (rank, _, health) in &outcome.rank_health {
        for (counter, tally) in health.iter() {
            let key = (std::cmp::Reverse(counter.spec().severity), counter);
            let entry = merged.entry(key).or_insert_with(|| (Vec::new(), tally.clone()));
            if !entry.0.is_empty() {
                entry.1.count += tally.count;
            }
            entry.0.push(*rank);
        }
    }
    let mut notes = 0;
    for ((severity, counter), (ranks, tally)) in &merged {
        if severity.0 == Severity::Info {
            notes += 1;
            continue;
        }
        let spec = counter.spec();
        let mut line = format!("{} x {}: {}", fmt_count(tally.count), spec.name, spec.doc);
        if outcome.rank_health.len() > 1 {
            let _ = write!(line, " (rank{} {})", if ranks.len() == 1 { "" } else { "s" }, rank_list(ranks));
        }
        if !tally.example.is_empty() {
            let _ = write!(line, " e.g. `{}`", tally.example);
        } else if let Some(byte) = tally.first_byte {
            let _ = write!(line, ", first at byte {byte}");
        }
        lines.push((severity.0.name(), line));
    }
    for (counter, tally) in outcome.set_health.iter() {
        let mut line = format!("{}: {}", counter.spec().name, counter.spec().doc);
        if !tally.example.is_empty() {
            let _ = write!(line, " ({}{})", tally.example, if tally.count > 1 { ", ..." } else { "" });
        }
        lines.push(("note", line));
    }
    for (counter, (ranks, _)) in merged.iter().map(|((_, c), v)| (c, v)) {
        if *counter == Counter::NoCommunicationFound {
            let s = if ranks.len() == 1 { "" } else { "s" };
            lines.push(("note", format!("{} (rank{s} {})", counter.spec().doc, rank_list(ranks))));
        }
    }
    if lines.is_empty() && notes == 0 {
        return;
    }
    heading(out, "About the input");
    for (kind, line) in &lines {
        for (k, l) in wrap(line, width.saturating_sub(9)).iter().enumerate() {
            let _ = writeln!(out, "{:<9}{l}", if k == 0 { kind } else { "" });
        }
    }
    if lines.is_empty() {
        let _ = writeln!(out, "nothing was dropped or repaired");
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

/// One line per loss, for standard error when a single table is printed.
pub fn loss_lines(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for (rank, file, health) in &outcome.rank_health {
        for (counter, tally) in health.iter().filter(|(c, _)| c.spec().severity >= Severity::Loss) {
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

/// Number of kernels matched by each communication rule.
fn classes(out: &mut String, outcome: &Outcome, width: usize) {
    let mut rules: BTreeMap<(String, String), (u64, Ns)> = BTreeMap::new();
    for row in api::rows::<KernelRules>(&outcome.inventory) {
        let sum = rules.entry((row.class.to_string(), row.class_reason.to_string())).or_default();
        sum.0 += row.count;
        sum.1 += row.sum_ns;
    }
    if rules.is_empty() {
        return;
    }
    heading(out, "How activities were classified");
    let mut found = false;
    for ((class, reason), (count, ns)) in &rules {
        if class == "communication" {
            found = true;
            let line = format!("communication rule `{reason}` matched {} ({})", counted(*count, "kernel"), fmt_ns(*ns));
            for l in wrap(&line, width) {
                let _ = writeln!(out, "{l}");
            }
        }
    }
    if !found {
        let _ = writeln!(out, "no communication rule matched any kernel");
    }
}
