//! `hta explain NAME`: definitions, columns with units and caveats, generated from the declarations in the
//! code.

use crate::cli::exit::Exit;
use crate::cli::output::print;
use crate::cli::topics::TOPICS;
use crate::cli::{glossary, values};
use clap::Command;
use hta_analysis::api::Analysis;
use hta_analysis::inventory;
use hta_analysis::memory::snapshot::tables::{MemoryDiff, OWN_TABLES};
use hta_analysis::settings::Setting;
use hta_base::health::COUNTERS;
use hta_base::table::format::unit;
use hta_base::table::schema::TableSpec;
use hta_compat as compat;
use hta_diagnosis::CauseKind;
use hta_diagnosis::registry::ANALYSES;
use hta_job::recording::capability::Capability;
use hta_job::recording::rules::RULES;
use hta_read::error::SetError;
use hta_results::diff::DIFF;
use hta_results::output::columns::{hanging, wrap};
use hta_results::output::events::{BASE_COLUMNS, EVENTS_DOC, EVENTS_ORDER};
use hta_results::output::schema_page;
use hta_results::sql::catalog;
use hta_results::sql::catalog::Query;
use hta_results::sql::nearest::nearest;
use hta_trace::args::ARGS;
use std::fmt::Write;

/// Width of wrapped text, columns.
const WIDTH: usize = 80;

/// The page of a name of some words, or the help of a command of that name; without any, all names.
pub fn run(words: &[&str], command_line: fn() -> Command) -> anyhow::Result<Exit> {
    let name = words.join(" ");
    if name.is_empty() {
        return crate::cli::list::run(None);
    }
    let name = name.as_str();
    let text = page(name).or_else(|e| {
        // Commands without a page of their own have their help.
        let mut root = command_line();
        root.build();
        root.find_subcommand_mut(name).map(|command| command.render_help().to_string()).ok_or(e)
    })?;
    print(text.as_bytes())?;
    Ok(Exit::Done)
}

/// All names that have a page, with their titles; each name once.
pub fn names() -> Vec<(&'static str, &'static str)> {
    let first_line = |t: &'static TableSpec| t.doc.trim().lines().next().unwrap_or_default();
    let mut out: Vec<(&str, &str)> = ANALYSES.iter().map(|a| (a.stem(), a.about().title)).collect();
    out.extend(TOPICS.iter().map(|(name, title, _)| (*name, *title)));
    out.extend(tables().map(|t| (t.name, first_line(t))));
    out.push(("events", "every complete event of a rank"));
    out.extend(catalog::QUERIES.iter().map(|q| (q.name, q.title())));
    let mut seen = std::collections::BTreeSet::new();
    out.retain(|(name, _)| seen.insert(*name));
    out
}

/// The page for a name: of the analysis, topic, table and query of that name.
///
/// # Errors
/// When nothing has that name.
pub fn page(name: &str) -> Result<String, SetError> {
    let mut out = String::new();
    let analysis = ANALYSES.iter().find(|a| a.stem() == name);
    if let Some(a) = analysis {
        out.push_str(a.about().explain.trim_end());
        out.push('\n');
        settings(&mut out, a.about().settings);
        a.tables().iter().for_each(|spec| table(&mut out, spec));
        answers(&mut out, *a);
    }
    if let Some((_, _, text)) = TOPICS.iter().find(|t| t.0 == name) {
        out.push_str(text.trim_end());
        out.push('\n');
        match name {
            "health" => counters(&mut out),
            "trust" => rules_of_trust(&mut out),
            "schema" => out = schema_page::page(),
            "snapshots" => {
                OWN_TABLES.iter().chain([&MemoryDiff::SPEC]).for_each(|spec| table(&mut out, spec))
            }
            "diff" => {
                settings(&mut out, DIFF.about().settings);
                DIFF.tables().iter().for_each(|spec| table(&mut out, spec));
                answers(&mut out, DIFF);
            }
            _ => {}
        }
    }
    // A topic and a table of the same name share a page. The page of an analysis already lists its tables.
    let is_on_page = analysis.is_some_and(|a| a.tables().iter().any(|t| t.name == name));
    if let Some(spec) = tables().find(|t| t.name == name).filter(|_| !is_on_page) {
        table(&mut out, spec);
    }
    if name == "events" {
        events(&mut out);
    }
    if let Some(query) = catalog::find(name) {
        if !out.is_empty() {
            out.push('\n');
        }
        documented(&mut out, query);
    }
    if out.is_empty() {
        out = short_page(name).unwrap_or_default();
    }
    if out.is_empty() {
        let known: Vec<&str> = ANALYSES.iter().map(|a| a.stem()).chain(TOPICS.iter().map(|t| t.0)).collect();
        let all = names().into_iter().map(|(name, _)| name).chain(short_names());
        let near = nearest(name, all).map_or(String::new(), |near| format!("did you mean `{near}`? "));
        let reason = format!(
            "{near}expected a word of the glossary, a kind of cause, a query, a table, an analysis or a topic: {}",
            known.join(", ")
        );
        return Err(SetError::Argument { option: "explain", value: name.to_string(), reason });
    }
    Ok(out.trim_start().to_string())
}

