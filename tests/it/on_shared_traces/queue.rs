//! Queues of real traces are as long as known.

use crate::run::{answer, one, options};
use crate::shared;

/// Trace, stream, launches, max, mean in thousandths, time at 1024 or more, launch calls during that time.
type Known = (&'static str, i64, i64, i64, Option<i64>, i64, i64);

const KNOWN: [Known; 2] = [
    ("tracelens/mi300_resnet_act_checkpoint.json.gz", 0, 2673, 1840, Some(867_533), 35_885_892, 5_562_114),
    (
        "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz",
        7,
        9096,
        569,
        Some(100_649),
        0,
        0,
    ),
];

#[test]
fn queues_of_real_traces_are_as_long_as_known() {
    let Some(root) = shared::folder() else { return };
    for (trace, stream, launches, max, mean, full, blocked) in KNOWN {
        let answer = answer(&[root.trace(trace)], &options());
        let row =
            one(answer.rows_where("queue_stats", |r| r.text("scope") == "span" && r.int("stream") == stream));
        let got = ["launch_count", "max_length", "full_ns", "blocked_call_ns"].map(|c| row.int(c));
        assert_eq!(got, [launches, max, full, blocked], "{trace}");
        assert_eq!(row.float("mean_length").map(|m| (m * 1000.0).round() as i64), mean, "{trace}");
    }
}
