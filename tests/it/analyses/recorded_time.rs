//! All recorded time has its place: before, in, between and after the steps; and only a closed account is
//! told as "nothing to fix".

use crate::analyses::diagnosis::files;
use crate::run::{Answer, answer, options};
use crate::shared;
use hta::trace::step::StepWindow;
use hta_testkit::{Call, Format, TraceBuilder, us};
use std::collections::BTreeMap;

/// Six steps of 8 ms; what the host does between them lasts `between` us, and the same before the first one.
///
/// ```text
///   host    loader.[train 0      )loader.[train 1      )
///   device         [gemm        )        [gemm        )
/// ```
fn steps_with(between: i64, loader: &str) -> Answer {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    for step in 0..6 {
        let at = (8_000 + between) * step;
        let span = |start: i64, end: i64| us(at + start)..us(at + end);
        let mut main = t.thread(1);
        main.annotation(loader, span(0, between));
        main.annotation("train", span(between, between + 8_000));
        main.op("aten::mm", span(between, between + 20));
        main.launch(span(between + 2, between + 10)).kernel("gemm", 7, span(between + 10, between + 7_990));
        main.call(Call::DeviceSync, span(between + 20, between + 7_995));
    }
    read(&t)
}

fn read(t: &TraceBuilder) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    // With the windows that a user has who chooses none.
    let mut options = options();
    options.model.step_window = StepWindow::Auto;
    answer(&[path], &options)
}

fn first_line(answer: &Answer) -> String {
    answer.rows("verdict").first().map_or(String::new(), |r| r.text("text").to_string())
}

fn step_time(answer: &Answer) -> i64 {
    answer.rows_where("efficiency", |r| r.text("scope") == "job").iter().map(|r| r.int("time_ns")).sum()
}

#[test]
fn steps_begin_with_the_end_of_the_one_before_if_much_time_lies_between_them() {
    let answer = steps_with(2_000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    assert!(
        first_line(&answer).starts_with("The device waits for the data loader"),
        "{}",
        first_line(&answer)
    );
    // The first step has none before it; five periods of 10 ms follow.
    assert_eq!(step_time(&answer), us(5 * 10_000 + 8_000));
    let between = answer.rows_where("recorded_time", |r| r.text("stretch") == "between");
    assert_eq!(between.iter().map(|r| r.int("time_ns")).sum::<i64>(), us(5 * 2_000));
    let owner = between.iter().max_by_key(|r| r.int("time_ns")).expect("a row");
    assert_eq!(owner.text("cause"), "data_loader");
    assert!(owner.text("key").contains("__next__"), "{}", owner.text("key"));
}

#[test]
fn steps_keep_their_windows_if_little_time_lies_between_them() {
    let answer = steps_with(100, "something");
    assert_eq!(step_time(&answer), us(6 * 8_000));
    assert_eq!(first_line(&answer), "No single fix saves 2 % of the time.");
}

#[test]
fn all_recorded_time_of_a_device_adds_up() {
    for file in files(&shared::samples()) {
        let Ok(answer) = crate::run::try_run(std::slice::from_ref(&file), &options()) else { continue };
        let mut sums: BTreeMap<(i64, Option<i64>), i64> = BTreeMap::new();
        for r in answer.rows("recorded_time") {
            assert!(r.int("time_ns") > 0, "{}: {}", file.display(), r.0);
            *sums.entry((r.int("rank"), r.opt_int("device"))).or_default() += r.int("time_ns");
        }
        for r in answer.rows_where("temporal_breakdown", |r| r.text("scope") == "capture") {
            let place = (r.int("rank"), r.opt_int("device"));
            assert_eq!(sums.get(&place), Some(&r.int("dur_ns")), "{}: {place:?}", file.display());
        }
    }
}
