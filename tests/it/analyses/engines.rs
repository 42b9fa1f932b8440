//! Engines of one server beside each other: each numbers its ranks from 0, and is no rank of a job with the others.

use crate::run::{Answer, options, try_run};
use hta::error::SetError;
use hta::run::RunError;
use hta_testkit::{TraceBuilder, us};
use std::path::{Path, PathBuf};
use std::process::Command;

const DP0: &str = "dp0_pp0_tp0_rank0.1700.pt.trace.json";
const DP1: &str = "dp1_pp0_tp0_rank0.1700.pt.trace.json";

/// Three iterations of 300 us of the only worker of an engine, from `from` us on.
fn engine(pid: i64, from: i64, batch: u64) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).world(1).host("node").pid(pid).device("NVIDIA H100", 132);
    let mut main = t.thread(pid);
    for k in 0..3 {
        let start = us(from + 300 * k);
        main.annotation(&format!("execute_context_0(0)_generation_{batch}({batch})"), start..start + us(100));
        let mut graph = main.graph_launch(start + us(10)..start + us(20));
        for i in 0..50 {
            let at = start + us(30 + 4 * i);
            graph = graph.kernel("gemm", 7, at..at + us(4));
        }
    }
    t
}

fn write(folder: &Path, files: &[(&str, &TraceBuilder)]) -> Vec<PathBuf> {
    for (name, trace) in files {
        std::fs::write(folder.join(name), trace.to_json()).unwrap();
    }
    vec![folder.to_path_buf()]
}

fn run(files: &[(&str, &TraceBuilder)]) -> Result<Answer, RunError> {
    let folder = tempfile::tempdir().unwrap();
    try_run(&write(folder.path(), files), &options())
}

fn is_refused(files: &[(&str, &TraceBuilder)]) -> bool {
    matches!(run(files), Err(RunError::Set(SetError::DuplicateRank { .. })))
}

#[test]
fn engines_that_claim_one_rank_are_processes_of_their_own() {
    let a = run(&[(DP0, &engine(100, 0, 8)), (DP1, &engine(200, 50, 4))]).unwrap();
    let ranks = a.rows("ranks");
    let of = |c: &str| ranks.iter().map(|r| r.cell(c).clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("rank"), of("rank_source")),
        (vec![0.into(), 1.into()], vec!["process".into(), "process".into()])
    );
    assert!(of("world_size").iter().all(serde_json::Value::is_null));
    let phases: Vec<(String, i64)> = a
        .rows("iteration_phases")
        .iter()
        .map(|r| (r.text("process").to_string(), r.int("requests")))
        .collect();
    assert_eq!(phases, [(DP0.to_string(), 8), (DP1.to_string(), 4)]);
    // What compares ranks does not run, so nothing of one engine is explained by the other.
    let stems: Vec<&str> = a.outcome.outputs.iter().map(|(x, _)| x.stem()).collect();
    assert!(
        stems.contains(&"iterations") && stems.contains(&"idle") && !stems.contains(&"diagnosis"),
        "{stems:?}"
    );
    assert!(a.outcome.clocks.is_empty() && !a.outcome.has_loss());
}

#[test]
fn two_captures_of_one_process_are_still_refused() {
    let (early, late) = (engine(100, 0, 8), engine(100, 5_000, 8));
    assert!(is_refused(&[("a_rank0.json", &early), ("b_rank0.json", &late)]));
    // At the same time they cannot be of one process, even if both containers call it by one number.
    assert!(!is_refused(&[("a_rank0.json", &early), ("b_rank0.json", &engine(100, 100, 8))]));
}

#[test]
fn ranks_that_do_not_serve_are_still_refused() {
    let train = |pid: i64| {
        let mut t = TraceBuilder::new().rank(0).world(1).pid(pid).device("NVIDIA H100", 132);
        let mut main = t.thread(pid);
        main.step(1, 0..us(100));
        main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(90));
        t
    };
    assert!(is_refused(&[("a.json", &train(100)), ("b.json", &train(200))]));
    assert!(is_refused(&[("a.json", &engine(100, 0, 8)), ("b.json", &train(200))]));
}

#[test]
fn a_front_end_beside_engines_is_left_out() {
    let mut front = TraceBuilder::new().pid(50);
    front.thread(50).frame("server.py(10): serve", 0..us(900));
    let a =
        run(&[(DP0, &engine(100, 0, 8)), (DP1, &engine(200, 50, 4)), ("api.pt.trace.json", &front)]).unwrap();
    assert_eq!((a.rows("ranks").len(), a.outcome.refused.len(), a.outcome.has_loss()), (2, 1, false));
    let files: Vec<String> =
        a.rows("iteration_phases").iter().map(|r| r.text("process").to_string()).collect();
    assert_eq!(files, [DP0, DP1]);
}

#[test]
fn the_text_names_the_processes_and_what_needs_one_engine() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[(DP0, &engine(100, 0, 8)), (DP1, &engine(200, 50, 4))]);
    let results = tempfile::tempdir().unwrap();
    let (input, out) =
        (folder.path().display().to_string(), results.path().join("out").display().to_string());
    let hta = |args: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_hta")).args(args).output().unwrap();
        let words =
            |text: &[u8]| String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
        (done.status.code().unwrap(), words(&done.stdout), words(&done.stderr))
    };
    let (code, text, _) = hta(&["iterations", &input]);
    assert_eq!(code, 0);
    assert!(text.contains("processes, not ranks of one job"), "{text}");
    assert!(text.contains(&format!("0 {DP0}, 1 {DP1}")), "{text}");
    assert!(text.contains("decode batch 8 count 3") && text.contains("decode batch 4 count 3"), "{text}");
    let (code, text, _) = hta(&["analyze", &input, "--no-events", "-o", &out]);
    assert_eq!(code, 0);
    assert!(text.starts_with("2 processes") && !text.contains("Verdict"), "{text}");
    let (code, _, error) = hta(&["diagnosis", &input]);
    assert_eq!(code, 2);
    assert!(error.contains("both claim rank 0") && error.contains("hta iterations"), "{error}");
}
