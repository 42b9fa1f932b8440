//! Reduces the launch calls of all ranks to the printed table and the observations.

use crate::api::{Align, Certainty, Observation, Options, Output, Partial, View, rows};
use crate::launches::{LaunchStats, LaunchStatsRow, Unlinked};
use crate::population::reasons;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::capital;
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::names::clip;
use hta_trace::launch::is_graph_launch;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Smallest loss that is reported, percent of the step.
const WORTH_PCT: f64 = 1.0;

/// Tables, view and observations of all ranks. Calls longer than `runtime_outlier` ns are outliers.
pub fn reduce(partials: &[Partial], options: &Options, runtime_outlier: Ns) -> Output {
    let with_table = partials.iter().filter(|p| p.table(LaunchStats::SPEC).is_some());
    let losses: Vec<LaunchLoss> =
        with_table.map(|p| LaunchLoss::new(p.rank, p.rows::<LaunchStats>().collect())).collect();
    let mut observations = Vec::new();
    let most = |of: fn(&LaunchLoss) -> Ns| losses.iter().max_by_key(|l| (of(l), Reverse(l.rank)));
    observations.extend(most(|l| l.short_idle).and_then(|l| launch_bound(l, losses.len())));
    observations.extend(most(|l| l.outlier_idle).and_then(|l| outliers(l, losses.len(), runtime_outlier)));
    let tables = [LaunchStats::SPEC, Unlinked::SPEC]
        .iter()
        .flat_map(|spec| partials.iter().filter_map(|p| p.table(spec).cloned()))
        .collect();
    Output { tables, observations, views: vec![view(partials, options)], ..Output::default() }
}

/// One API over all ranks.
#[derive(Default)]
struct ApiSums {
    calls: u64,
    cpu: Ns,
    max: Ns,
    started: u64,
    delay: f64,
    short: u64,
}

fn view(partials: &[Partial], options: &Options) -> View {
    let mut apis: BTreeMap<&str, ApiSums> = BTreeMap::new();
    let (mut noise, mut nothing, mut behind) = (0, 0, 0);
    let scope = options.printed_scope("capture");
    for row in rows::<LaunchStats>(partials).filter(|r| r.scope == scope) {
        let api = apis.entry(row.api).or_default();
        api.calls += row.launch_count;
        api.cpu += row.cpu_sum_ns;
        api.max = api.max.max(row.cpu_max_ns);
        api.started += row.started_count;
        api.delay += row.delay_mean_ns.unwrap_or(0.0) * row.started_count as f64;
        api.short += row.short_count;
        noise += row.launch_delay_negative_count;
        nothing += row.launched_no_activity_count;
        behind += row.behind_unrecorded_count;
    }
    let mut order: Vec<(&str, ApiSums)> = apis.into_iter().collect();
    order.sort_by_key(|(name, a)| (Reverse(a.cpu), *name));
    let mut notes = reasons(partials);
    if order.len() > options.top {
        notes.push(format!(
            "{}, with less time, in the table",
            plural(order.len() - options.top, "more call")
        ));
    }
    if !order.is_empty() {
        notes.push("short: what was started runs shorter than the call that starts it".to_string());
    }
    if nothing > 0 {
        let own = if nothing == 1 { "owns" } else { "own" };
        notes.push(format!("{} {own} no recorded activity", counted(nothing, "call")));
    }
    if behind > 0 {
        notes.push(format!(
            "{} calls started work that was queued behind work from before the recording: they are left out \
             of delay and short",
            fmt_count(behind)
        ));
    }
    if noise > 0 {
        notes.push(format!(
            "{} before the launching call: clock noise, 0 in the statistics",
            counted(noise, "start")
        ));
    }
    let line = |(name, a): &(&str, ApiSums)| {
        let delay = (a.started > 0).then(|| fmt_ns((a.delay / a.started as f64).round() as Ns));
        vec![
            (*name).to_string(),
            fmt_count(a.calls),
            fmt_ns(a.cpu),
            fmt_ns(a.cpu / a.calls.max(1) as Ns),
            fmt_ns(a.max),
            delay.unwrap_or_else(|| "-".to_string()),
            fmt_pct(percent(a.short as i64, a.started as i64)),
        ]
    };
    View {
        title: "Launch calls".to_string(),
        columns: vec![
            ("call", Align::Left),
            ("calls", Align::Right),
            ("host time", Align::Right),
            ("mean", Align::Right),
            ("longest", Align::Right),
            ("delay", Align::Right),
            ("short", Align::Right),
        ],
        rows: order.iter().take(options.top).map(line).collect(),
        notes,
    }
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
