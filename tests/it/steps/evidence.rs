//! Which annotations are steps, and why others are not.

use crate::steps::rank;
use hta::trace::rank_trace::ModelOptions;
use hta_testkit::{TraceBuilder, us};

/// Ranges of 100 us, one each millisecond, with a kernel of 50 us.
fn ranges(names: &[&str]) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for (k, name) in (0..).zip(names) {
        let at = 1_000 * k;
        main.annotation(name, us(at)..us(at + 100));
        main.launch(us(at + 10)..us(at + 15)).kernel("gemm", 7, us(at + 20)..us(at + 70));
    }
    t
}

fn found(t: &TraceBuilder) -> (&'static str, Option<(&'static str, String)>) {
    let steps = rank(t, &ModelOptions::default()).steps;
    (steps.rule.name(), steps.repeated.map(|r| (r.what, r.why)))
}

fn refused(t: &TraceBuilder) -> (&'static str, String) {
    let (rule, why) = found(t);
    assert_eq!(rule, "capture");
    why.unwrap()
}

#[test]
fn rounds_of_a_loop_are_steps() {
    assert_eq!(found(&ranges(&["round 0", "round 1", "round 2", "round 3"])), ("annotation", None));
    assert_eq!(found(&ranges(&["Stage::Task::run"; 4])), ("annotation", None));
}

#[test]
fn layers_and_phases_are_told_by_their_names() {
    let why = "their names number parts of a step".to_string();
    assert_eq!(refused(&ranges(&["layer 0", "layer 1", "layer 2"])), ("layers", why.clone()));
    assert_eq!(refused(&ranges(&["phase_0", "phase_1"])), ("phases", why));
}

#[test]
fn ranges_that_do_different_work_are_phases() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for k in 0..4 {
        main.annotation(&format!("masks {k}"), us(100 * k)..us(100 * k + 90));
        main.launch(us(100 * k + 10)..us(100 * k + 15)).kernel(
            &format!("k{k}"),
            7,
            us(100 * k + 20)..us(100 * k + 60),
        );
    }
    assert_eq!(refused(&t), ("phases", "0 of 4 do the same work".to_string()));
}

#[test]
fn ranges_of_very_different_lengths_are_no_steps_unless_it_is_the_first() {
    let mut t = ranges(&["round 0", "round 1", "round 2", "round 3"]);
    t.thread(1).annotation("round 4", us(4_000)..us(20_000));
    let (what, why) = refused(&t);
    assert_eq!((what, why.as_str()), ("repeats", "their lengths go from 100 us to 16.0 ms"));
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for k in 0..4 {
        let (at, len) = if k == 0 { (0, 20_000) } else { (20_000 + 100 * k, 90) };
        main.annotation(&format!("round {k}"), us(at)..us(at + len));
        main.launch(us(at + 10)..us(at + 15)).kernel("gemm", 7, us(at + 20)..us(at + 60));
    }
    assert_eq!(found(&t), ("annotation", None));
}

#[test]
fn ranges_that_hold_little_of_the_work_are_no_steps() {
    let mut t = ranges(&["round 0", "round 1", "round 2"]);
    t.thread(1).launch(us(2_200)..us(2_210)).kernel("other", 7, us(2_220)..us(2_260));
    let (_, why) = refused(&t);
    assert_eq!(why, "they launch 78.9 % of the work");
    let mut t = ranges(&["round 0", "round 1", "round 2"]);
    t.thread(1).launch(us(9_000)..us(9_001)).kernel("other", 7, us(9_010)..us(9_011));
    let (_, why) = refused(&t);
    assert!(why.ends_with("of the time from the first work to the last"), "{why}");
}

#[test]
fn repeats_inside_one_module_are_layers() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for k in 0..4 {
        for (i, name) in (0..).zip(["a", "b", "c"]) {
            let at = 1_000 * k + 100 * i + 20;
            main.launch(us(at)..us(at + 5)).kernel(name, 7, us(at + 10)..us(at + 90));
        }
    }
    assert_eq!(found(&t), ("repeat", None));
    let mut twice = t.clone();
    t.thread(1).frame("nn.Module: Model_0", us(0)..us(5_000));
    assert_eq!(refused(&t), ("layers", "all inside one `nn.Module: Model_0`".to_string()));
    twice.thread(1).frame("nn.Module: Model_0", us(0)..us(1_900));
    twice.thread(1).frame("nn.Module: Model_0", us(1_950)..us(5_000));
    assert_eq!(refused(&twice), ("layers", "all inside calls of `nn.Module: Model_0`".to_string()));
}
