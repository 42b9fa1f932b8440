//! Snapshots are inputs like traces: every way to ask for a table gives the same rows.

use super::command::{text, write};
use crate::cli::mcp::Client;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn hta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).output().expect("the binary runs")
}

/// The output of a command that succeeds.
fn said(args: &[&str]) -> String {
    let run = hta(args);
    assert_eq!(run.status.code(), Some(0), "{args:?}: {}", text(&run.stderr));
    text(&run.stdout)
}

/// A folder of three ranks.
fn job(folder: &Path) -> String {
    for (rank, peak) in [(0, 1_000_000), (1, 1_010_000), (2, 3_000_000)] {
        write(folder, &format!("mem_rank{rank}.pickle"), peak);
    }
    folder.display().to_string()
}

const PEAKS: &str = "SELECT rank, peak_bytes, trigger_site FROM memory_peaks ORDER BY rank";
const ROWS: &str =
    "rank,peak_bytes,trigger_site\n0,1000012,train.py:3\n1,1010012,train.py:3\n2,3000012,train.py:3\n";

#[test]
fn results_queries_and_parts_have_the_tables_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let (job, out) =
        (job(&folder.path().join("in")), |name: &str| folder.path().join(name).display().to_string());
    let report = said(&["analyze", &job, "--full", "-o", &out("whole")]);
    assert!(
        report.contains("rank 2, device 0: its peak is 3.00 MB, the median of the ranks 1.01 MB"),
        "{report}"
    );
    assert_eq!(said(&["query", PEAKS, &job, "--format", "csv"]), ROWS);
    assert_eq!(said(&["query", PEAKS, &out("whole"), "--format", "csv"]), ROWS);
    for share in ["0/2", "1/2"] {
        said(&["analyze", &job, "--partial", "--share", share, "-o", &out(&share.replace('/', "_of_"))]);
    }
    said(&["merge", &out("0_of_2"), &out("1_of_2"), "-o", &out("merged")]);
    let tables = std::fs::read_dir(folder.path().join("whole/tables")).unwrap();
    let mut count = 0;
    for table in tables.map(|entry| entry.unwrap().file_name()) {
        let [whole, merged] =
            ["whole", "merged"].map(|of| folder.path().join(of).join("tables").join(&table));
        assert!(std::fs::read(whole).unwrap() == std::fs::read(merged).unwrap(), "{}", table.display());
        count += 1;
    }
    assert!(count > 10, "{count} tables");
    assert!(folder.path().join("whole/report.html").is_file());
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    write(&other, "mem_rank0.pickle", 2_000_000);
    let other = other.display().to_string();
    said(&["analyze", &other, "-o", &out("after")]);
    let compared = said(&["diff", &job, &other]);
    assert!(compared.contains("the peak was 1.00 MB, is 2.00 MB"), "{compared}");
    assert_eq!(said(&["diff", &out("whole"), &out("after")]), compared);
    let mut client = Client::start(&[&job]);
    let peaks: Vec<(Value, Value)> =
        client.rows(&job, PEAKS).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    assert_eq!(peaks, [(0, 1_000_012), (1, 1_010_012), (2, 3_000_012)].map(|(r, p)| (r.into(), p.into())));
    assert_eq!(client.close(), Some(0));
}

#[test]
fn snapshots_beside_traces_are_left_to_the_command_that_reads_both() {
    let folder = tempfile::tempdir().unwrap();
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples/gloo_ddp4");
    for rank in 0..4 {
        let name = format!("rank_{rank}.pt.trace.json.gz");
        std::fs::copy(traces.join(&name), folder.path().join(&name)).unwrap();
    }
    let alone = said(&["breakdown", &folder.path().display().to_string()]);
    let job = job(folder.path());
    assert_eq!(said(&["breakdown", &job]), alone);
    let listed = said(&["inputs", &job]);
    assert!(listed.contains("4 ranks") && !listed.contains("pickle"), "{listed}");
    let snapshot = folder.path().join("mem_rank0.pickle").display().to_string();
    let named = hta(&["breakdown", &snapshot]);
    assert_eq!(named.status.code(), Some(2));
    assert!(text(&named.stderr).contains("found a memory snapshot"), "{}", text(&named.stderr));
}
