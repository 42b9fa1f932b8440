//! The text report: the verdict with the causes, problems of the input, then the tables of the analyses.

use crate::output::columns::{set, wrap};
use crate::output::visible;
use crate::run::Outcome;
use hta_analysis::api::{self, Observation, Output, View};
use hta_analysis::inventory::{self, edge_notes};
use hta_analysis::inventory::{KernelRules, RankRow, Ranks};
use hta_analysis::verdict::JobVerdict;
use hta_base::health::{Counter, CounterTally, Severity};
use hta_base::units::{Ns, fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::ranks::{rank_list, ranks_named};
use hta_trace::collective::ranks::missing_ranks;
use hta_trace::meta::RankSource;
use hta_trace::step::StepRule;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Largest number of observations printed.
const OBSERVATIONS: usize = 5;

/// How much of a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportExtent {
    /// Verdict, causes, and where the time went.
    Short,
    /// The sections of all analyses, too.
    Full,
}

/// The report, at most `width` characters wide.
pub fn report(outcome: &Outcome, width: usize, extent: ReportExtent) -> String {
    let mut out = String::new();
    header(&mut out, outcome, width);
    let told = verdict(outcome);
    if let Some(told) = told {
        diagnosis(&mut out, told, width);
    }
    // Without a diagnosis (--only, --compat) the sections are the report.
    let is_full = extent == ReportExtent::Full || told.is_none();
    problems(&mut out, outcome, width, is_full);
    let mut without: Vec<String> = Vec::new();
    for (analysis, output) in &outcome.outputs {
        // With a diagnosis, sections without rows are one line together; alone they say why.
        let is_content = |v: &View| told.is_none() || !v.rows.is_empty();
        let is_shown = |v: &&View| is_content(v) && (is_full || output.verdict.is_some());
        if output.views.iter().any(|v| !is_content(v)) && !output.views.iter().any(is_content) {
            without.push(analysis.stem().to_string());
        }
        for (i, view) in output.views.iter().filter(is_shown).enumerate() {
            let title =
                if is_full { format!("{} ({})", view.title, analysis.stem()) } else { view.title.clone() };
            heading(&mut out, &title);
            // What stands out in a section; the causes of it are above.
            let first = is_full && i == 0;
            for line in output.trust.lines.iter().filter(|_| first) {
                indented(&mut out, "", line, width);
            }
            for o in output.observations.iter().take(OBSERVATIONS).filter(|_| first) {
                indented(&mut out, "- ", &o.sentence, width);
            }
            out.push_str(&set(view, width));
        }
    }
    if is_full && !without.is_empty() {
        let _ = writeln!(out);
        indented(
            &mut out,
            "without rows: ",
            &format!("{} (hta ANALYSIS says why)", without.join(", ")),
            width,
        );
    }
    match told {
        Some(told) if !is_full => mix(&mut out, told, width),
        _ => classes(&mut out, outcome, width),
    }
    out
}

/// The diagnosis of a run, if it has one.
pub fn verdict(outcome: &Outcome) -> Option<&JobVerdict> {
    let of_run = outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref());
    of_run.filter(|v| !v.lines[0].is_empty())
}

/// The two lines of a diagnosis.
pub fn brief(told: &JobVerdict) -> String {
    let [first, second] = &told.lines;
    format!("{}\n{}\n", visible::line(first), visible::line(second))
}

/// The verdict, then each cause with its evidence and what to do.
fn diagnosis(out: &mut String, told: &JobVerdict, width: usize) {
    heading(out, "Verdict");
    for line in told.lines.iter().flat_map(|line| wrap(line, width)) {
        let _ = writeln!(out, "{line}");
    }
    if !told.causes.is_empty() {
        heading(out, "Causes, the most important first");
    }
    for (i, cause) in told.causes.iter().enumerate() {
        let gain = if cause.gain.is_empty() { String::new() } else { format!(" Repair: {}.", cause.gain) };
        indented(out, &format!("{}. ", i + 1), &format!("{}.{gain}", cause.sentence), width);
        for line in &cause.evidence {
            indented(out, "   - ", line, width);
        }
        if let Some(reason) = &cause.reason {
            indented(out, "   trust: ", reason, width);
        }
        indented(out, "   do: ", &cause.action, width);
    }
    if told.more > 0 {
        let _ = writeln!(out, "{} more in the table findings", told.more);
    }
    for note in told.notes.iter().flat_map(|note| wrap(note, width)) {
        let _ = writeln!(out, "{note}");
    }
}

