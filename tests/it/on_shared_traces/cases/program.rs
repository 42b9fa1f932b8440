//! Runs the program on a case and compares what it says.

use super::entry::{Cells, Run};
use crate::job::partial::hta;
use std::path::Path;
use std::process::Output;

/// Both streams, with one blank wherever there is white space.
fn words(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned()).join(" ");
    both.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a command: split at blanks, but not within single quotes.
fn arguments(command: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (i, piece) in command.split('\'').enumerate() {
        match i % 2 {
            0 => out.extend(piece.split_whitespace().map(str::to_string)),
            _ => out.push(piece.to_string()),
        }
    }
    out
}

/// Commands that write a folder of results.
fn writes_results(command: &str) -> bool {
    command.starts_with("analyze")
}

pub fn mistakes(root: &Path, input: &str, run: &Run) -> Vec<String> {
    let results = tempfile::tempdir().expect("a temporary folder");
    let out = results.path().join("out").display().to_string();
    let mut given = arguments(&run.command);
    if writes_results(&run.command) && !given.iter().any(|a| a == "--out") {
        given.extend(["--out".to_string(), out.clone()]);
    }
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let output = hta(root, &given);
    let said = words(&output);
    let mut wrong = Vec::new();
    if output.status.code() != Some(run.exit) {
        wrong.push(format!("ends with {:?}, not {}: {said}", output.status.code(), run.exit));
    }
    let absent = run.says.iter().filter(|t| !said.contains(t.as_str()));
    wrong.extend(absent.map(|t| format!("does not say `{t}`: {said}")));
    let present = run.never.iter().filter(|t| said.contains(t.as_str()));
    wrong.extend(present.map(|t| format!("says `{t}`: {said}")));
    wrong.extend(run.tables.iter().filter_map(|t| differs(root, &out, t)));
    wrong.into_iter().map(|w| format!("`{input}`: `hta {}` {w}", run.command)).collect()
}

fn differs(root: &Path, results: &str, cells: &Cells) -> Option<String> {
    if cells.is.is_none() && cells.near.is_none() {
        return Some(format!("has no expected answer to `{}`", cells.sql));
    }
    let output = hta(root, &["query", &cells.sql, results, "--format", "csv"]);
    if !output.status.success() {
        return Some(format!("cannot be asked `{}`: {}", cells.sql, words(&output)));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Vec<String>> =
        text.lines().skip(1).map(|l| l.split(',').map(str::to_string).collect()).collect();
    let is_same = cells.is.as_ref().is_none_or(|expected| *expected == rows);
    let is_near = cells.near.as_ref().is_none_or(|expected| are_near(expected, &rows, cells.within));
    let expected = (&cells.is, &cells.near);
    (!is_same || !is_near).then(|| format!("answers {rows:?} to `{}`, not {expected:?}", cells.sql))
}

fn are_near(expected: &[Vec<f64>], rows: &[Vec<String>], within: f64) -> bool {
    let near = |e: &f64, cell: &String| {
        cell.parse::<f64>().is_ok_and(|x| (x - e).abs() <= within * e.abs().max(f64::MIN_POSITIVE))
    };
    let is_row =
        |(e, r): (&Vec<f64>, &Vec<String>)| e.len() == r.len() && e.iter().zip(r).all(|(e, c)| near(e, c));
    expected.len() == rows.len() && expected.iter().zip(rows).all(is_row)
}
