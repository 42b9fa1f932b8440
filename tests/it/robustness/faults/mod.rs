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
use std::time::Duration;

/// `hta`, with these arguments.
fn hta(args: &[&str]) -> Command {
    let mut command = crate::shared::interruptible();
    command.args(args);
    command
}

/// What a run gave and took.
pub struct MeasuredRun {
    pub code: Option<i32>,
    /// What it wrote to the standard error.
    pub said: String,
    /// Peak of its resident memory.
    pub bytes: u64,
    /// Time of all its threads on a core.
    pub cpu: Duration,
}

/// Runs a command and measures it.
pub fn measured(args: &[&str], input: &Path) -> MeasuredRun {
    let mut run = Command::new("python3");
    let script = "import os, subprocess, sys\n\
        p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n\
        _, status, usage = os.wait4(p.pid, 0)\n\
        cpu = usage.ru_utime + usage.ru_stime\n\
        print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, int(cpu * 1e6))";
    run.args(["-c", script, env!("CARGO_BIN_EXE_hta")]).args(args).arg(input);
    let end = run.output().expect("python3 runs");
    let said = errors(&end);
    let out = String::from_utf8_lossy(&end.stdout);
    let mut numbers = out.split_whitespace().map(|word| word.parse::<i64>().unwrap_or(-1));
    let code = numbers.next().and_then(|code| i32::try_from(code).ok());
    let [bytes, micros] = [(); 2].map(|()| numbers.next().and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
    MeasuredRun { code, said, bytes, cpu: Duration::from_micros(micros) }
}

/// Whether runs can be measured.
pub fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: no python3 to measure with");
    }
    found
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