/// The mix of kernels, or of the operators of a job without devices, in one line.
fn mix(out: &mut String, told: &JobVerdict, width: usize) {
    const SHOWN: usize = 6;
    for (mark, shares) in [("compute: ", &told.mix), ("operators: ", &told.operators)] {
        let parts: Vec<String> =
            shares.iter().take(SHOWN).map(|(name, pct)| format!("{name} {}", fmt_pct(Some(*pct)))).collect();
        if !parts.is_empty() {
            let _ = writeln!(out);
            indented(out, mark, &parts.join(", "), width);
        }
    }
}

/// Where the results are, and what they hold that was not printed.
pub fn where_the_rest_is(outcome: &Outcome, extent: ReportExtent, folder: &str) -> String {
    let sections = outcome.outputs.iter().filter(|(_, o)| o.views.iter().any(|v| !v.rows.is_empty())).count();
    match (extent, verdict(outcome)) {
        (ReportExtent::Short, Some(_)) => format!(
            "\nresults: {folder}\nits report.txt has {} of all analyses (or --full); rows are in tables/\n",
            plural(sections, "section")
        ),
        _ => format!("\nresults: {folder}\n"),
    }
}

/// A wrapped text behind a mark; further lines are indented by the mark's width.
fn indented(out: &mut String, mark: &str, text: &str, width: usize) {
    let indent = mark.chars().count();
    for (i, line) in wrap(text, width.saturating_sub(indent)).iter().enumerate() {
        let _ = if i == 0 {
            writeln!(out, "{mark}{line}")
        } else {
            writeln!(out, "{}{line}", " ".repeat(indent))
        };
    }
}

/// What stands out, in the order of its cost.
fn sentences(out: &mut String, observations: &[Observation], width: usize) {
    if observations.is_empty() {
        return;
    }
    heading(out, "What stands out");
    for (i, o) in observations.iter().take(OBSERVATIONS).enumerate() {
        indented(out, &format!("{}. ", i + 1), &o.sentence, width);
    }
}

/// The tables of one analysis, preceded by warnings.
pub fn one_analysis(outcome: &Outcome, width: usize) -> String {
    let mut out = String::new();
    let notes = [inventory::processes_note(&outcome.inventory), edge_notes::note(&outcome.inventory)];
    for line in notes.iter().flatten().flat_map(|note| wrap(&format!("note: {note}"), width)) {
        let _ = writeln!(out, "{line}");
    }
    let told: BTreeSet<&String> = outcome.outputs.iter().flat_map(|(_, o)| &o.trust.lines).collect();
    for line in told {
        indented(&mut out, "", line, width);
    }
    if let Some(told) = verdict(outcome) {
        diagnosis(&mut out, told, width);
    }
    let mut observations: Vec<Observation> =
        outcome.outputs.iter().flat_map(|(_, o)| o.observations.clone()).collect();
    // Observations without a share of a step (such as a kernel's total) are not losses, so they come last.
    observations.sort_by_key(|o| (o.share_of_step.is_none(), -o.cost_ns_per_step, o.analysis));
    sentences(&mut out, &observations, width);
    for (_, output) in &outcome.outputs {
        views(&mut out, output, width);
    }
    out.trim_start().to_string()
}

