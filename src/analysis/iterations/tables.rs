//! The tables of `iterations`, and what is printed of them.

use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::Text;
use hta_base::table::view::{Note, ViewSpec};

table! {
    /// One row per iteration of an inference engine and device. idle_before_graph + idle_in_graph_call +
    /// idle_rest = idle, window_busy + idle = dur, post_busy + gap_idle = gap, and the host_after_* add up to
    /// host_after. From the start of the first window to the end of the last, windows and gaps leave nothing
    /// out.
    pub struct IterationsTable, IterationRow = "iterations" by "rank, device, step" {
        rank; device;
        step: u32, "", "index of the iteration in time, as in steps";
        label: Text, "", "phase, requests, tokens and mean KV length in words";
        name: Text, "", "name of the range; empty: no range, kernels that repeat";
        rule: Text, "",
            "how it was found: iteration (an engine's name), inner_annotation or repeat (no engine named it)";
        engine: Option<Text>, "", "vllm, sglang, atom or diffusion, by the spelling of the name; null: none";
        phase: Option<Text>, "",
            "prefill, decode, mixed, idle, target_verify, draft_extend or draft; null: not known";
        mode: Option<Text>, "",
            "the engine's own word for it, where written; of inner_annotation its name with # for digits";
        requests: Option<u64>, "", "requests, in both phases";
        padded_batch: Option<u64>, "", "requests for which kernels are launched, where written";
        tokens: Option<u64>, "", "scheduled tokens";
        context_requests: Option<u64>, "", "requests whose prompt is read";
        context_tokens: Option<u64>, "", "tokens of prompts";
        generation_requests: Option<u64>, "", "requests that generate";
        generation_tokens: Option<u64>, "",
            "tokens of those: more than requests where drafted tokens are checked";
        kv_tokens: Option<u64>, "", "tokens that requests attend to, summed over requests";
        mean_kv_tokens: Option<f64>, "", "kv_tokens / requests";
        is_continued: bool, "", "prompts attend to more tokens than are read: cached, or read in chunks";
        generated_min: Option<u64>, "", "decode: fewest tokens that it generated, one for each request";
        generated_max: Option<u64>, "",
            "decode: most tokens that it generated; nothing says how many drafted ones were accepted";
        is_first: bool, "",
            "first iteration after the profiler started (in no average if there are three or more of its \
             phase and batch)";
        is_partial: bool, "",
            "cut by the capture, a launch of it was lost, or far less work than others of its phase and \
             batch";
        is_lost: bool, "",
            "its launches own no activities, although those of others do: what it did is not recorded (then \
             it is partial)";
        is_counted: bool, "", "in the averages of iteration_phases";
        is_slow: Option<bool>, "",
            "longer than usual for its phase and batch, with the work between it and the next one; null with \
             fewer than three of them";
        ts_ns: i64, "ns",
            "start of its window: first start of what it launched, end of the previous window or of the lead";
        dur_ns: i64, "ns", "length of its window, up to the last end of what it launched";
        host_ts_ns: i64, "ns", "start of the range";
        host_dur_ns: i64, "ns", "length of the range";
        preparation_ns: Option<i64>, "ns",
            "from the start of the range to that of the range inside it that runs the model, where marked";
        forward_ns: Option<i64>, "ns", "length of that range";
        activity_count: u64, "", "activities that it launched on the device";
        gpu_sum_ns: i64, "ns", "their summed duration, also in the lead";
        gpu_busy_ns: i64, "ns", "their union";
        window_busy_ns: i64, "ns", "union of all activities in the window";
        idle_ns: i64, "ns", "window - window_busy";
        idle_before_graph_ns: i64, "ns",
            "idle before the first call that launches a graph begins; 0 without graphs";
        idle_in_graph_call_ns: i64, "ns", "idle inside calls that launch graphs";
        idle_rest_ns: i64, "ns", "other idle time in the window";
        graph_launch_count: u64, "", "calls that launch graphs";
        graph_activity_count: u64, "", "activities of these";
        graph_sum_ns: i64, "ns", "their summed duration";
        graph_busy_ns: i64, "ns", "their union";
        graph_idle_inside_ns: i64, "ns",
            "between first start and last end of one launch's activities, time in which none of them runs; \
             summed over launches";
        bare_communication_ns: i64, "ns", "communication that no compute hides, in the period";
        gap_ns: Option<i64>, "ns", "from the end of the window to the start of the next; null: the last";
        post_count: u64, "", "activities launched after the range and before the next";
        post_work_ns: i64, "ns", "their union, wherever it is";
        post_busy_ns: Option<i64>, "ns", "union of all activities in the gap";
        gap_idle_ns: Option<i64>, "ns", "gap - post_busy";
        period_ns: i64, "ns", "from the start of the window to that of the next one, or its length (basis)";
        basis: Text, "",
            "period, or window for the last iteration and before a lost one: then rates are upper bounds";
        lag_ns: Option<i64>, "ns",
            "last end of what it launched minus end of the range; null: launched nothing";
        host_after_ns: i64, "ns",
            "from the end of the range to the start of the next (the last: to where the profiler stops, or \
             the last host event)";
        host_after_sync_ns: i64, "ns", "of that on the thread: inside calls that synchronize";
        host_after_api_ns: i64, "ns", "inside other runtime calls";
        host_after_operator_ns: i64, "ns", "inside operators";
        host_after_python_ns: i64, "ns", "inside Python frames that do not wait";
        host_after_waiting_ns: i64, "ns",
            "inside Python frames that wait: wait, acquire, poll, get of a queue";
        host_after_other_ns: i64, "ns", "inside annotations, or nothing recorded";
        host_exposed_ns: i64, "ns",
            "the scheduler's bubble: part of host_after behind the window in which the device idles, not \
             counting what is between activities of one graph launch; gap_idle, where all of the next one \
             was submitted before this one ended";
        host_cycle_ns: i64, "ns",
            "host_dur + host_after without calls that synchronize, frames that wait, and calls that waited \
             for work from before the recording";
        is_host_bound: bool, "",
            "host_cycle exceeds 95 % of the period, and the next one was not submitted before this one ended";
        ms_per_token: Option<f64>, "ms",
            "decode: the period, which every request waits for its next token; null if the number of \
             generated tokens is not known";
        tokens_per_s: Option<f64>, "tokens/s",
            "decode: generated tokens / period; prefill: tokens of prompts / period; mixed: all tokens / \
             period; null if not known";
    }
}

