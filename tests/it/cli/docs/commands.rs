//! Every `console` block of the documentation shows what the program prints today.
//!
//! A line of such a block that starts with `$ ` is a command. The lines below it must be printed by it in this order; `...`
//! stands for lines that are left out. The commands of one page run in one folder, from the top of the page to its end.

use super::{ROOT, pages, read};
use std::path::Path;
use std::process::Command;

#[test]
#[cfg(unix)]
fn every_shown_line_is_printed_by_its_command() {
    let mut stale = Vec::new();
    let mut count = 0;
    for page in pages() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["data", "queries"] {
            std::os::unix::fs::symlink(Path::new(ROOT).join(name), folder.path().join(name)).unwrap();
        }
        for (command, shown) in commands(&read(&page)) {
            count += 1;
            if let Err(reason) = check(&command, &shown, folder.path()) {
                stale.push(format!("{}: `{command}`: {reason}", page.display()));
            }
        }
    }
    assert!(count > 30, "{count} commands: the pages were not read");
    assert!(stale.is_empty(), "stale documentation:\n{}", stale.join("\n"));
}

/// Commands of a page's `console` blocks, each with the lines shown below it.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_open = line == "```console";
        } else if is_open && let Some(command) = line.strip_prefix("$ ") {
            found.push((command.to_string(), Vec::new()));
        } else if is_open && let Some((_, shown)) = found.last_mut() {
            shown.push(line.to_string());
        }
    }
    found
}

fn check(command: &str, shown: &[String], folder: &Path) -> Result<(), String> {
    let program = Path::new(env!("CARGO_BIN_EXE_hta"));
    let programs = program.parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let run = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .env("PATH", path)
        .env("COLUMNS", "80")
        .current_dir(folder)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    // 1: part of the input could not be used; 3: a condition of --fail-if holds
    if !matches!(run.status.code(), Some(0 | 1 | 3)) {
        return Err(format!("{}: {printed}", run.status));
    }
    let mut lines = printed.lines().map(str::trim_end);
    let mut missing =
        shown.iter().filter(|line| *line != "...").filter(|line| !lines.any(|l| l == line.as_str()));
    missing.next().map_or(Ok(()), |line| Err(format!("no line `{line}`")))
}
