//! Shares of a job: processes that are all given the same folder, and divide its files by `--share K/N`. Merged at once
//! or step by step, they leave the bytes of one run.

use super::{hta, stderr};
use crate::shared::{Files, contents, samples};
use std::path::Path;

/// Files and exit code of one run over a folder.
fn whole(root: &Path, folder: &str, options: &[&str]) -> (Files, Option<i32>) {
    let run = hta(root, &[&["analyze", folder, "-o", "whole"], options].concat());
    assert!(run.status.code().is_some_and(|c| c < 2), "{}", stderr(&run));
    (contents(&root.join("whole")), run.status.code())
}

fn share(root: &Path, folder: &str, k: usize, n: usize, options: &[&str]) -> String {
    let (part, which) = (format!("part{k}"), format!("{k}/{n}"));
    let run =
        hta(root, &[&["analyze", "--partial", "--share", &which, folder, "-o", &part], options].concat());
    assert!(run.status.code().is_some_and(|c| c < 2), "{}", stderr(&run));
    part
}

/// The samples, as they are in the repository: with files that are no traces, and without ranks in the names.
fn sample(set: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let copy = dir.path().join("traces");
    std::fs::create_dir(&copy).expect("a folder can be made");
    for file in std::fs::read_dir(samples().join(set)).expect("a sample can be listed").flatten() {
        std::fs::copy(file.path(), copy.join(file.file_name())).expect("a sample can be copied");
    }
    dir
}

#[test]
fn shares_of_every_sample_merged_leave_the_bytes_of_one_run() {
    for set in [
        "gpu_ddp8",
        "gpu_pp4",
        "gpu_ep4",
        "gloo_ddp4",
        "gpu_single",
        "gpu_counters",
        "gpu_cuspy",
        "gpu_pftrace",
        "cpu_single",
        "serving",
    ] {
        let dir = sample(set);
        let root = dir.path();
        let one = whole(root, "traces", &[]);
        for n in [1, 3] {
            let parts: Vec<String> = (0..n).map(|k| share(root, "traces", k, n, &[])).collect();
            let parts: Vec<&str> = parts.iter().rev().map(String::as_str).collect();
            let merged = hta(root, &[&["merge", "-o", "merged"], &parts[..]].concat());
            assert_eq!(merged.status.code(), one.1, "{set} {n}: {}", stderr(&merged));
            let differing: Vec<String> = differing(&one.0, &contents(&root.join("merged")));
            assert!(differing.is_empty(), "{set} in {n} shares: {differing:?}");
        }
    }
}

fn differing(one: &Files, other: &Files) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

#[test]
fn shares_are_merged_step_by_step() {
    let dir = sample("gpu_ddp8");
    let root = dir.path();
    std::fs::write(root.join("traces/rank_9.json"), "{\"traceEvents\": []}").expect("a file can be written");
    let one = whole(root, "traces", &["--steps", "@1..@2"]);
    assert_eq!(one.1, Some(1));
    (0..5).for_each(|k| drop(share(root, "traces", k, 5, &["--steps", "@1..@2"])));
    for (name, parts) in
        [("left", ["part0", "part4"]), ("right", ["part3", "part1"]), ("most", ["left", "right"])]
    {
        let run = hta(root, &["merge", "--partial", parts[0], parts[1], "-o", name]);
        assert!(run.status.code().is_some_and(|c| c < 2), "{}", stderr(&run));
    }
    let merged = hta(root, &["merge", "most", "part2", "-o", "merged"]);
    assert_eq!(merged.status.code(), one.1, "{}", stderr(&merged));
    assert_eq!(differing(&one.0, &contents(&root.join("merged"))), Vec::<String>::new());
}

