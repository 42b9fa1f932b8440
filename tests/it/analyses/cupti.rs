//! Counters of CUPTI's range profiler: by eye on a small trace, and on a real recording.

use crate::cli::one_analysis::of_trace;
use crate::run::options;
use hta_testkit::TraceBuilder;

const FFMA: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
const HADD: &str = "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum";

/// Two launches, the second with operators around it, and two ranges that are in the wrong order in the file.
pub fn recording() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(0..5);
    t.thread(1).op("aten::linear", 10..40);
    t.thread(1).op("aten::addmm", 12..38);
    t.thread(1).launch(20..25);
    let range = |t: &mut TraceBuilder, name: &str, at: i64, ffma: u64, other: &str| {
        t.overhead(name, at..at + 50)
            .category("cuda_profiler_range")
            .arg(FFMA, ffma)
            .arg(HADD, 1)
            .raw_arg("x.avg", other);
    };
    range(&mut t, "gemm", 200, 100, "nan");
    range(&mut t, "__missing__", 150, 7, "2.5");
    t
}

#[test]
fn ranges_pair_with_launches_in_order_of_time() {
    let answer = of_trace("cupti", &recording(), &options());
    let ranges = answer.rows("cupti_ranges");
    let shown: Vec<_> = ranges
        .iter()
        .map(|r| (r.text("range"), r.int("launch_event_id"), r.text("operators"), r.int("flop_count")))
        .collect();
    assert_eq!(shown, [("__missing__", 0, "", 15), ("gemm", 3, "aten::linear;aten::addmm", 201)]);
    assert_eq!((ranges[1].text("top_op"), ranges[1].text("op")), ("aten::linear", "aten::addmm"));
    let counters: Vec<_> = answer
        .rows("cupti_counters")
        .iter()
        .map(|r| (r.int("range_index"), r.text("counter").to_string(), r.float("value")))
        .collect();
    let of = |i, name: &str, value| (i, name.to_string(), Some(value));
    // Values that are not numbers are left out.
    assert_eq!(
        counters,
        [of(0, FFMA, 7.0), of(0, HADD, 1.0), of(0, "x.avg", 2.5), of(1, FFMA, 100.0), of(1, HADD, 1.0)]
    );
    let ops: Vec<_> = answer
        .rows("cupti_operators")
        .iter()
        .map(|r| (r.text("op").to_string(), r.int("flop_count")))
        .collect();
    assert_eq!(ops, [("aten::addmm".to_string(), 201), (String::new(), 15)]);
}

#[test]
fn without_as_many_launches_as_ranges_nothing_is_paired_and_both_counts_are_told() {
    let mut t = recording();
    t.thread(1).launch(60..70);
    let answer = of_trace("cupti", &t, &options());
    for table in ["cupti_ranges", "cupti_counters", "cupti_operators"] {
        assert!(answer.rows(table).is_empty(), "{table}");
    }
    let pairing = answer.rows("cupti_pairing");
    assert_eq!((pairing.len(), pairing[0].int("range_count"), pairing[0].int("launch_count")), (1, 2, 3));
    let told = "rank 0: 2 counter ranges and 3 launch calls cannot be paired".to_string();
    assert!(answer.notes("cupti").contains(&told), "{:?}", answer.notes("cupti"));
}

#[test]
fn a_trace_without_ranges_has_no_rows_and_says_why() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(0..5).kernel("k", 7, 10..20);
    let answer = of_trace("cupti", &t, &options());
    assert!(answer.rows("cupti_pairing").is_empty());
    assert_eq!(answer.notes("cupti"), ["rank 0: no counter ranges recorded"]);
    assert!(answer.views().iter().all(|view| view.rows.is_empty()));
}