/// What has a short page and is proposed where a name is wrong: words of the glossary, kinds of causes,
/// counters of damage, and rules of trust. Values of tables have one, too.
fn short_names() -> impl Iterator<Item = &'static str> {
    let words = glossary::words().map(|(word, _)| word);
    let kinds = CauseKind::ALL.iter().map(|kind| kind.name());
    words.chain(kinds).chain(COUNTERS.iter().map(|c| c.name)).chain(RULES.iter().map(|rule| rule.name))
}

/// The page of such a name.
fn short_page(name: &str) -> Option<String> {
    if let Some((word, text)) = glossary::meaning(name) {
        return Some(format!("{word}: {text}\n"));
    }
    if let Some(kind) = CauseKind::named(name) {
        return Some(kind.page());
    }
    if let Some(c) = COUNTERS.iter().find(|c| c.name == name) {
        return Some(format!("{} ({}, see hta explain health): {}\n", c.name, c.severity.name(), c.doc));
    }
    if let Some(rule) = RULES.iter().find(|rule| rule.name == name) {
        return Some(format!("{} (a rule of hta explain trust): {}\n", rule.name, rule.text().trim()));
    }
    value_page(name)
}

/// Most columns that are listed as having a value.
const MOST_COLUMNS: usize = 8;

/// The page of a value of tables: what the pages say of it, and the columns that have it.
fn value_page(name: &str) -> Option<String> {
    let pages = ANALYSES.iter().map(|a| (a.stem(), a.about().explain));
    let pages = pages.chain(TOPICS.iter().map(|(name, _, text)| (*name, *text)));
    let mut out = String::new();
    for (stem, text) in pages {
        for entry in values::entries(text, name) {
            hanging(&mut out, "", &format!("{entry} (hta explain {stem})"), WIDTH);
        }
    }
    let mut meanings = std::collections::BTreeSet::new();
    let columns = tables().flat_map(|t| t.columns.iter().map(move |c| (t.name, c)));
    let listed = columns.filter(|(_, c)| c.kind == "text" && values::is_listed(c.doc, name));
    for (table, column) in listed.filter(|(_, c)| meanings.insert(c.doc)).take(MOST_COLUMNS) {
        hanging(&mut out, "", &format!("{name}, a value of {table}.{}: {}", column.name, column.doc), WIDTH);
    }
    (!out.is_empty()).then_some(out)
}

/// Pages and tables of the answers in other definitions that stand for an analysis.
fn answers(out: &mut String, analysis: &dyn Analysis) {
    for answer in compat::of(analysis.stem()) {
        let _ = write!(out, "\n{}", answer.about().explain);
        // some write a table of the analysis
        answer.tables().iter().filter(|t| !analysis.tables().contains(t)).for_each(|spec| table(out, spec));
    }
}