table! {
    /// Iterations of one phase and batch of a device. Means, percentiles and rates leave out partial
    /// iterations, and the first one after the profiler started if the row has three or more.
    pub struct IterationPhases, IterationPhaseRow = "iteration_phases"
        by "rank, device, phase, mode, requests" {
        rank; device;
        process: Option<Text>, "",
            "file of a process beside others that are no ranks of one job; null: a rank";
        phase: Option<Text>, "", "as in iterations";
        mode: Option<Text>, "", "the engine's own word, if the phase is not known";
        requests: Option<u64>, "", "batch: requests of each iteration";
        iteration_count: u64, "", "iterations";
        counted: u64, "", "of these, in the statistics (all if none is left)";
        period_count: u64, "", "of the counted, with a next one: these have a period and a gap";
        slow_count: u64, "", "slow ones";
        lost_count: u64, "", "lost ones: what they launched is not recorded";
        tokens: Option<u64>, "", "scheduled tokens of the counted iterations; null if one's is not known";
        basis: Text, "",
            "period; host if all that follow are lost: from range to range on the host; window if no counted \
             iteration has a next one. Rates of host and window are upper bounds";
        period_p50_ns: i64, "ns", "median of the periods; with basis window, of the windows";
        period_p95_ns: i64, "ns", "95th percentile of them";
        window_p50_ns: i64, "ns", "median of the windows";
        window_p95_ns: i64, "ns", "95th percentile of the windows";
        window_ns: i64, "ns", "sum of the windows";
        window_busy_ns: i64, "ns", "sum of the busy time in them";
        window_busy_pct: Option<f64>, "%", "busy share of the windows";
        bare_communication_ns: i64, "ns", "sum of the communication in their periods that no compute hides";
        gap_idle_ns: i64, "ns", "sum of the idle time in gaps after them";
        host_exposed_ns: i64, "ns", "sum of the scheduler's bubbles after them";
        gpu_sum_ns: i64, "ns", "summed duration of what they launched";
        tokens_per_s: Option<f64>, "tokens/s",
            "tokens that they bring requests on / sum of the periods; null if one's is not known";
        process_rank: Option<u32>, "", "number of the process, as rank; null as process";
        is_bound: bool, "", "basis is not period, so the rate is an upper bound";
        bubble_ns: i64, "ns",
            "sum of the scheduler's bubbles after counted iterations with a next one, or after all counted \
             if none has";
        bubble_count: u64, "", "iterations in that sum";
    }
}

