//! Patterns of real traces: known first ones, and all are where they are said to be.

use crate::analyses::patterns::*;
use crate::run::{answer, options};
use crate::shared;

/// Length, count and stream of the first row, determined without hta.
const FIRST: [(&str, [i64; 3]); 5] = [
    ("hta/nccl_parser_config_nccl_data.json.gz", [1251, 3, 7]),
    ("hta/trace_diff_control_control.json.gz", [1494, 6, 7]),
    ("kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz", [1516, 6, 7]),
    ("tracelens/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz", [15, 36, 3]),
    ("tracelens/h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz", [43, 12, 7]),
];

#[test]
fn a_training_step_and_a_layer_are_found_without_step_marks() {
    let Some(root) = shared::folder() else { return };
    for (trace, first) in FIRST {
        let answer = answer(&[root.trace(trace)], &options());
        let rows = answer.rows("repeats");
        assert_eq!(["length", "count", "stream"].map(|c| rows[0].int(c)), first, "{trace}");
        check(trace, &answer);
    }
}
