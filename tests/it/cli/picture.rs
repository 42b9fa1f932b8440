//! Pictures in the documentation show the program's current output.

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn every_line_of_the_picture_is_printed_in_its_order() {
    let picture = fs::read_to_string(Path::new(ROOT).join("data/images/report.svg")).unwrap();
    let shown: Vec<String> = picture
        .lines()
        .filter_map(|l| l.strip_prefix("<text ")?.split_once('>')?.1.strip_suffix("</text>"))
        .map(|l| l.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace('\u{a0}', " "))
        .collect();
    let out = tempfile::tempdir().unwrap();
    let files = (0..8).map(|r| format!("data/samples/gpu_ddp8/rank_{r}.json.gz"));
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .arg("analyze")
        .args(files)
        .args(["--force", "--no-events", "--out"])
        .arg(out.path())
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let report = String::from_utf8(run.stdout).unwrap();
    let mut printed = report.lines();
    // Between the typed command and the dots.
    let inside = shown.get(1..shown.len() - 1).expect("a picture of more than two lines");
    assert!(inside.len() > 25, "{inside:?}");
    for line in inside {
        assert!(printed.any(|p| p == line), "stale (data/images/draw_report.py draws it): no line `{line}`");
    }
}

#[test]
fn the_picture_of_iterations_has_the_times_of_the_table() {
    let picture = fs::read_to_string(Path::new(ROOT).join("data/images/iterations.svg")).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["iterations", "data/samples/serving", "--table", "iterations", "--format", "json"])
        .current_dir(ROOT)
        .output()
        .unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(rows.len(), 3);
    let shown = |ns: i64| {
        if ns >= 1_000_000 { format!("{:.2} ms", ns as f64 / 1e6) } else { format!("{} us", ns / 1_000) }
    };
    for r in &rows {
        let ns = |column: &str| r[column].as_i64();
        let mut words = vec![
            format!(">window {}<", shown(ns("dur_ns").unwrap())),
            format!(">bubble {}<", shown(ns("host_exposed_ns").unwrap())),
        ];
        if let Some(gap) = ns("gap_idle_ns") {
            words.push(format!(">gap {} idle<", shown(gap)));
            words.push(format!(
                ">{}, {:.0} tokens/s<",
                shown(ns("period_ns").unwrap()),
                r["tokens_per_s"].as_f64().unwrap()
            ));
        }
        for word in words {
            assert!(picture.contains(&word), "stale (data/images/draw_iterations.py draws it): no `{word}`");
        }
    }
}