/// The observations of one answer, in its own order, and its tables.
pub fn one_output(output: &Output, width: usize) -> String {
    let mut out = String::new();
    sentences(&mut out, &output.observations, width);
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
    let are_processes = rows.iter().any(|r| r.rank_source == RankSource::Process.name());
    let count =
        if are_processes { format!("{} processes", ranks.len()) } else { plural(ranks.len(), "rank") };
    let mut line = format!("hta {}: {count}", env!("CARGO_PKG_VERSION"));
    if let Some(world) = world {
        let _ = write!(line, " of {world}");
    }
    let _ = write!(
        line,
        " ({}), {}, {} of traces",
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
        ["capture"] => format!("steps: none found, the whole capture counts as one{}", repeated(&rows)),
        [one] => format!("steps: {count} per rank, from {}{}", step_rule(one), device_windows(&rows)),
        _ => {
            format!(
                "steps: {count} per rank, found in different ways ({}): compare ranks by capture",
                rules.join(", ")
            )
        }
    });
    let unlinked = rows.iter().map(|r| r.unlinked_count).sum::<u64>();
    if unlinked > 0 {
        notes.push(format!(
            "unlinked: {} of {} GPU activities ({} of GPU time) have no launch record",
            fmt_count(unlinked),
            fmt_count(rows.iter().map(|r| r.activity_count).sum()),
            fmt_pct(percent(
                rows.iter().map(|r| r.unlinked_ns).sum(),
                rows.iter().map(|r| r.gpu_sum_ns).sum()
            ))
        ));
    }
    notes.extend(inventory::processes_note(&outcome.inventory));
    notes.extend(edge_notes::note(&outcome.inventory).map(|note| format!("note: {note}")));
    for note in notes {
        for (k, l) in wrap(&note, width.saturating_sub(2)).iter().enumerate() {
            let _ = writeln!(out, "{}{l}", if k == 0 { "" } else { "  " });
        }
    }
}

/// What repeats without being steps, on the first rank that has such.
fn repeated(rows: &[RankRow]) -> String {
    rows.iter().find_map(|r| r.repeated).map_or_else(String::new, |what| format!("; {}", visible::line(what)))
}

/// The ranks whose steps have the windows of the device, if they are not iterations, which always have.
fn device_windows(rows: &[RankRow]) -> String {
    let of: Vec<&RankRow> =
        rows.iter().filter(|r| r.step_window == "device" && !is_iteration(r.step_rule)).collect();
    let Some(most) = of.iter().filter_map(|r| r.step_lag_ns).max() else { return String::new() };
    let ranks: Vec<u32> = of.iter().map(|r| r.rank).collect();
    let whose =
        if ranks.len() == rows.len() { String::new() } else { format!(" of {}", ranks_named(&ranks)) };
    let lag = if rows.len() == 1 { fmt_ns(most) } else { format!("up to {}", fmt_ns(most)) };
    match most > 0 {
        true => format!(
            "; windows{whose} on the device, whose work ends {lag} after the host's step (--step-window)"
        ),
        false => format!("; windows{whose} on the device (--step-window)"),
    }
}

fn is_iteration(rule: &str) -> bool {
    StepRule::ALL.iter().any(|r| r.name() == rule && r.is_iteration())
}

fn step_rule(name: &str) -> &'static str {
    match name {
        "profiler_step" => "`ProfilerStep#n` annotations",
        "pattern" => "--step-pattern",
        "iteration" => "the names of an engine's iterations",
        "annotation" => "annotations that repeat",
        "inner_annotation" => "annotations that repeat inside another one",
        "repeat" => "kernels that repeat, because no range names a step",
        _ => "the whole capture",
    }
}

/// What was dropped, repaired or refused, and why; worst first.
fn problems(out: &mut String, outcome: &Outcome, width: usize, is_full: bool) {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for r in &outcome.refused {
        match &r.error {
            hta_read::error::ReadError::NotATrace { file, what, .. } if !r.is_loss() => {
                lines.push(("skipped", format!("{file}: {what}")));
            }
            hta_read::error::ReadError::FrontEnd { file } => {
                lines.push(("skipped", format!("{file}: process without GPU work (front end?)")));
            }
            hta_read::error::ReadError::MergedCopy { file } => {
                lines.push(("skipped", format!("{file}: a merged file of ranks whose files are beside it")));
            }
            hta_read::error::ReadError::NothingRecorded { file, what } if !r.is_loss() => {
                lines.push(("skipped", format!("{file}: {what}")));
            }
            error => lines.push(("refused", error.to_string())),
        }
    }
    let mut merged: BTreeMap<(std::cmp::Reverse<Severity>, Counter), (Vec<u32>, CounterTally)> =
        BTreeMap::new();
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
    if lines.is_empty() && (notes == 0 || !is_full) {
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
            let line = format!(
                "communication rule `{reason}` matched {} ({})",
                counted(*count, "kernel"),
                fmt_ns(*ns)
            );
            for l in wrap(&line, width) {
                let _ = writeln!(out, "{l}");
            }
        }
    }
    if !found {
        let _ = writeln!(out, "no communication rule matched any kernel");
    }
}
