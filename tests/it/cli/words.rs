//! `hta explain` knows the words that tables print: every value of their key columns.

use crate::run::{answer, options};
use crate::shared;
use hta::analysis::inventory::HealthTable;
use hta::health::Severity;
use std::collections::BTreeMap;
use std::process::Command;

/// Columns whose values are words of the program, not names of the traced one.
const COLUMNS: [&str; 37] = [
    "activity",
    "basis",
    "bound",
    "capability",
    "category",
    "cause",
    "certainty",
    "change",
    "class",
    "clock_state",
    "device_state",
    "device_type",
    "direction",
    "edge",
    "evidence",
    "family",
    "grade",
    "host_activity",
    "joined_by",
    "key_kind",
    "kind",
    "largest",
    "level",
    "matched_by",
    "moment",
    "occupancy_limiter",
    "part",
    "pattern",
    "phase",
    "rank_source",
    "rule",
    "scope",
    "severity",
    "side",
    "step_rule",
    "tensor_cores",
    "trend",
];

#[test]
fn every_value_of_a_key_column_is_a_topic() {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for sample in [
        "gpu_ddp8",
        "gpu_pp4",
        "gpu_ep4",
        "gpu_single",
        "gloo_ddp4",
        "gpu_counters",
        "gpu_cuspy",
        "gpu_pftrace",
        "serving",
    ] {
        let answer = answer(&[shared::samples().join(sample)], &options());
        for batch in answer.batches() {
            let columns = batch.spec.columns.iter().filter(|c| COLUMNS.contains(&c.name) && c.kind == "text");
            for column in columns {
                for row in crate::run::rows_of(batch) {
                    // A compute capability is a number.
                    let is_word = |value: &&str| value.starts_with(|c: char| c.is_lowercase());
                    if let Some(value) = row.cell(column.name).as_str().filter(is_word) {
                        let place = || format!("{}.{}", batch.spec.name, column.name);
                        found.entry(value.to_string()).or_insert_with(place);
                    }
                }
            }
        }
    }
    assert!(found.len() > 100, "{found:?}");
    let is_topic = |word: &str| {
        let run = Command::new(env!("CARGO_BIN_EXE_hta")).args(["explain", word]).output();
        run.expect("the binary runs").status.success()
    };
    let unknown: Vec<_> = found.iter().filter(|(word, _)| !is_topic(word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// One word has one meaning on all screens: severities are named as the table `health` has them.
#[test]
fn every_text_about_severities_has_the_words_of_the_table() {
    let read = |path: &str| {
        std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")))
            .expect("a file of the project")
    };
    let page = read("src/cli/explain/health.md");
    let (query, style) = (read("queries/import_health.sql"), read("src/results/output/html/page.css"));
    for severity in Severity::ALL.map(|severity| severity.name()) {
        let line = page.lines().find(|line| line.trim_start().starts_with(&format!("{severity} ")));
        assert!(line.is_some(), "`hta explain health` does not describe {severity}");
        let doc = HealthTable::SPEC.column_spec("severity").expect("a column").doc;
        assert!(doc.contains(severity), "the table does not name {severity}");
        if severity != "info" {
            assert!(query.contains(&format!("WHEN '{severity}' THEN")), "the query does not rank {severity}");
            assert!(style.contains(&format!(".severity-{severity}")), "the page does not mark {severity}");
        }
    }
    for old in ["'loss'", "`loss`", "'repair'", "`repair`", "severity-loss", "severity-repair"] {
        for (name, text) in [("health.md", &page), ("import_health.sql", &query), ("page.css", &style)] {
            assert!(!text.contains(old), "{name}: {old}");
        }
    }
}
