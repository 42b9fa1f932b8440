//! Failures around a run: it is killed, the disk is full, files are unusual or endless, memory is short. Each gives a
//! clear error or an answer, and leaves no partial result.

mod disk;
mod files;
mod killed;
mod memory;
mod numbers;
mod outputs;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `hta`, with these arguments.
fn hta(args: &[&str]) -> Command {
    let mut command = crate::shared::interruptible();
    command.args(args);
    command
}

fn sample() -> PathBuf {
    crate::shared::samples().join("gpu_ddp8")
}

fn errors(run: &Output) -> String {
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder can be listed");
    let mut names: Vec<String> = entries
        .map(|e| e.expect("an entry can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A trace with these events.
fn trace(events: &[String]) -> String {
    format!("{{\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"))
}

fn event(name: &str, ts: usize) -> String {
    format!(r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{},"ts":{ts},"dur":1}}"#, ts % 5)
}
