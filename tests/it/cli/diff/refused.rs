//! Sets whose steps are different work are refused, unless forced.

use super::sets::{BASE, Job, folder};
use hta_testkit::{TraceBuilder, us};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SAMPLE: &str = "data/samples/gpu_ddp8";

fn diff(base: &Path, test: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    command.arg("diff").args([base, test]).args(args).current_dir(ROOT).output().expect("the binary runs")
}

fn errors(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

fn written(trace: &TraceBuilder) -> (TempDir, std::path::PathBuf) {
    let folder = folder();
    let path = super::sets::write(trace, &folder, "rank_0.json");
    (folder, path)
}

/// Three steps of twenty operators, named by their first letter.
fn program(letter: char, operators: i64) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).world(1).device("NVIDIA H100", 132);
    for step in 0..3 {
        let at = step * 1_000;
        let mut main = t.thread(1);
        for i in 0..20 {
            let of = if i < operators { letter } else { 'x' };
            main.op(&format!("aten::{of}{i}"), us(at + 10 * i)..us(at + 10 * i + 9));
        }
        main.launch(us(at + 300)..us(at + 301)).kernel("gemm", 7, us(at + 310)..us(at + 900));
        main.step(step as u64, us(at)..us(at + 1_000));
    }
    t
}

#[test]
fn another_world_size_is_refused_and_can_be_forced() {
    let (_a, base) = written(&BASE.builder());
    let (_b, test) = written(&Job { world: 4, ..BASE }.builder());
    let run = diff(&base, &test, &[]);
    assert_eq!((run.status.code(), run.stdout.is_empty()), (Some(2), true));
    assert_eq!(
        errors(&run),
        "hta: cannot compare: a step of base is other work than a step of test\n  world sizes differ: 2 before, 4 \
         after\nhint: --force compares them nevertheless\n"
    );
    let forced = diff(&base, &test, &["--force"]);
    assert_eq!(forced.status.code(), Some(0), "{}", errors(&forced));
    assert!(String::from_utf8_lossy(&forced.stdout).contains("world sizes differ: 2 before, 4 after"));
    // HTA's own comparison has no such rule.
    assert_eq!(diff(&base, &test, &["--compat", "hta"]).status.code(), Some(0));
}

#[test]
fn steps_against_a_whole_capture_are_refused() {
    let (_a, base) = written(&BASE.builder());
    let (_b, test) = written(&Job { marks_steps: false, ..BASE }.builder());
    for (base, test, side) in [(&base, &test, "test"), (&test, &base, "base")] {
        let run = diff(base, test, &[]);
        assert_eq!(run.status.code(), Some(2));
        assert!(
            errors(&run).contains(&format!("{side} has no steps, the other set has")),
            "{}",
            errors(&run)
        );
    }
}

#[test]
fn another_program_is_refused_by_the_overlap_of_its_operators() {
    let (_a, base) = written(&program('a', 20));
    // Of 20 and 20 operators, 14 are the same: 14 of 26.
    let (_b, near) = written(&program('a', 14));
    assert_eq!(diff(&base, &near, &[]).status.code(), Some(0));
    // 13 are the same: 13 of 27.
    let (_c, far) = written(&program('a', 13));
    let run = diff(&base, &far, &[]);
    assert_eq!(run.status.code(), Some(2));
    assert!(errors(&run).contains("the counts of operators overlap by 48.1 %"), "{}", errors(&run));
}

#[test]
fn a_set_that_cannot_be_diagnosed_is_refused() {
    // Nearly a hundred activities are few; the sample has enough.
    let (_a, few) = written(&BASE.builder());
    let run = diff(Path::new(SAMPLE), &few, &[]);
    assert_eq!(run.status.code(), Some(2));
    assert!(
        errors(&run).contains("test cannot be diagnosed: too short: 12 GPU activities"),
        "{}",
        errors(&run)
    );
}
