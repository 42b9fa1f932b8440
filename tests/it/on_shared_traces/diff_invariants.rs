//! Comparisons of the largest real traces keep the invariants.

use crate::cli::diff::invariants::*;
use crate::cli::diff::sets::diff;
use crate::run::options;
use crate::shared;

#[test]
fn the_largest_real_traces_keep_the_invariants() {
    let Some(root) = shared::folder() else { return };
    let trace = |name: &str| vec![root.trace(name)];
    let (control, test) =
        (trace("hta/trace_diff_control_control.json.gz"), trace("hta/trace_diff_test_test.json.gz"));
    check(&control, &test, &options());
    // Counted from the JSON of both files without hta, us per step.
    let d = diff(&control, &test);
    let us = |metric: &str, side: &str| d.metric(metric).float(side).unwrap_or(0.0) * 6.0 / 1000.0;
    let sides = ["base_ns_per_step", "test_ns_per_step"];
    assert_eq!(sides.map(|s| us("step_time", s).round()), [464_945.0, 744_401.0]);
    assert_eq!(sides.map(|s| us("gpu_time", s).round()), [501_567.0, 963_762.0]);
    assert_eq!(d.rows("diff_by_name").len(), 431);
    check(&trace("multirank_nccl_megatron_tp8"), &control, &options());
}
