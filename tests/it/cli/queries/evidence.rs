//! The rows that a cause names as its evidence are there, and they are of that cause: its ranks, and what it names.

use super::{ROOT, SAMPLES, results};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn rows(statement: &str, folder: &Path) -> Vec<Value> {
    let mut hta = Command::new(env!("CARGO_BIN_EXE_hta"));
    let run = hta.args(["query", statement, "--format", "json"]).arg(folder).output().expect("hta runs");
    assert!(run.status.success(), "{statement}: {}", String::from_utf8_lossy(&run.stderr));
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{statement}: {e}"))
}

/// Checks the evidence of all causes of a run; gives how many pieces it has.
fn check(folder: &Path, what: &str) -> usize {
    let findings = rows("SELECT finding_id, kind, ranks FROM findings", folder);
    let of_cause: BTreeMap<&str, &Value> =
        findings.iter().filter_map(|f| Some((f["finding_id"].as_str()?, f))).collect();
    let all = rows("SELECT finding_id, evidence_table, filter FROM finding_evidence", folder);
    for e in &all {
        let [id, table, filter] =
            ["finding_id", "evidence_table", "filter"].map(|c| e[c].as_str().expect("a text"));
        let condition = if filter.is_empty() { String::new() } else { format!(" WHERE {filter}") };
        let found = rows(&format!("SELECT * FROM {table}{condition}"), folder);
        assert!(!found.is_empty(), "{what}: no row of {table}{condition}");
        let cause = of_cause[id];
        let kind = cause["kind"].as_str().expect("a kind");
        let ranks: Vec<i64> =
            cause["ranks"].as_str().expect("ranks").split(',').filter_map(|r| r.parse().ok()).collect();
        for row in &found {
            // What others wait for stands in their rows.
            let is_named = table == "finding_names" && row["finding_id"] == id;
            let is_mine =
                is_named || row["rank"].as_i64().is_none_or(|rank| ranks.is_empty() || ranks.contains(&rank));
            assert!(is_mine, "{what}: {row} of {table}{condition} is not of {kind} on {ranks:?}");
            let is_of_kind = row["cause"] == kind || row["part"] == "compute" && row["cause"].is_null();
            let is_of_step = kind == "step_outlier";
            assert!(table != "time_account" || is_of_kind || is_of_step, "{what}: {row} is not of {kind}");
        }
        // What a name owns is of one cause.
        let is_mine = |row: &Value| table != "finding_names" || row["finding_id"] == id;
        assert!(found.iter().all(is_mine), "{what}: {filter} gives rows of another cause");
    }
    all.len()
}

#[test]
fn the_evidence_of_a_cause_gives_the_rows_of_that_cause() {
    let of_samples: usize = SAMPLES.iter().map(|sample| check(&results(sample), sample)).sum();
    assert!(of_samples > 10, "{of_samples}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for trace in [
        "tests/data/causes/data_loader.json.gz",
        "tests/data/causes/host_python.json.gz",
        "tests/data/causes/step_outlier.json.gz",
        "tests/data/causes/copy_pageable.json.gz",
        "data/samples/serving",
    ] {
        let out = folder.path().join("out");
        let mut hta = Command::new(env!("CARGO_BIN_EXE_hta"));
        let run = hta.current_dir(ROOT).args(["analyze", trace, "--no-html", "-o"]).arg(&out).output();
        assert!(run.is_ok_and(|run| run.status.code().is_some_and(|code| code < 2)), "{trace}");
        assert!(check(&out, trace) > 0, "{trace} has no evidence");
    }
}
