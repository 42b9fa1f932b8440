//! `hta analyze --only`: selected analyses give the same answers as in a full run.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

fn hta(args: &[&str]) -> Output {
    let run =
        Command::new(env!("CARGO_BIN_EXE_hta")).current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output();
    run.expect("the program runs")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder of results");
    entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_tables_of_chosen_analyses_are_those_of_a_run_of_all() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (all, some) = (dir.path().join("all"), dir.path().join("some"));
    let analyze = |out: &Path, more: &[&str]| {
        let out = out.to_str().expect("a name in UTF-8");
        let run = hta(&[&["analyze", "data/samples/gpu_ddp8", "--no-events", "-o", out][..], more].concat());
        assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    let report = analyze(&all, &["--full"]);
    let short = analyze(&some, &["--only", "idle,breakdown", "--only", "stragglers"]);
    assert!(report.len() > short.len() && short.contains("straggler"), "{short}");
    let chosen = names(&some.join("tables"));
    for table in
        ["temporal_breakdown", "idle", "idle_gaps", "stragglers", "straggler_causes", "ranks", "health"]
    {
        assert!(chosen.contains(&format!("{table}.parquet")), "{table}");
    }
    // Which tables lack rows, and what is said beside them, is told of the analyses that ran.
    let of_run = ["without_rows.parquet", "notes.parquet", "README.txt"];
    for table in chosen.iter().filter(|table| !of_run.contains(&table.as_str())) {
        let read = |out: &Path| std::fs::read(out.join("tables").join(table)).expect("a table");
        assert!(read(&all) == read(&some), "{table}");
    }
    let left_out: Vec<String> = names(&all.join("tables")).difference(&chosen).cloned().collect();
    assert!(
        left_out.contains(&"critical_path.parquet".to_string())
            && !chosen.contains("kernels_by_name.parquet")
    );
    assert!(some.join("report.html").exists());
}

#[test]
fn an_analysis_that_is_none_is_refused_and_a_partial_holds_all() {
    let run = hta(&["analyze", "data/samples/gpu_single", "--only", "idel"]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.code() == Some(2) && said.contains("idel") && said.contains("'idle'"), "{said}");
    let run = hta(&["analyze", "data/samples/gpu_single", "--only", "idle", "--partial"]);
    assert_eq!(run.status.code(), Some(2));
}
