//! Files that are invalid JSON, truncated or unusual: the overlay is valid JSON, contains what can be read, and gives
//! the same answers.

use super::{Asked, fields, is_added, raw_events, text};
use crate::run::{Answer, options, try_run};
use crate::shared;
use hta::output::json::records;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn breakdown(answer: &Answer) -> Vec<Value> {
    let tables = ["temporal_breakdown", "kernels_by_name", "idle", "steps"];
    answer.batches().filter(|b| tables.contains(&b.spec.name)).flat_map(records).collect()
}

fn is_dump(answer: &Answer) -> bool {
    answer
        .batches()
        .filter(|b| b.spec.name == "recorders")
        .flat_map(records)
        .any(|row| row["recorder"] == "memory dump")
}

#[test]
fn every_broken_file_gives_json_that_reads_the_same() {
    let broken = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let (mut made, mut refused) = (0, 0);
    for file in shared::files_below(&broken) {
        if file.extension().is_some_and(|e| e == "tsv") {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst").trim_end_matches(".tmp");
        let out = dir.path().join(name);
        let before = try_run(std::slice::from_ref(&file), &options());
        let drawn = Asked::default().write(std::slice::from_ref(&file), &out);
        let (before, drawn) = match (before, drawn) {
            (Ok(b), Ok(d)) => (b, d),
            (Err(_), Err(_)) => {
                assert!(!out.exists());
                refused += 1;
                continue;
            }
            // A dump of memory has no events to draw over, but is analysed.
            (Ok(b), Err(_)) if is_dump(&b) => {
                assert!(!out.exists());
                refused += 1;
                continue;
            }
            (b, d) => {
                panic!("{file:?}: {:?} {:?}", b.err().map(|e| e.to_string()), d.err().map(|e| e.to_string()))
            }
        };
        made += 1;
        assert!(drawn.has_loss() || !before.outcome.has_loss(), "{file:?}");
        let events = raw_events(&text(&out));
        assert_eq!(events.iter().filter(|e| !is_added(e)).count() as u64, drawn.drawn[0].events, "{file:?}");
        // Strict JSON without texts that a strict parser refuses (serde_json's own tree has a depth limit).
        for e in events.iter().filter(|_| !name.contains("deep_nesting")) {
            serde_json::from_str::<Value>(e).unwrap_or_else(|x| panic!("{file:?} {x} {e}"));
        }
        let after = try_run(&[out], &options()).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        assert_eq!(breakdown(&before), breakdown(&after), "{file:?}");
    }
    assert!(made > 70 && refused > 5, "{made} {refused}");
}

#[test]
fn a_cut_file_gives_what_is_whole_and_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.json");
    let run = hta(&["overlay", "tests/broken/truncated_mid_event.json", "-o", out.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(errors.contains("file_truncated") && errors.lines().count() == 1, "{errors}");
    assert!(raw_events(&text(&out)).len() > 5);
    // --strict writes nothing.
    let strict = dir.path().join("strict.json");
    let run = hta(&[
        "overlay",
        "tests/broken/truncated_mid_event.json",
        "--strict",
        "-o",
        strict.to_str().unwrap(),
    ]);
    assert_eq!((run.status.code(), strict.exists()), (Some(2), false));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no half file is left");
}

#[test]
fn fractions_without_their_zeros_are_written_in_full() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("rank_0.json");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken/d10_unpadded_fraction.json.gz");
    Asked::default().write(&[file], &out).unwrap();
    for event in raw_events(&text(&out)) {
        for key in ["ts", "dur"] {
            if let Some((_, fraction)) = fields(&event).get(key).and_then(|t| t.split_once('.')) {
                assert_eq!(fraction.len(), 3, "{event}");
            }
        }
    }
}

fn hta(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

#[test]
fn nothing_is_written_over_a_trace_and_over_a_file_only_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("rank_0.json.gz");
    std::fs::copy(shared::samples().join("gpu_ddp8/rank_0.json.gz"), &trace).unwrap();
    let before = std::fs::read(&trace).unwrap();
    let (trace, out) = (trace.to_str().unwrap(), dir.path().join("out.json.gz"));
    let out = out.to_str().unwrap();
    let code = |args: &[&str]| {
        let run = hta(args);
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (status, errors) = code(&["overlay", trace, "-o", trace, "--force"]);
    assert!(
        status == Some(2) && errors.contains("one of the traces") && errors.contains("hint: "),
        "{errors}"
    );
    assert_eq!(std::fs::read(trace).unwrap(), before);
    assert_eq!(code(&["overlay", trace, "-o", out]), (Some(0), String::new()));
    let made = std::fs::read(out).unwrap();
    let (status, errors) = code(&["overlay", trace, "-o", out]);
    assert!(status == Some(2) && errors.contains("--force"), "{errors}");
    assert_eq!(std::fs::read(out).unwrap(), made);
    assert_eq!(code(&["overlay", trace, "-o", out, "--force"]).0, Some(0));
    assert_eq!(std::fs::read(out).unwrap(), made, "the same bytes");
    // Standard output is uncompressed, and the same.
    let run = hta(&["overlay", trace, "-o", "-"]);
    assert_eq!((run.status.code(), run.stdout == text(Path::new(out))), (Some(0), true));
    for bad in [["--draw", "7"], ["--counter", "none,queue_length"], ["--counter", "x"], ["--ranks", "7"]] {
        let run = hta(&["overlay", trace, "-o", "-", bad[0], bad[1]]);
        assert_eq!((run.status.code(), run.stdout.is_empty()), (Some(2), true), "{bad:?}");
    }
}
