//! `hta list`: analyses, their tables, and the topics of `hta explain`.

use super::exit::Exit;
use super::explain::TOPICS;
use super::output::print;
use crate::analysis::api::Analysis;
use crate::analysis::diff::DIFF;
use crate::analysis::inventory;
use crate::analysis::registry::ANALYSES;
use std::fmt::Write;

/// Width of the tables' names.
const WIDTH: usize = 64;

pub fn run() -> anyhow::Result<Exit> {
    let mut out = String::from("analyses\n");
    for a in ANALYSES {
        let _ = writeln!(out, "  {:<11} {}", a.stem(), a.title());
        tables(&mut out, *a);
    }
    let names: Vec<&str> = inventory::TABLES.iter().map(|t| t.name).collect();
    let _ = writeln!(out, "\ntables of every run\n  {}, events", names.join(", "));
    out.push_str("\ntopics\n");
    for (name, title, _) in TOPICS {
        let _ = writeln!(out, "  {name:<11} {title}");
        if *name == DIFF.stem() {
            tables(&mut out, &DIFF);
        }
    }
    out.push_str("\n`hta explain NAME` explains any of them.\n");
    print(out.as_bytes())?;
    Ok(Exit::Done)
}

/// The tables of one analysis, below its line.
fn tables(out: &mut String, analysis: &dyn Analysis) {
    let names: Vec<&str> = analysis.tables().iter().map(|t| t.name).collect();
    for line in crate::report::columns::wrap(&format!("tables: {}", names.join(", ")), WIDTH) {
        let _ = writeln!(out, "  {:<11} {line}", "");
    }
}
