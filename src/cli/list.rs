//! `hta list`: the analyses with their tables, the queries, all tables, and the topics of `hta explain`.

use crate::cli::exit::Exit;
use crate::cli::output::print;
use crate::cli::topics::TOPICS;
use hta_analysis::api::Analysis;
use hta_diagnosis::registry::ANALYSES;
use hta_results::diff::DIFF;
use hta_results::output::columns::{hanging, wrap};
use hta_results::sql::catalog::QUERIES;
use hta_results::sql::live;
use std::fmt::Write;

/// Width of the column of names, and of a line.
const NAME: usize = 13;
const WIDTH: usize = 78;

/// Width of the column of query names.
const LONG_NAME: usize = 30;

/// The parts that can be listed.
pub const PARTS: [&str; 4] = ["analyses", "queries", "tables", "topics"];

/// Prints one part, or all.
pub fn run(what: Option<&str>) -> anyhow::Result<Exit> {
    let mut out = String::new();
    for part in PARTS.iter().filter(|p| what.is_none_or(|w| w == **p)) {
        if !out.is_empty() {
            out.push('\n');
        }
        match *part {
            "analyses" => analyses(&mut out),
            "queries" => queries(&mut out),
            "tables" => all_tables(&mut out),
            _ => topics(&mut out),
        }
    }
    out.push_str("\n`hta explain NAME` explains any of them.\n");
    print(out.as_bytes())?;
    Ok(Exit::Done)
}

fn analyses(out: &mut String) {
    out.push_str("analyses\n");
    for a in ANALYSES {
        entry(out, a.stem(), a.about().title);
        tables(out, *a);
    }
}

fn queries(out: &mut String) {
    out.push_str("queries: hta query NAME\n");
    for query in QUERIES {
        hanging(out, &format!("  {:<LONG_NAME$} ", query.name), &query.header().title, WIDTH);
    }
}

fn all_tables(out: &mut String) {
    out.push_str("tables\n");
    for line in wrap(&live::names().join(", "), WIDTH - 3) {
        let _ = writeln!(out, "  {line}");
    }
}

fn topics(out: &mut String) {
    out.push_str("topics\n");
    for (name, title, _) in TOPICS {
        entry(out, name, title);
        if *name == DIFF.stem() {
            tables(out, DIFF);
        }
    }
}

/// A name with its wrapped text.
fn entry(out: &mut String, name: &str, text: &str) {
    hanging(out, &format!("  {name:<NAME$} "), text, WIDTH);
}

/// The tables of one analysis, printed below its title.
fn tables(out: &mut String, analysis: &dyn Analysis) {
    let names: Vec<&str> = analysis.tables().iter().map(|t| t.name).collect();
    entry(out, "", &format!("tables: {}", names.join(", ")));
}
