//! The text report: the verdict with the causes, problems of the input, then the tables of the analyses.

mod header;
mod problems;

pub use problems::loss_lines;

use crate::output::columns::{hanging, set, set_rows, wrap};
use crate::output::visible;
use crate::results::ToldRun;
use crate::run::Outcome;
use header::header;
use hta_analysis::api::{self, Analysis, Output};
use hta_analysis::inventory::KernelRules;
use hta_analysis::verdict::JobVerdict;
use hta_base::table::view_rows::ViewRows;
use hta_base::units::{Ns, fmt_ns, fmt_pct};
use hta_base::wording::counts::counted;
use hta_trace::kernel::category::Category;
use problems::problems;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Heading of the causes.
const CAUSES: &str = "Causes, by what fixing each saves";

/// Largest number of sentences printed above the views of an analysis or a comparison.
const SENTENCES: usize = 5;

/// The kind of cause that says that the recording does not suffice for a diagnosis.
const INCOMPLETE: &str = "input_incomplete";

/// How much of a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportExtent {
    /// Verdict, causes, and where the time went.
    Short,
    /// The sections of all analyses, too.
    Full,
}

/// The report, at most `width` characters wide. `folder` is how commands name the results.
pub fn report(outcome: &Outcome, width: usize, extent: ReportExtent, folder: &str) -> String {
    let mut out = String::new();
    let told = verdict(outcome);
    let is_full = extent == ReportExtent::Full || told.is_none();
    header(&mut out, outcome, told, width, is_full);
    if let Some(told) = told {
        diagnosis(&mut out, told, width, Some(folder));
    }
    // Without a diagnosis (--only, --compat) the sections are the report.
    problems(&mut out, outcome, width, is_full);
    let mut without: Vec<String> = Vec::new();
    for (analysis, output) in &outcome.outputs {
        // With a diagnosis, sections without rows are one line together; alone they say why.
        let views = &output.shown;
        let is_content = |v: &ViewRows| told.is_none() || !v.rows.is_empty();
        let is_shown = |v: &&ViewRows| is_content(v) && (is_full || output.verdict.is_some());
        if views.iter().any(|v| !is_content(v)) && !views.iter().any(is_content) {
            without.push(analysis.stem().to_string());
        }
        // On the first screen the account by rank is enough.
        let most = if is_full { usize::MAX } else { 1 };
        for (i, view) in views.iter().filter(is_shown).take(most).enumerate() {
            let title = view.title;
            let title = if is_full { format!("{title} ({})", analysis.stem()) } else { title.to_string() };
            heading(&mut out, &title);
            let first = is_full && i == 0;
            for line in output.trust.lines.iter().filter(|_| first) {
                hanging(&mut out, "", line, width);
            }
            for sentence in output.sentences.iter().take(SENTENCES).filter(|_| first) {
                hanging(&mut out, "- ", sentence, width);
            }
            out.push_str(&set_rows(view, width));
        }
    }
    if is_full && !without.is_empty() {
        let _ = writeln!(out);
        hanging(
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
    verdict_of(&outcome.outputs)
}

fn verdict_of<'a>(outputs: &'a [(&'static dyn Analysis, Output)]) -> Option<&'a JobVerdict> {
    let of_run = outputs.iter().find_map(|(_, o)| o.verdict.as_ref());
    of_run.filter(|v| !v.lines[0].is_empty())
}

/// The two sentences of a diagnosis.
pub fn brief(told: &JobVerdict) -> String {
    let [first, second] = &told.lines;
    format!("{}\n{}\n", visible::line(first), visible::line(second))
}

/// Two sentences of a run without a diagnosis, such as one of memory dumps: what is said above the views, or
/// else what they are about. `None` if there is less.
pub fn brief_facts(outcome: &Outcome) -> Option<String> {
    let outputs = || outcome.outputs.iter().map(|(_, output)| output);
    let told = outputs().flat_map(|o| &o.sentences).cloned();
    let mut lines = told.chain(outputs().flat_map(|o| &o.shown).map(first_row));
    Some(format!("{}\n{}\n", visible::line(&lines.next()?), visible::line(&lines.next()?)))
}

/// The title of a view with the cells of its first row.
fn first_row(view: &ViewRows) -> String {
    let row = view.rows.first().into_iter().flat_map(|row| view.columns.iter().zip(row));
    let cells = row.map(|(column, value)| format!("{} {}", column.heading, column.text(value)));
    match cells.collect::<Vec<String>>().join(", ") {
        cells if cells.is_empty() => view.title.to_string(),
        cells => format!("{}: {cells}", view.title),
    }
}

/// The verdict, then each cause with what fixing it saves, its number and place, and what to do.
fn diagnosis(out: &mut String, told: &JobVerdict, width: usize, folder: Option<&str>) {
    let _ = writeln!(out);
    told.lines.iter().flat_map(|line| wrap(line, width)).for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    // That the recording does not suffice, and what to do, is the verdict itself.
    let is_told = told.causes.first().is_some_and(|c| c.kind == INCOMPLETE);
    let causes = &told.causes[usize::from(is_told)..];
    if !causes.is_empty() {
        heading(out, CAUSES);
    }
    for (i, cause) in causes.iter().enumerate() {
        hanging(out, &format!("{}. ", i + 1), &cause.sentence, width);
        let of =
            |time: &str| if time.is_empty() { String::new() } else { format!("{time}, {}", cause.certainty) };
        let (saves, once) = (of(&cause.saved), of(&cause.once));
        let command = folder.map_or(String::new(), |folder| format!("hta {} {folder}", cause.command));
        // What holds for all causes stands in the head.
        let reason =
            cause.reason.as_deref().filter(|reason| !told.recorded.contains(reason)).unwrap_or_default();
        for (what, text) in [
            ("saves", saves.as_str()),
            ("once", once.as_str()),
            ("because", cause.evidence.as_str()),
            ("where", cause.place.as_str()),
            (cause.certainty, reason),
            ("do", cause.action.as_str()),
            ("see", command.as_str()),
        ] {
            if !text.is_empty() {
                hanging(out, &format!("   {what:<8} "), text, width);
            }
        }
    }
    if told.more > 0 {
        let _ = writeln!(out, "{} more in the table findings", told.more);
    }
    for note in &told.notes {
        hanging(out, "- ", note, width);
    }
}

/// The compute by category of kernels, and the operators with the most time of their own; a line each.
fn mix(out: &mut String, told: &JobVerdict, width: usize) {
    const SHOWN: usize = 6;
    let is_unknown = told.mix.iter().all(|(name, _)| name == Category::Unknown.name());
    let mix: &[(String, f64)] = if is_unknown { &[] } else { &told.mix };
    if !mix.is_empty() || !told.operators.is_empty() {
        let _ = writeln!(out);
    }
    for (mark, shares) in [("compute:   ", mix), ("operators: ", told.operators.as_slice())] {
        let parts: Vec<String> =
            shares.iter().take(SHOWN).map(|(name, pct)| format!("{name} {}", fmt_pct(Some(*pct)))).collect();
        if !parts.is_empty() {
            hanging(out, mark, &parts.join(", "), width);
        }
    }
}

/// Where the results are, and the commands that lead on.
pub fn where_the_rest_is(
    outcome: &Outcome,
    extent: ReportExtent,
    folder: &str,
    has_page: bool,
    width: usize,
) -> String {
    let mut lines = Vec::new();
    if has_page {
        lines.push((format!("hta open {folder}"), "the page: timeline, all causes, all tables"));
    }
    if let (ReportExtent::Short, Some(told)) = (extent, verdict(outcome)) {
        let first = told.causes.first();
        if first.is_some_and(|c| c.kind == INCOMPLETE) {
            lines.push(("hta explain trust".to_string(), "what must be recorded for what"));
        } else {
            let more = "more on the first cause";
            lines.extend(first.map(|c| (format!("hta {} {folder}", c.command), more)));
            lines.push((format!("hta diff {folder} NEW"), "after a fix, with the results of the new run"));
        }
    }
    let widest = lines.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let mut out = format!("\nresults in {folder} (all sections: report.txt)\n");
    let longest = lines.iter().map(|(_, what)| what.chars().count()).max().unwrap_or(0);
    for (command, what) in lines {
        let _ = match widest + longest + 4 <= width {
            true => writeln!(out, "  {command:<widest$}  {what}"),
            false => writeln!(out, "  {command}\n      {what}"),
        };
    }
    out
}

/// What analyses or a comparison answer, the most important first.
fn sentences<'a>(out: &mut String, told: impl Iterator<Item = &'a String>, width: usize) {
    for (i, sentence) in told.take(SENTENCES).enumerate() {
        if i == 0 {
            heading(out, "What stands out");
        }
        hanging(out, &format!("{}. ", i + 1), sentence, width);
    }
}

/// What the analyses of one command print, preceded by warnings.
pub fn of_analyses(told: &ToldRun, width: usize) -> String {
    let (mut out, outputs) = (String::new(), &told.outputs);
    for line in told.notes.iter().flat_map(|note| wrap(&format!("note: {note}"), width)) {
        let _ = writeln!(out, "{line}");
    }
    let trust: BTreeSet<&String> = outputs.iter().flat_map(|(_, o)| &o.trust.lines).collect();
    for line in trust {
        hanging(&mut out, "", line, width);
    }
    if let Some(told) = verdict_of(outputs) {
        diagnosis(&mut out, told, width, None);
    }
    sentences(&mut out, outputs.iter().flat_map(|(_, o)| &o.sentences), width);
    // Of several analyses, those that found nothing are left out.
    let has_rows = |output: &Output| output.shown.iter().any(|view| !view.rows.is_empty());
    let is_one = outputs.len() == 1 || outputs.iter().all(|(_, o)| !has_rows(o));
    let shown = outputs.iter().filter(|(_, o)| is_one || has_rows(o));
    for view in shown.take(if is_one { 1 } else { usize::MAX }).flat_map(|(_, o)| &o.shown) {
        heading(&mut out, view.title);
        out.push_str(&set_rows(view, width));
    }
    out.trim_start().to_string()
}

/// What is said of a comparison, and its tables.
pub fn one_output(output: &Output, width: usize) -> String {
    let mut out = String::new();
    sentences(&mut out, output.sentences.iter(), width);
    for view in &output.views {
        heading(&mut out, &view.title);
        out.push_str(&set(view, width));
    }
    for view in &output.shown {
        heading(&mut out, view.title);
        out.push_str(&set_rows(view, width));
    }
    out.trim_start().to_string()
}

fn heading(out: &mut String, title: &str) {
    let title = visible::line(title);
    let _ = writeln!(out, "\n{title}\n{}", "-".repeat(title.chars().count()));
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