#[test]
fn a_missing_share_is_refused() {
    let dir = sample("gpu_ddp8");
    let root = dir.path();
    (0..4).for_each(|k| drop(share(root, "traces", k, 4, &["--no-events"])));
    let joined = hta(root, &["merge", "--partial", "part0", "part3", "-o", "joined"]);
    assert!(joined.status.success(), "{}", stderr(&joined));
    for parts in [&["part0", "part1", "part3"][..], &["joined", "part1"]] {
        let run = hta(root, &[&["merge", "-o", "merged"], parts].concat());
        let message = stderr(&run);
        assert_eq!((run.status.code(), root.join("merged").exists()), (Some(2), false), "{message}");
        let expected =
            "hta: cannot merge: expected all 4 shares of the job, found none of 2\nhint: make the missing";
        assert!(message.starts_with(expected), "{message}");
    }
    share(root, "traces", 0, 2, &["--no-events"]);
    let run = hta(root, &["merge", "part0", "part1", "part2", "part3", "-o", "merged"]);
    assert!(
        stderr(&run).contains("made with different options: --share is `0/2` and `1/4`"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn a_share_belongs_to_a_partial() {
    let dir = sample("gpu_counters");
    let run = hta(dir.path(), &["analyze", "--share", "0/2", "traces"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("--partial"), "{}", stderr(&run));
    let run = hta(dir.path(), &["analyze", "--partial", "--share", "2/2", "traces"]);
    assert!(stderr(&run).contains("expected K/N with K from 0 to N-1"), "{}", stderr(&run));
}

#[test]
fn inputs_are_listed_with_ranks_and_sizes() {
    let dir = sample("gpu_ddp8");
    let root = dir.path();
    std::fs::write(root.join("traces/empty.json"), "").expect("a file can be written");
    let run = hta(root, &["inputs", "traces", "--format", "json"]);
    // A file that was only found in the folder is no loss; one that was named is.
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let named = hta(root, &["inputs", "traces/empty.json", "traces/rank_0.json.gz"]);
    assert_eq!(named.status.code(), Some(1), "{}", stderr(&named));
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&run.stdout).expect("JSON");
    let ranks: Vec<Option<u64>> = rows.iter().map(|r| r["rank"].as_u64()).collect();
    assert_eq!(ranks, [0, 1, 2, 3, 4, 5, 6, 7].map(Some).into_iter().chain([None]).collect::<Vec<_>>());
    for row in &rows[..8] {
        let file = row["file"].as_str().expect("a name");
        let size = std::fs::metadata(root.join(file)).expect("a file").len();
        assert_eq!((row["bytes"].as_u64(), &row["error"]), (Some(size), &serde_json::Value::Null));
        assert_eq!(row["rank_source"], "file");
    }
    assert!(rows[8]["error"].as_str().is_some_and(|e| e.contains("found an empty file")), "{}", rows[8]);
    let some = hta(root, &["inputs", "traces", "--ranks", "2-3"]);
    let text = String::from_utf8_lossy(&some.stdout).into_owned();
    assert!(text.contains("rank_3.json.gz") && !text.contains("rank_4.json.gz"), "{text}");
    assert!(text.ends_with("2 ranks, 62.0 kB\n"), "{text}");
    let none = hta(root, &["inputs", "traces/empty.json"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn progress_is_told_in_lines_that_a_program_can_read() {
    let dir = sample("gpu_ddp8");
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_hta"))
        .current_dir(dir.path())
        .env("HTA_PROGRESS", "json")
        .args(["analyze", "traces", "-o", "out"])
        .output()
        .expect("the binary runs");
    let lines = stderr(&run);
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    let progress = &last["progress"];
    assert_eq!((progress["ranks"].as_u64(), progress["ranks_done"].as_u64()), (Some(8), Some(8)), "{lines}");
    assert!(progress["bytes"].as_u64().is_some_and(|b| b > 200_000), "{lines}");
    assert_eq!(progress["bytes"], progress["bytes_done"], "{lines}");
    let quiet = hta(dir.path(), &["analyze", "traces", "-o", "out"]);
    assert_eq!(stderr(&quiet), "");
}
