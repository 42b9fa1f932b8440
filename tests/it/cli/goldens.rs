//! What people read, as it was: the report of every sample, and what each analysis prints of it.
//!
//! A change of words or numbers shows here, and is to be explained where it is made. To accept it:
//! `INSTA_UPDATE=always cargo test --release --test it goldens`, then look at the difference.

use crate::shared;
use hta::registry::ANALYSES;
use std::path::Path;
use std::process::Command;

/// What a command prints on a sample, its exit status above it.
fn printed(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .expect("hta runs");
    let code = run.status.code().expect("hta ends by itself");
    format!("hta {}\nexit status {code}\n\n{}", arguments.join(" "), String::from_utf8_lossy(&run.stdout))
}

/// Samples by name: folders with traces.
fn samples() -> Vec<String> {
    let root = shared::samples();
    let entries = std::fs::read_dir(&root).expect("the samples can be listed");
    let folders = entries.map(|e| e.expect("an entry can be read").path()).filter(|p| p.is_dir());
    let mut names: Vec<String> = folders.map(|p| p.strip_prefix(&root).expect("below").display().to_string()).collect();
    names.sort();
    names
}

fn check(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(folder));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn the_report_of_every_sample_is_the_golden_one() {
    for sample in samples() {
        let out = tempfile::tempdir().expect("a folder");
        let (path, target) = (format!("data/samples/{sample}"), out.path().join("out").display().to_string());
        let text = printed(&["analyze", &path, "--no-events", "--out", &target]).replace(&target, "OUT");
        check(&sample, "report", &text);
    }
}

#[test]
fn what_each_analysis_prints_of_every_sample_is_the_golden_text() {
    for sample in samples() {
        for analysis in ANALYSES {
            check(&sample, analysis.stem(), &printed(&[analysis.stem(), &format!("data/samples/{sample}")]));
        }
    }
}
