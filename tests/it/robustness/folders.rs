//! `hta analyze` on all available inputs: no panic, a bounded run time, and the documented exit code.
//!
//! 0: all done. 1: something could not be used, the rest is there. 2: no answer, with a reason.

use crate::run::{answer, options};
use crate::shared;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest allowed run time for one file or folder.
const LIMIT: Duration = Duration::from_secs(60);

/// How one run ended.
struct Ended {
    code: i32,
    errors: String,
    took: Duration,
    summary: Option<Value>,
}

fn analyze(input: &Path) -> Ended {
    let out = tempfile::tempdir().expect("a temporary folder");
    let result = out.path().join("result");
    let start = Instant::now();
    let mut hta = Command::new(env!("CARGO_BIN_EXE_hta"));
    let run = hta.arg("analyze").arg(input).arg("--out").arg(&result).output().expect("the binary runs");
    let took = start.elapsed();
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    let code = run.status.code().unwrap_or_else(|| panic!("{}: killed: {errors}", input.display()));
    let summary = std::fs::read_to_string(result.join("summary.json"));
    let summary = summary.ok().map(|t| serde_json::from_str(&t).expect("summary.json is JSON"));
    assert_eq!(summary.is_some(), result.join("report.txt").is_file(), "{}", input.display());
    Ended { code, errors, took, summary }
}

/// Checks one run against the contract; returns its exit code.
pub fn check(input: &Path) -> i32 {
    let shown = input.display();
    let end = analyze(input);
    assert!(!end.errors.contains("panicked"), "{shown}: {}", end.errors);
    assert!(end.took < LIMIT, "{shown}: took {:?}", end.took);
    match (end.code, &end.summary) {
        (2, None) => {
            // A message that names the problem and the file.
            let first = end.errors.lines().find(|l| l.starts_with("hta: ")).unwrap_or_default();
            assert!(first.len() > "hta: cannot ".len(), "{shown}: `{}`", end.errors);
        }
        (code @ (0 | 1), Some(summary)) => {
            let list =
                |key: &str| summary[key].as_array().cloned().unwrap_or_else(|| panic!("{shown}: no {key}"));
            let lost = list("health").iter().any(|h| h["severity"] == "lost" || h["severity"] == "fatal");
            let given = |r: &Value| !r["reason"].as_str().unwrap_or_default().is_empty();
            assert!(list("refused").iter().all(given), "{shown}: refused without a reason");
            let refused = list("refused").iter().any(|r| r["is_loss"] == true);
            assert!(summary["rank_count"].as_u64() > Some(0), "{shown}: no rank was analysed");
            if code == 0 {
                assert!(!lost && !refused, "{shown}: exit code 0 although something was lost");
            } else {
                assert!(lost || refused, "{shown}: exit code 1 and no reason");
            }
        }
        (code, summary) => {
            panic!("{shown}: exit code {code}, results: {}: {}", summary.is_some(), end.errors)
        }
    }
    end.code
}

/// Runs of each exit code.
pub fn check_all(inputs: &[PathBuf]) -> [usize; 3] {
    let mut counts = [0; 3];
    for input in inputs {
        counts[check(input) as usize] += 1;
    }
    counts
}

#[test]
fn every_sample_ends_as_the_contract_says() {
    let samples = shared::samples();
    let [clean, partly, nothing] = check_all(&shared::files_below(&samples));
    // In cpu_awkward_names the profiler lost three names; KNOWN_ANSWERS.json, MANIFEST.tsv and ground_truth.json are
    // not traces.
    assert_eq!((clean, partly, nothing), (27, 1, 3));
    assert_eq!(check(&samples.join("cpu_single/cpu_awkward_names.pt.trace.json")), 1);
    for (set, code) in [("gpu_ddp8", 0), ("gloo_ddp4", 0), ("cpu_single", 1)] {
        assert_eq!(check(&samples.join(set)), code, "{set}");
    }
    assert_eq!(check(&samples), 2, "the folder of samples itself holds no trace");
}

#[test]
fn a_rank_told_behind_the_events_leaves_no_rows_of_the_first_numbering() {
    let kernels = |count: usize| {
        let one = |i: usize| {
            let ts = 100 + 10 * i;
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":5,"args":{{"device":0,"stream":7}}}}"#
            )
        };
        (0..count).map(one).collect::<Vec<_>>().join(",")
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("a.json"), format!(r#"{{"traceEvents":[{}]}}"#, kernels(5)))
        .expect("written");
    // Too long to be read completely before it is loaded.
    let told = format!(r#"{{"traceEvents":[{}],"distributedInfo":{{"rank":7}}}}"#, kernels(20_000));
    std::fs::write(folder.path().join("b.json"), told).expect("written");
    let answer = answer(&[folder.path().to_path_buf()], &options());
    assert_eq!(answer.outcome.ranks(), [0, 7]);
    let rows = |rank| answer.rows("kernels").iter().filter(|r| r.int("rank") == rank).count();
    assert_eq!((rows(0), rows(7)), (5, 20_000));
}
