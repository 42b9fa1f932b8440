//! The real recording of counters has a launch and an operator for each range.

use crate::cli::one_analysis::of_files;
use crate::run::options;
use crate::shared;

/// 77 ranges, 77 launches; the sum of operations was counted from the file by an independent script.
#[test]
fn the_real_recording_has_a_launch_and_an_operator_for_each_range() {
    let Some(root) = shared::folder() else { return };
    let file = root.trace("hta/cupti_profiler_benchmark_result_924719_1679055439_trace.json.gz");
    let answer = of_files("cupti", &[file], &options());
    let ranges = answer.rows("cupti_ranges");
    assert_eq!((ranges.len(), answer.rows("cupti_counters").len()), (77, 77 * 9));
    assert_eq!(ranges.iter().map(|r| r.int("flop_count")).sum::<i64>(), 80_231_038_456);
    let by_op: i64 = answer.rows("cupti_operators").iter().map(|r| r.int("flop_count")).sum();
    assert_eq!(by_op, 80_231_038_456);
    assert!(ranges.iter().all(|r| r.text("op").starts_with("aten::")));
}
