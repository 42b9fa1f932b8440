//! What people read, as it was: the report of every sample, and what each analysis prints of it.
//!
//! There is a file per analysis for all samples. Lines that several samples have, as headings and notes, stand once at
//! its head and are named by their numbers below; lines that several analyses have stand in `shared.snap`, and are named
//! by `L` and a number. So a changed word is one changed line:
//!
//! ```text
//! 1 | How long steps take          gpu_ddp8      0      exit status
//! 2 | -------------------          [1 2]                lines 1 and 2
//!                                  rank 0   19.3 ms
//! ```
//!
//! A change of words or numbers is to be explained where it is made. To accept it:
//! `INSTA_UPDATE=always cargo test --release --test it goldens`, then look at the difference.

use crate::shared;
use hta::registry::ANALYSES;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// A line that so many analyses have stands in `shared.snap`.
const MANY_ANALYSES: usize = 3;

/// What a command prints on a sample.
struct Printed {
    sample: String,
    code: i32,
    lines: Vec<String>,
}

fn printed(sample: &str, arguments: &[&str]) -> Printed {
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .expect("hta runs");
    let lines = String::from_utf8_lossy(&run.stdout).lines().map(str::to_string).collect();
    Printed { sample: sample.to_string(), code: run.status.code().expect("hta ends by itself"), lines }
}

fn report(sample: &str) -> Printed {
    let out = tempfile::tempdir().expect("a folder");
    let target = out.path().join("out").display().to_string();
    let mut printed =
        printed(sample, &["analyze", &format!("data/samples/{sample}"), "--no-events", "--out", &target]);
    printed.lines.iter_mut().for_each(|line| *line = line.replace(&target, "OUT"));
    printed
}

/// Lines in the order of their first appearance, each with the number of texts in which it stands.
fn counted<'a>(texts: impl Iterator<Item = Vec<&'a str>>) -> Vec<(&'a str, usize)> {
    let mut known: BTreeMap<&str, (usize, BTreeSet<usize>)> = BTreeMap::new();
    for (number, lines) in texts.enumerate() {
        for line in lines.into_iter().filter(|line| !line.is_empty()) {
            let place = known.len();
            known.entry(line).or_insert((place, BTreeSet::new())).1.insert(number);
        }
    }
    let mut ordered: Vec<_> =
        known.into_iter().map(|(line, (place, texts))| (place, line, texts.len())).collect();
    ordered.sort_unstable();
    ordered.into_iter().map(|(_, line, count)| (line, count)).collect()
}

/// Lines that stand once for all, with their names.
struct Shared<'a>(Vec<(String, &'a str)>);

impl<'a> Shared<'a> {
    fn new(counts: &[(&'a str, usize)], least: usize, prefix: &str, without: Option<&Shared>) -> Self {
        let shared = counts.iter().filter(|(_, count)| *count >= least);
        let lines =
            shared.map(|(line, _)| *line).filter(|line| without.is_none_or(|w| w.name(line).is_none()));
        Self(lines.enumerate().map(|(at, line)| (format!("{prefix}{}", at + 1), line)).collect())
    }

    fn name(&self, line: &str) -> Option<&str> {
        self.0.iter().find(|(_, of)| *of == line).map(|(name, _)| name.as_str())
    }

    fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut out, (name, line)| {
            writeln!(out, "{name} | {line}").expect("a string takes all");
            out
        })
    }
}

/// The golden text of all samples.
fn golden(texts: &[Printed], of_all: &Shared) -> String {
    let counts = counted(texts.iter().map(|p| p.lines.iter().map(String::as_str).collect()));
    let own = Shared::new(&counts, 2, "", Some(of_all));
    let mut out = own.text();
    for text in texts {
        write!(out, "\n== {}, exit status {}", text.sample, text.code).expect("a string takes all");
        let mut is_open = false;
        for line in &text.lines {
            let Some(name) = own.name(line).or_else(|| of_all.name(line)) else {
                out.push_str(if is_open { "]\n" } else { "\n" });
                out.push_str(line);
                is_open = false;
                continue;
            };
            out.push_str(if is_open { " " } else { "\n[" });
            out.push_str(name);
            is_open = true;
        }
        out.push_str(if is_open { "]\n" } else { "\n" });
    }
    out
}

fn check(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn what_is_printed_of_every_sample_is_the_golden_text() {
    let samples = shared::sample_names();
    let of_analysis = |stem: &'static str| {
        let of = |s: &String| printed(s, &[stem, &format!("data/samples/{s}")]);
        (stem, samples.iter().map(of).collect::<Vec<_>>())
    };
    let mut texts: Vec<(&str, Vec<Printed>)> = ANALYSES.iter().map(|a| of_analysis(a.stem())).collect();
    texts.push(("report", samples.iter().map(|s| report(s)).collect()));
    let of_analysis =
        texts.iter().map(|(_, printed)| printed.iter().flat_map(|p| &p.lines).map(String::as_str).collect());
    let counts = counted(of_analysis);
    let shared = Shared::new(&counts, MANY_ANALYSES, "L", None);
    check("shared", &shared.text());
    for (stem, texts) in &texts {
        check(stem, &golden(texts, &shared));
    }
}
