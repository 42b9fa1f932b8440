//! Map and reduce in separate processes: merged partials give the same bytes as one run, and inputs that are not
//! partials, or do not match the others, are refused with a precise error.

mod bytes;
mod refused;
mod same;
mod shares;
mod spooled;

use crate::shared::{files_below, samples};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `hta` in `folder`.
pub fn hta(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the binary runs")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with the traces of a sample set, each named by its rank.
pub fn copied(set: &str) -> (tempfile::TempDir, Vec<String>) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let traces = files_below(&samples().join(set)).into_iter().filter(|f| !f.ends_with("ground_truth.json"));
    let copy = |(i, from): (usize, PathBuf)| {
        let packed = from.extension().is_some_and(|e| e == "gz");
        let name = format!("rank_{i}.json{}", if packed { ".gz" } else { "" });
        std::fs::copy(&from, dir.path().join(&name)).expect("a sample can be copied");
        name
    };
    let names = traces.enumerate().map(copy).collect();
    (dir, names)
}

/// Maps `inputs` into the partial `part`; returns the exit code.
pub fn map(folder: &Path, options: &[&str], inputs: &[String], part: &str) -> Option<i32> {
    let mut arguments = vec!["analyze", "--partial", "-o", part];
    arguments.extend_from_slice(options);
    arguments.extend(inputs.iter().map(String::as_str));
    let run = hta(folder, &arguments);
    assert!(run.status.code().is_some_and(|c| c < 2), "{inputs:?}: {}", stderr(&run));
    run.status.code()
}
