//! The tables of `steps`, and what is printed of them.

use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::table::view::{Fold, Keep, Note, ViewSpec};

table! {
    /// One row per step of a rank. `dur_ns` is the length of its window, which --step-window chooses.
    pub struct StepsTable, StepRow = "steps" by "rank, step" {
        rank;
        step: u32, "", "index in time";
        step_label;
        name: Text, "", "name of the annotation";
        ts_ns: i64, "ns", "start of its window";
        dur_ns: i64, "ns", "length of its window";
        host_ts_ns: i64, "ns", "start of the annotation";
        host_dur_ns: i64, "ns", "length of the annotation";
        activity_count: u64, "",
            "activities launched in it, and those without a launch record that started in it";
        launched_count: u64, "",
            "activities launched in it (in a trace without any launch record: started in it)";
        gpu_lag_ns: Option<i64>, "ns",
            "last end of what it launched minus end of the annotation; null: launched nothing";
        is_partial: bool, "", "cut by the capture, or far less work than the others";
        ratio_to_median: Option<f64>, "",
            "dur / median of the rank's full steps (with a period: of those that do alike)";
        is_slow: Option<bool>, "",
            "longer than slow_above_ns of step_summary; null with fewer than three full steps";
        compute_ns: Option<i64>, "ns",
            "as in temporal_breakdown; null where the rank has no device, or several";
        exposed_communication_ns: Option<i64>, "ns", "as in temporal_breakdown";
        copies_ns: Option<i64>, "ns", "as in temporal_breakdown";
        idle_ns: Option<i64>, "ns", "as in temporal_breakdown";
    }
}

table! {
    /// How long the steps of a rank are, and how much they vary; over full steps, over all when none is full.
    pub struct StepSummary, StepSummaryRow = "step_summary" by "rank" {
        rank;
        step_rule: Text, "", "how steps were found";
        step_count: u32, "", "steps", "of" => sum(step_count);
        full_count: u32, "", "steps that are not partial", "full steps" => sum(full_count);
        slow_count: u32, "", "slow steps, partial ones too" => sum(slow_count);
        dur_ns: i64, "ns", "summed length of the full steps (all when none is full) and the slow ones";
        min_ns: i64, "ns", "shortest";
        median_ns: i64, "ns", "median; of an even number, the lower one in the middle" => median(median_ns);
        mean_ns: f64, "ns", "mean";
        p95_ns: i64, "ns", "95th percentile, nearest rank";
        max_ns: i64, "ns", "longest";
        std_ns: Option<f64>, "ns", "sample standard deviation; null for one";
        mad_ns: i64, "ns", "median distance from the median";
        variation_ratio: Option<f64>, "", "std / mean; null with a period";
        slow_above_ns: Option<i64>, "ns",
            "a longer step is slow; with a period: of those that do as the longest step does; null with \
             fewer than three full steps";
        slow_ns: i64, "ns", "how much longer slow steps took than the median, summed", "time in slow steps"
            => sum(slow_ns);
        slowest_step: u32, "",
            "index of the longest step, partial ones too (with a period: of the slow step that is longest \
             over its like)";
        slowest_label: Option<i64>, "", "number in its name";
        slowest_ns: i64, "ns", "its length", "longest" => max(slowest_ns);
        period: Option<u32>, "steps",
            "every how many steps one launches more work than the others, as with accumulated gradients: \
             steps are slow among those that do alike; null: none";
        period_first: Option<u32>, "", "index of the first of these steps";
        period_ns: Option<i64>, "ns", "length of a period by the medians of both kinds";
        usual_ns: i64, "ns", "median of the steps that do as the longest step does";
        variation_pct: Option<f64>, "%", "std, of the mean; null with a period", "vary by";
        marks: Text, "",
            "a mark for each step, or for each of up to 24 groups of steps: how far the longest is over the \
             median", "over the median";
    }
}

table! {
    /// How a slow step differs from the rank's median step, per device: the four classes sum to diff_ns, and
    /// host_wait + kernel_wait + other to idle_diff_ns. Negative: less.
    pub(crate) struct SlowSteps, SlowStepRow = "slow_steps" by "rank, device, step" {
        rank; device;
        scope: Text, "", "step";
        step: u32, "", "index of the step in time";
        step_label;
        is_partial: bool, "", "the step is cut by the capture, or has far less work than the others";
        ts_ns: i64, "ns", "start of the step's window";
        dur_ns: i64, "ns", "length of the step's window";
        median_step: u32, "", "index of the median step: the first full step of median length";
        median_step_label: Option<i64>, "", "number in its name";
        median_dur_ns: i64, "ns", "its length";
        diff_ns: i64, "ns", "dur - median_dur", "longer by";
        compute_diff_ns: i64, "ns", "difference of compute", "compute";
        exposed_communication_diff_ns: i64, "ns", "difference of exposed communication",
            "waiting or transfer";
        copies_diff_ns: i64, "ns", "difference of copies", "copies";
        idle_diff_ns: i64, "ns", "difference of idle time", "idle";
        host_wait_diff_ns: i64, "ns", "difference of idle time before the host submitted the next activity";
        kernel_wait_diff_ns: i64, "ns", "difference of idle time between launch and start";
        other_diff_ns: i64, "ns", "difference of other idle time: work held back, or launch unknown";
        activity_count_diff: i64, "",
            "difference of the number of activities of the device, by the step of their launch; CPU-only: of \
             operators and calls";
        largest: Text, "", "the class that grew most: compute, exposed_communication, copies, idle or fused";
        host_activity: Option<Text>, "", "activity of the host that grew most while the device waited";
        host_name: Option<Text>, "", "its name";
        host_diff_ns: Option<i64>, "ns", "how much it grew";
        work_name: Option<Text>, "",
            "the name in that class whose sum in slow_step_work grew most; null for idle";
        work_diff_ns: Option<i64>, "ns", "how much it grew";
        work_count_diff: Option<i64>, "", "how many more of them there are";
        joined_by: Option<Text>, "",
            "label or index: how steps of different ranks were paired; null with one rank";
        rank_count: Option<u32>, "", "ranks that have this step", "of";
        slow_rank_count: Option<u32>, "", "ranks on which it is slow", "slow on";
        fused_diff_ns: i64, "ns", "difference of fused kernels (exchange and product in one)",
            "fused kernels";
        is_worst: bool, "",
            "of the rows of this step on all ranks the one with most that is not communication: the others \
             wait for it";
    }
}

