//! `hta list`: analyses, their tables, and the topics of `hta explain`.

use super::exit::Exit;
use super::explain::TOPICS;
use super::output::print;
use crate::analysis::api::Analysis;
use crate::analysis::diff::DIFF;
use crate::analysis::inventory;
use crate::analysis::registry::ANALYSES;
use std::fmt::Write;

/// Width of names, and of what stands beside them.
const NAME: usize = 13;
const WIDTH: usize = 62;

pub fn run() -> anyhow::Result<Exit> {
    let mut out = String::from("analyses\n");
    for a in ANALYSES {
        entry(&mut out, a.stem(), a.title());
        tables(&mut out, *a);
    }
    let names: Vec<&str> = inventory::TABLES.iter().map(|t| t.name).collect();
    let _ = writeln!(out, "\ntables of every run\n  {}, events", names.join(", "));
    out.push_str("\ntopics\n");
    for (name, title, _) in TOPICS {
        entry(&mut out, name, title);
        if *name == DIFF.stem() {
            tables(&mut out, &DIFF);
        }
    }
    out.push_str("\n`hta explain NAME` explains any of them.\n");
    print(out.as_bytes())?;
    Ok(Exit::Done)
}

/// A name, and what it is.
fn entry(out: &mut String, name: &str, text: &str) {
    for (i, line) in crate::report::columns::wrap(text, WIDTH).into_iter().enumerate() {
        let _ = writeln!(out, "  {:<NAME$} {line}", if i == 0 { name } else { "" });
    }
}

/// The tables of one analysis, below its line.
fn tables(out: &mut String, analysis: &dyn Analysis) {
    let names: Vec<&str> = analysis.tables().iter().map(|t| t.name).collect();
    entry(out, "", &format!("tables: {}", names.join(", ")));
}
