//! What is printed of the launch calls of all ranks.

use crate::launches::LaunchStats;
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::Text;
use hta_base::table::view::{Keep, Note, ViewSpec};

table! {
    /// Launch calls by API, over all ranks. What one rank has is in `launch_stats`.
    pub(crate) struct LaunchApis, LaunchApiRow
        = "launch_calls_over_ranks" by "scope, cpu_sum_ns descending, api" {
        scope: Text, "", "capture: all calls; step: those that start in a step; outside: the rest";
        api: Text, "", "name of the call", "call";
        launch_count: u64, "", "calls", "calls" => sum(launch_count);
        cpu_sum_ns: i64, "ns", "sum of the lengths of the calls", "host time" => sum(cpu_sum_ns);
        cpu_mean_ns: Option<f64>, "ns", "mean length of a call", "mean" => ratio(cpu_sum_ns, launch_count);
        cpu_max_ns: i64, "ns", "longest call", "longest" => max(cpu_max_ns);
        started_count: u64, "", "calls with a delay, as in launch_stats" => sum(started_count);
        delay_mean_ns: Option<f64>, "ns", "mean of call end to first start, of these", "delay"
            => mean(delay_mean_ns, started_count);
        short_count: u64, "", "calls whose activities run shorter than the call" => sum(short_count);
        short_pct: Option<f64>, "%", "of those with a delay", "short" => percent(short_count, started_count);
        launched_no_activity_count: u64, "", "calls that look like launches and own no activity"
            => sum(launched_no_activity_count);
        behind_unrecorded_count: u64, "",
            "calls whose activities were queued behind work from before the recording"
            => sum(behind_unrecorded_count);
        launch_delay_negative_count: u64, "", "first starts before their own call: clock noise"
            => sum(launch_delay_negative_count);
        rank_count: u32, "", "ranks that make such calls" => ranks;
    }
}

pub(super) const APIS: Rollup = Rollup::of(LaunchStats::SPEC, LaunchApis::SPEC);

pub(super) const CALLS: ViewSpec = ViewSpec {
    title: "Launch calls",
    columns: &[
        "api",
        "launch_count",
        "cpu_sum_ns",
        "cpu_mean_ns",
        "cpu_max_ns",
        "delay_mean_ns",
        "short_pct",
    ],
    keep: &[Keep::Scope("capture")],
    notes: &[
        Note::Text("short: what was started runs shorter than the call that starts it"),
        Note::Sum("launched_no_activity_count", "call", "without a recorded activity"),
        Note::Sum(
            "behind_unrecorded_count",
            "call",
            "with work that was queued behind work from before the recording, left out of delay and short",
        ),
        Note::Sum(
            "launch_delay_negative_count",
            "start",
            "before the launching call: clock noise, 0 in the statistics",
        ),
    ],
    ..ViewSpec::of(LaunchApis::SPEC)
};
