//! `hta list`: analyses, their tables, and the topics of `hta explain`.

use super::exit::Exit;
use super::explain::TOPICS;
use super::output::print;
use crate::analysis::inventory;
use crate::analysis::registry::ANALYSES;
use std::fmt::Write;

/// Width of the tables' names.
const WIDTH: usize = 64;

pub fn run() -> anyhow::Result<Exit> {
    let mut out = String::from("analyses\n");
    for a in ANALYSES {
        let _ = writeln!(out, "  {:<11} {}", a.stem(), a.title());
        let names: Vec<&str> = a.tables().iter().map(|t| t.name).collect();
        let tables = format!("tables: {}", names.join(", "));
        for line in crate::report::columns::wrap(&tables, WIDTH) {
            let _ = writeln!(out, "  {:<11} {line}", "");
        }
    }
    let names: Vec<&str> = inventory::TABLES.iter().map(|t| t.name).collect();
    let _ = writeln!(out, "\ntables of every run\n  {}, events", names.join(", "));
    out.push_str("\ntopics\n");
    for (name, title, _) in TOPICS {
        let _ = writeln!(out, "  {name:<11} {title}");
    }
    out.push_str("\n`hta explain NAME` explains any of them.\n");
    print(out.as_bytes())?;
    Ok(Exit::Done)
}
