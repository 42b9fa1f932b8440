//! What is printed of the launch calls of all ranks, and what stands out of them.

use crate::api::{Certainty, Observation, Partial};
use crate::launches::{LaunchStats, LaunchStatsRow};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::Text;
use hta_base::table::view::{Keep, Note, ViewSpec};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::capital;
use hta_base::wording::counts::counted;
use hta_base::wording::names::clip;
use hta_trace::launch::is_graph_launch;
use std::cmp::Reverse;
use std::collections::BTreeSet;

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

/// Smallest loss that is reported, percent of the step.
const WORTH_PCT: f64 = 1.0;

/// What stands out of all ranks. Calls longer than `runtime_outlier` ns are outliers.
pub fn observations(partials: &[Partial], runtime_outlier: Ns) -> Vec<Observation> {
    let with_table = partials.iter().filter(|p| p.table(LaunchStats::SPEC).is_some());
    let losses: Vec<LaunchLoss> =
        with_table.map(|p| LaunchLoss::new(p.rank, p.rows::<LaunchStats>().collect())).collect();
    let mut observations = Vec::new();
    let most = |of: fn(&LaunchLoss) -> Ns| losses.iter().max_by_key(|l| (of(l), Reverse(l.rank)));
    observations.extend(most(|l| l.short_idle).and_then(|l| launch_bound(l, losses.len())));
    observations.extend(most(|l| l.outlier_idle).and_then(|l| outliers(l, losses.len(), runtime_outlier)));
    observations
}

/// The loss of one rank inside launch calls, over its full steps (all steps if none is full), or else the
/// capture.
struct LaunchLoss {
    rank: u32,
    /// Number of windows in the sums, and (next field) their length, ns.
    windows: i64,
    window: Ns,
    is_steps: bool,
    calls: i64,
    short: i64,
    short_cpu: Ns,
    short_gpu: Ns,
    short_idle: Ns,
    outliers: i64,
    outlier_idle: Ns,
    /// Length and name of the longest outlier.
    longest: (Ns, String),
}

impl LaunchLoss {
    fn new(rank: u32, rows: Vec<LaunchStatsRow>) -> Self {
        let of = |scope: &str| -> Vec<&LaunchStatsRow> { rows.iter().filter(|r| r.scope == scope).collect() };
        let (steps, capture) = (of("step"), of("capture"));
        let full: Vec<_> = steps.iter().copied().filter(|r| r.is_partial != Some(true)).collect();
        let extent = |r: &LaunchStatsRow| (r.ts_ns, r.dur_ns);
        // Without marked steps the capture is the only step.
        let unmarked = steps.iter().all(|r| capture.iter().any(|c| extent(c) == extent(r)));
        let chosen = match (unmarked, full.is_empty()) {
            (true, _) => capture,
            (false, false) => full,
            (false, true) => steps,
        };
        let windows: BTreeSet<_> = chosen.iter().map(|r| extent(r)).collect();
        let sum = |column: fn(&LaunchStatsRow) -> i64| -> i64 { chosen.iter().map(|r| column(r)).sum() };
        let replays = chosen.iter().filter(|r| is_graph_launch(r.api));
        let replayed = replays.map(|r| r.gpu_sum_ns).sum::<Ns>();
        let longest = chosen
            .iter()
            .filter(|r| r.runtime_outlier_idle_ns > 0)
            .map(|r| (r.runtime_outlier_max_ns.unwrap_or(0), r.api))
            .max();
        Self {
            rank,
            windows: windows.len().max(1) as i64,
            window: windows.iter().map(|w| w.1).sum(),
            is_steps: !unmarked,
            calls: sum(|r| r.started_count as i64),
            short: sum(|r| r.short_count as i64),
            short_cpu: sum(|r| r.short_cpu_ns),
            short_gpu: sum(|r| r.short_gpu_ns),
            // Where most work is replayed from graphs, it is not launched one by one.
            short_idle: if replayed > 0 && replayed * 2 >= sum(|r| r.gpu_sum_ns) {
                0
            } else {
                sum(|r| r.short_idle_ns)
            },
            outliers: sum(|r| r.runtime_outlier_count as i64),
            outlier_idle: sum(|r| r.runtime_outlier_idle_ns),
            longest: longest.map_or((0, String::new()), |(ns, api)| (ns, api.to_string())),
        }
    }

    fn per(&self) -> &'static str {
        if self.is_steps { " per step" } else { "" }
    }

    /// The loss as a share of the windows, if it is large enough to report.
    fn share(&self, lost: Ns) -> Option<f64> {
        percent(lost, self.window).filter(|s| *s >= WORTH_PCT)
    }

    fn observation(&self, lost: Ns, share: f64, sentence: String) -> Observation {
        Observation {
            analysis: "launches",
            ranks: vec![self.rank],
            steps: Vec::new(),
            cost_ns_per_step: lost / self.windows,
            share_of_step: Some(share / 100.0),
            certainty: Certainty::Measured,
            sentence,
            table: LaunchStats::SPEC.name,
        }
    }

    fn loses(&self, lost: Ns, share: f64, of: usize) -> String {
        let who = capital(&format!("rank {}", self.rank));
        let most = if of > 1 { format!(", the most of {of} ranks") } else { String::new() };
        let (lost, window) = (fmt_ns(lost / self.windows), fmt_ns(self.window / self.windows));
        format!("{who} loses {lost}{} ({} of {window}{most})", self.per(), fmt_pct(Some(share)))
    }
}

fn launch_bound(l: &LaunchLoss, of: usize) -> Option<Observation> {
    let share = l.share(l.short_idle)?;
    let mean = |sum: Ns| fmt_ns(sum / l.short.max(1));
    let sentence = format!(
        "{} while its device idles inside the launch calls of work that is shorter than its launch: {} of {} \
         launches{}, {} of call for {} of GPU on average; CUDA graphs, `torch.compile` or a larger batch \
         make fewer and longer ones",
        l.loses(l.short_idle, share, of),
        fmt_pct(percent(l.short, l.calls)),
        fmt_count((l.calls / l.windows) as u64),
        l.per(),
        mean(l.short_cpu),
        mean(l.short_gpu),
    );
    Some(l.observation(l.short_idle, share, sentence))
}

fn outliers(l: &LaunchLoss, of: usize, above: Ns) -> Option<Observation> {
    let share = l.share(l.outlier_idle)?;
    let sentence = format!(
        "{} while its device idles inside launch calls of more than {}: {}, the longest {} in `{}`; such a \
         call loads its kernel for the first time, waits for a copy, memory or a lock, or its thread did not \
         get a core",
        l.loses(l.outlier_idle, share, of),
        fmt_ns(above),
        counted(l.outliers as u64, "call"),
        fmt_ns(l.longest.0),
        clip(&l.longest.1, 40),
    );
    Some(l.observation(l.outlier_idle, share, sentence))
}