fn documented(out: &mut String, query: &Query) {
    let header = query.header();
    let _ = writeln!(out, "Query {}: {}", query.name, header.title);
    for text in [header.answers, header.read] {
        out.push('\n');
        for line in wrap(&text, WIDTH) {
            let _ = writeln!(out, "{line}");
        }
    }
    out.push_str("\nColumns\n");
    for (name, meaning) in &header.columns {
        let unit = unit(name).map(|u| format!(" [{u}]")).unwrap_or_default();
        let _ = writeln!(out, "  {name:<24} {meaning}{unit}");
    }
    let _ = writeln!(out, "\nTables: {}\n\n{}", header.tables.join(", "), query.statement().trim_end());
}

fn tables() -> impl Iterator<Item = &'static TableSpec> {
    let of_analyses = ANALYSES.iter().flat_map(|a| a.tables().iter().copied());
    inventory::TABLES
        .iter()
        .copied()
        .chain(of_analyses)
        .chain(DIFF.tables().iter().copied())
        .chain([MemoryDiff::SPEC])
        .chain(tables_of_answers())
}

/// Tables of the answers in other definitions that no analysis has.
fn tables_of_answers() -> impl Iterator<Item = &'static TableSpec> {
    let is_own = |name: &str| ANALYSES.iter().any(|a| a.tables().iter().any(|t| t.name == name));
    let tables = compat::ANSWERS.iter().flat_map(|(_, answer)| answer.tables().iter().copied());
    tables.filter(move |spec| !is_own(spec.name))
}

fn settings(out: &mut String, of: &[Setting]) {
    if !of.is_empty() {
        out.push_str("\nOptions\n");
    }
    for s in of {
        let default = s.default_text().map(|d| format!(" [{d}]")).unwrap_or_default();
        let shown = format!("{} {}", s.flag, s.value);
        let _ = writeln!(out, "  {:<28} {}{default}", shown.trim_end(), s.help);
    }
}

fn table(out: &mut String, spec: &TableSpec) {
    let _ = writeln!(out, "\nTable {}: {}", spec.name, spec.doc.trim());
    let _ = writeln!(out, "sorted by {}", spec.order);
    for c in spec.columns {
        let unit = if c.unit.is_empty() { String::new() } else { format!(" [{}]", c.unit) };
        let kind = format!("{}{}", c.kind, if c.nullable { "?" } else { "" });
        let _ = writeln!(out, "  {:<28} {kind:<6} {}{unit}", c.name, c.doc);
    }
    out.push_str("  (? may be null)\n");
}

fn events(out: &mut String) {
    let _ = writeln!(out, "Table events: {EVENTS_DOC}");
    let _ = writeln!(out, "sorted by {EVENTS_ORDER}; all columns but the first may be null");
    for (name, kind, unit, doc) in BASE_COLUMNS {
        column(out, name, kind, unit, doc);
    }
    for a in ARGS {
        column(out, a.column, a.ty.name(), a.unit, a.doc);
    }
}

fn column(out: &mut String, name: &str, kind: &str, unit: &str, doc: &str) {
    let unit = if unit.is_empty() { String::new() } else { format!(" [{unit}]") };
    let _ = writeln!(out, "  {name:<28} {kind:<6} {doc}{unit}");
}

fn rules_of_trust(out: &mut String) {
    out.push_str("\n## Capabilities\n\n");
    for c in Capability::ALL {
        let _ = writeln!(out, "- `{}`: {}", c.name(), c.text().trim());
    }
    out.push_str("\n## Rules\n");
    for rule in RULES {
        let _ = writeln!(out, "\n### {}\n", rule.name);
        wrap(&rule.text().replace('\n', " "), WIDTH)
            .iter()
            .for_each(|line| out.push_str(&format!("{line}\n")));
    }
}

fn counters(out: &mut String) {
    out.push_str("\nCounters\n");
    for c in COUNTERS {
        let _ = writeln!(out, "  {:<28} {:<7} {}", c.name, c.severity.name(), c.doc);
    }
}
