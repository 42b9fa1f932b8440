//! Statements that take too much end with exit code 2, leave no file, and say what to do.

use super::{ROOT, results};
use std::path::Path;
use std::process::{Command, Output};

/// 70 million rows, of which each has two names.
const ALL_WITH_ALL: &str =
    "SELECT a.name, b.name AS other, a.dur_ns + b.dur_ns AS sum_ns FROM events a CROSS JOIN events b";

/// hta in a shell with a limit on its address space, KiB.
fn within(kib: Option<u64>, arguments: &[&str]) -> Output {
    let limit = kib.map_or(String::new(), |kib| format!("ulimit -v {kib} && "));
    let script = format!("{limit}exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_hta")]).args(arguments).current_dir(ROOT);
    shell.output().expect("a shell")
}

fn said(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

#[test]
fn a_statement_ends_at_the_memory_limit() {
    let (folder, dir) = (results("gpu_ddp8"), tempfile::tempdir().expect("a folder"));
    let (folder, out) = (folder.display().to_string(), dir.path().join("a.csv").display().to_string());
    let run = within(
        None,
        &["query", ALL_WITH_ALL, &folder, "--memory-limit", "300MB", "--format", "csv", "--out", &out],
    );
    assert_eq!(run.status.code(), Some(2), "{}", said(&run));
    assert!(
        said(&run).contains("cannot run the statement: it needs more than 300 MB of memory"),
        "{}",
        said(&run)
    );
    assert!(said(&run).contains("hint: ") && !Path::new(&out).exists(), "{}", said(&run));
}

#[test]
fn a_limit_of_the_shell_ends_it_in_order_and_leaves_small_statements_alone() {
    let folder = results("gpu_ddp8").display().to_string();
    for kib in [1_500_000, 3_000_000] {
        let run = within(Some(kib), &["query", ALL_WITH_ALL, &folder, "--format", "csv"]);
        assert_eq!(run.status.code(), Some(2), "{kib}: {}", said(&run));
        let run = within(Some(kib), &["query", "top_kernels", &folder]);
        assert_eq!(run.status.code(), Some(0), "{kib}: {}", said(&run));
    }
}

#[test]
fn a_statement_ends_at_the_time_limit() {
    let folder = results("gpu_ddp8").display().to_string();
    // Some hundred million pairs are compared, in less memory than there is.
    let statement = "SELECT COUNT(*) AS n FROM events a JOIN events b ON a.ts_ns < b.ts_ns JOIN ranks c ON c.rank < b.rank";
    let run = within(None, &["query", statement, &folder, "--time-limit", "1", "--memory-limit", "8GB"]);
    assert_eq!(run.status.code(), Some(2), "{}", said(&run));
    let is_told = ["takes longer than 1 s", "needs more than 8 GB"].iter().any(|t| said(&run).contains(t));
    assert!(is_told, "{}", said(&run));
}