/// Largest number of marks in a row of steps.
pub(super) const STEPS_SHOWN: usize = 24;

/// A row of marks, one per step or per group of steps: how far the longest is above the median.
pub(super) fn marks(steps: &[StepRow]) -> String {
    let n = steps.len();
    let cells = n.min(STEPS_SHOWN);
    let mark = |step: &StepRow| {
        let over = step.ratio_to_median.unwrap_or(1.0) - 1.0;
        match over {
            _ if step.is_slow != Some(true) && step.is_partial => (0, '_'),
            x if x >= 1.0 => (5, '@'),
            x if x >= 0.25 => (4, '#'),
            x if x >= 0.1 => (3, '+'),
            x if x >= 0.05 => (2, '-'),
            _ => (1, '.'),
        }
    };
    (0..cells)
        .filter_map(|c| steps[c * n / cells..(c + 1) * n / cells].iter().map(mark).max())
        .map(|m| m.1)
        .collect()
}

/// The view below which slow steps are explained.
pub(super) const SLOW: &str = "What slow steps have more of";

pub(super) const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "How long steps take",
        columns: &[
            "rank",
            "full_count",
            "step_count",
            "median_ns",
            "slowest_ns",
            "variation_pct",
            "slow_count",
            "marks",
        ],
        keep: &[Keep::IsNot("step_rule", &["capture"])],
        by: "slow_ns",
        fold: Fold::Worst,
        notes: &[
            Note::Text(
                "over the median: . below 5 %, - 5 %, + 10 %, # 25 %, @ 100 % or more; _ a partial step that \
                 is not slow",
            ),
            Note::Text("median, variation (standard deviation by mean): over full steps"),
        ],
        ..ViewSpec::of(StepSummary::SPEC)
    },
    ViewSpec {
        title: SLOW,
        columns: &[
            "step",
            "rank",
            "device?",
            "slow_rank_count?",
            "rank_count?",
            "diff_ns",
            "compute_diff_ns",
            "exposed_communication_diff_ns",
            "copies_diff_ns",
            "idle_diff_ns",
            "fused_diff_ns?",
        ],
        keep: &[Keep::Positive("is_worst")],
        by: "diff_ns",
        notes: &[Note::Text("against the rank's own median step; parts sum to the difference")],
        ..ViewSpec::of(SlowSteps::SPEC)
    },
];

table! {
    /// The idle time of a slow step and of the median step by what the device waited for; diff_ns of a step
    /// and device sum to idle_diff_ns of `slow_steps`.
    pub(crate) struct SlowStepHost, SlowStepHostRow =
        "slow_step_host" by "rank, device, step, diff_ns descending, wait, activity, name" {
        rank; device;
        scope: Text, "", "step";
        step: u32, "", "index of the step in time";
        step_label;
        ts_ns: i64, "ns", "start of the step's window";
        dur_ns: i64, "ns", "length of the step's window";
        wait: Text, "", "host_wait, kernel_wait, other (work held back) or unlinked (launch unknown)";
        activity: Option<Text>, "", "of host_wait: kind of the innermost open event, as in idle_host";
        name: Option<Text>, "", "its name; `[step]`: the annotation of a step";
        time_ns: i64, "ns", "in the slow step";
        median_time_ns: i64, "ns", "in the median step";
        diff_ns: i64, "ns", "time - median_time";
    }
}

table! {
    /// Activities of a slow step and of the median step by name, the largest difference first, and the rest
    /// in one row: rows of a step and device sum to the difference of all durations. By launch, and not cut
    /// by windows. CPU-only: operators, calls and collectives of any thread, without what runs inside them.
    pub(crate) struct SlowStepWork, SlowStepWorkRow =
        "slow_step_work" by "rank, device, step, |diff_ns| descending, class, name; the rest last" {
        rank; device;
        scope: Text, "", "step";
        step: u32, "", "index of the step in time";
        step_label;
        ts_ns: i64, "ns", "start of the step's window";
        dur_ns: i64, "ns", "length of the step's window";
        class: Option<Text>, "", "compute, communication or memory; null: the rest";
        name: Text, "", "full name, or `[other names]`: all beyond the first twenty";
        count: u64, "", "how many in the slow step";
        median_count: u64, "", "in the median step";
        sum_ns: i64, "ns", "summed durations in the slow step (CPU-only: without children)";
        median_sum_ns: i64, "ns", "in the median step";
        diff_ns: i64, "ns", "sum - median_sum";
    }
}
