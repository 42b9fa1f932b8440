//! Names and places of annotations that are no steps.

use crate::steps::rank;
use hta::trace::no_step::is_no_step;
use hta::trace::rank_trace::ModelOptions;
use hta_testkit::{TraceBuilder, us};

#[test]
fn titles_of_collectives_and_actions_of_pipelines_are_no_steps() {
    for name in ["nccl:all_reduce", "ncclGroupEnd", "PP:0F3", "Optimizer.step#Adam.step"] {
        assert!(is_no_step(name), "{name}");
    }
    assert!(!is_no_step("ncclient 3") && !is_no_step("PPO step 3"));
}

#[test]
fn an_annotation_inside_an_operator_that_calls_a_collective_is_its_title() {
    let of = |op: &str, op_at: i64, range_at: i64| {
        let mut t = TraceBuilder::new().rank(0);
        let mut main = t.thread(1);
        for k in 0..4 {
            let (op_at, range_at) = (100 * k + op_at, 100 * k + range_at);
            main.op(op, us(op_at)..us(100 * k + 90 - op_at % 100));
            main.annotation(
                &format!("FSDP::all_reduce {k}"),
                us(range_at)..us(100 * k + 90 - range_at % 100),
            );
        }
        rank(&t, &ModelOptions::default()).steps.rule.name()
    };
    assert_eq!(of("c10d::allreduce_", 0, 10), "capture");
    // A user's range around a collective may be a step.
    assert_eq!(of("c10d::allreduce_", 10, 0), "annotation");
    assert_eq!(of("train::round", 10, 0), "annotation");
}