table! {
    /// Iterations of one phase and batch over all ranks of a process; periods, windows and rates are medians
    /// of the ranks.
    pub(crate) struct IterationKinds, IterationKindRow = "iteration_kinds"
        by "window_ns descending, process_rank, phase, mode, requests" {
        process_rank: Option<u32>, "", "the process, beside others that are no ranks of one job", "process";
        phase: Option<Text>, "", "as in iterations";
        mode: Option<Text>, "", "the engine's own word, if the phase is not known";
        requests: Option<u64>, "", "batch: requests of each iteration", "batch";
        iteration_count: u64, "", "iterations", "count" => sum(iteration_count);
        lost_count: u64, "", "of these, lost ones: what they launched is not recorded" => sum(lost_count);
        counted: u64, "", "of these, in the statistics" => sum(counted);
        period_count: u64, "", "of the counted, with a next one" => sum(period_count);
        period_ns: i64, "ns", "median of the ranks' median periods" => median(period_p50_ns);
        window_p50_ns: i64, "ns", "median of the ranks' median windows", "window" => median(window_p50_ns);
        window_ns: i64, "ns", "sum of the windows" => sum(window_ns);
        window_busy_ns: i64, "ns", "sum of the busy time in them" => sum(window_busy_ns);
        window_busy_pct: Option<f64>, "%", "busy share of the windows", "GPU busy"
            => percent(window_busy_ns, window_ns);
        gap_idle_ns: i64, "ns", "sum of the idle time in gaps after them" => sum(gap_idle_ns);
        gap_idle_mean_ns: Option<f64>, "ns", "mean of it", "gap idle" => ratio(gap_idle_ns, period_count);
        bubble_ns: i64, "ns", "sum of the scheduler's bubbles, as in iteration_phases" => sum(bubble_ns);
        bubble_count: u64, "", "iterations in that sum" => sum(bubble_count);
        bubble_mean_ns: Option<f64>, "ns", "mean bubble", "bubble" => ratio(bubble_ns, bubble_count);
        bare_communication_ns: i64, "ns", "sum of the communication that no compute hides"
            => sum(bare_communication_ns);
        bare_mean_ns: Option<f64>, "ns", "mean of it in a period", "exposed"
            => ratio(bare_communication_ns, counted);
        tokens_per_s: Option<f64>, "tokens/s", "median of the ranks", "tokens/s" => median(tokens_per_s);
        is_bound: bool, "", "the rate is an upper bound on all ranks", "upper bound" => min(is_bound);
    }
}

const BOUND: &str = "upper bound: no iteration follows, so the rate is that of the window alone, or what \
                     follows is lost, so the period is that of the ranges on the host";
const BUBBLE: &str = "gap idle, bubble: mean of an iteration; the bubble is idle time after the window and \
                      the range on the host";

pub(super) const ROLLUPS: [Rollup; 2] = [
    Rollup::of(IterationPhases::SPEC, IterationKinds::SPEC),
    Rollup::of(IterationCategories::SPEC, IterationWork::SPEC),
];

pub(super) const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Iterations by phase and batch",
        columns: &[
            "process_rank?",
            "phase?",
            "mode?",
            "requests",
            "iteration_count",
            "lost_count?",
            "period_ns",
            "window_p50_ns",
            "window_busy_pct",
            "gap_idle_mean_ns",
            "bubble_mean_ns",
            "bare_mean_ns?",
            "tokens_per_s",
            "is_bound?",
        ],
        notes: &[
            Note::If("is_bound", BOUND),
            Note::Text(BUBBLE),
            Note::If(
                "bare_communication_ns",
                "exposed: communication that no compute hides, mean of a period",
            ),
        ],
        none: "hint: hta explain serving lists the names that are read, and how to record them",
        ..ViewSpec::of(IterationKinds::SPEC)
    },
    ViewSpec {
        title: "What iterations launch",
        columns: &["category", "sub_category?", "activity_count", "sum_ns"],
        shares: &[("sum_ns", "of GPU time")],
        notes: &[Note::Text(
            "by the names of kernels; summed durations, where kernels overlap more than the windows",
        )],
        ..ViewSpec::of(IterationWork::SPEC)
    },
];

table! {
    /// What the activities of iterations of one phase and batch are for, of all iterations; sum_ns adds up to
    /// the gpu_sum_ns of these.
    pub(crate) struct IterationCategories, IterationCategoryRow =
        "iteration_categories"
        by "rank, device, phase, mode, requests, sum_ns descending, category, sub_category" {
        rank; device;
        phase: Option<Text>, "", "as in iterations";
        mode: Option<Text>, "", "as in iteration_phases";
        requests: Option<u64>, "", "as in iteration_phases";
        category: Text, "", "what they do, as in kernel_categories";
        sub_category: Text, "",
            "part of it: gemm or routing of moe, kv_cache of gather_scatter, rope or activation of \
             elementwise, sampling of sort_topk, copy_gather of layout; empty for most";
        activity_count: u64, "", "activities";
        sum_ns: i64, "ns", "their summed duration";
        share_pct: Option<f64>, "%", "of what these iterations launched";
    }
}

table! {
    /// What the activities of all iterations are for, over all ranks.
    pub(crate) struct IterationWork, IterationWorkRow = "iteration_work"
        by "sum_ns descending, category, sub_category" {
        category: Text, "", "what they do, as in kernel_categories";
        sub_category: Text, "", "part of it, as in iteration_categories", "part";
        activity_count: u64, "", "activities" => sum(activity_count);
        sum_ns: i64, "ns", "their summed duration", "time" => sum(sum_ns);
        rank_count: u32, "", "ranks that have them" => ranks;
    }
}
