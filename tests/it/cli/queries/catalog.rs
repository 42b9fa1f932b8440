//! The files of `queries/` and their headers.

use super::{ROOT, SAMPLES, answer};
use hta::registry::ANALYSES;
use hta::sql::catalog::{QUERIES, find};
use hta::sql::live;
use hta::sql::statement::Statement;
use hta::table::format::unit;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_catalog_holds_every_file_and_no_other() {
    let folder = Path::new(ROOT).join("queries");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".sql"))
        .collect();
    let listed: BTreeSet<String> = QUERIES.iter().map(|q| format!("{}.sql", q.name)).collect();
    assert_eq!(files, listed);
    assert_eq!(listed.len(), QUERIES.len(), "a name stands twice");
    assert!(QUERIES.len() >= 24);
}

#[test]
fn every_header_is_complete_and_names_the_tables_that_are_read() {
    let tables = live::names();
    for query in QUERIES {
        let (name, header) = (query.name, query.header());
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(name.len() <= 30 && !tables.iter().any(|t| t == name), "{name}");
        assert!(ANALYSES.iter().all(|a| a.stem() != name), "{name}");
        assert!(
            (8..=60).contains(&header.title.len()) && !header.title.ends_with('.'),
            "{name}: {}",
            header.title
        );
        assert!(header.answers.ends_with('?') && header.answers.len() > 20, "{name}: {}", header.answers);
        assert!(header.read.ends_with('.') && header.read.len() > 40, "{name}: {}", header.read);
        assert!(header.columns.len() > 2, "{name}");
        let statement = Statement::new(query.text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(statement.tables, header.tables.iter().cloned().collect(), "{name}");
        assert!(statement.tables.iter().all(|t| tables.contains(t)), "{name}: {:?}", statement.tables);
        assert!(statement.is_ordered, "{name}: rows in no order");
        assert!(
            query.text.ends_with(";\n") && query.text.lines().all(|l| l.chars().count() <= 120),
            "{name}"
        );
    }
}

/// Numbers without a unit: ids, lines of files, counts, lengths of sequences.
fn is_plain(name: &str) -> bool {
    let plain = [
        "rank", "step", "label", "device", "stream", "count", "length", "size", "ratio", "waves", "line",
        "pipeline", "position", "rail",
    ];
    plain.iter().any(|p| name == *p || name.ends_with(&format!("_{p}")))
}

#[test]
fn answers_have_the_columns_of_the_header_and_units_in_their_names() {
    let mut filled = BTreeSet::new();
    for sample in SAMPLES {
        for query in QUERIES {
            let answer = answer(sample, query);
            let named: Vec<String> = query.header().columns.into_iter().map(|c| c.0).collect();
            assert_eq!(answer.names(), named, "{}", query.name);
            for name in answer.names() {
                assert_eq!(
                    answer.is_number(name),
                    unit(name).is_some() || is_plain(name),
                    "{}.{name}",
                    query.name
                );
            }
            if !answer.is_empty() {
                filled.insert(query.name);
            }
        }
    }
    // Some samples have no conversions of tensors.
    let empty: Vec<&str> = QUERIES.iter().map(|q| q.name).filter(|n| !filled.contains(n)).collect();
    assert!(empty.iter().all(|n| MAY_BE_EMPTY.contains(n)), "no sample answers {empty:?}");
    assert_eq!(find("no_such_query"), None);
}

/// Queries whose subject does not occur in the samples.
const MAY_BE_EMPTY: [&str; 3] = ["layout_changes", "recorded_counters", "energy_per_step"];
