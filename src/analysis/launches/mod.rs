//! Launch statistics: the cost of the calls that start work on a device, and how soon the work begins. Times
//! are in ns.
//!
//! A call belongs entirely to the step whose host range contains its start; it is never cut. A negative delay
//! is normal, because a kernel may start before its call returns.

mod calls;
mod report;

use crate::api::{About, Analysis, Options, Partial, RowEmitter};
use crate::launches::calls::{LaunchCall, launch_calls};
use crate::settings::{Setting, ValueType};
use crate::summary::Summary;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::units::{Ns, percent};
use hta_facts::by_owner::ByOwner;
use hta_facts::step_scopes::StepScopes;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use hta_trace::window::Window;

table! {
    /// Launch calls by API. In column names `cpu` is the call itself, `latency` call start to first start,
    /// `delay` call end to first start.
    pub(crate) struct LaunchStats, LaunchStatsRow = "launch_stats"
        by "rank, scope, step, cpu_sum_ns descending, api" {
        rank;
        scope: Text, "", "capture: all calls; step: those that start in it; outside: the rest";
        step; step_label; is_partial; ts_ns; dur_ns;
        api: Text, "", "name of the call";
        launch_count: u64, "", "calls";
        activity_count: u64, "", "activities that they own";
        launched_no_activity_count: u64, "", "calls that look like launches and own no activity";
        behind_unrecorded_count: u64, "",
            "calls whose activities were queued behind work from before the recording: included only in \
             counts, gpu_sum and cpu columns";
        gpu_sum_ns: i64, "ns", "sum of the lengths of the activities";
        cpu_sum_ns: i64, "ns", "sum of the lengths of the calls";
        cpu_mean_ns: f64, "ns", "mean length of a call";
        cpu_p50_ns: i64, "ns", "median, nearest rank";
        cpu_p95_ns: i64, "ns", "95th percentile, nearest rank";
        cpu_max_ns: i64, "ns", "longest call";
        started_count: u64, "",
            "calls with latency and delay: they own an activity, and no unrecorded work was queued before it";
        latency_mean_ns: Option<f64>, "ns", "mean of call start to first start, clock noise as 0";
        latency_p50_ns: Option<i64>, "ns", "median of it";
        latency_p95_ns: Option<i64>, "ns", "95th percentile of it";
        latency_max_ns: Option<i64>, "ns", "longest";
        delay_mean_ns: Option<f64>, "ns",
            "mean of call end to first start; negative: it began before the call returned";
        delay_p50_ns: Option<i64>, "ns", "median of it";
        delay_p95_ns: Option<i64>, "ns", "95th percentile of it";
        delay_max_ns: Option<i64>, "ns", "longest";
        short_count: u64, "", "calls whose activities run shorter than the call";
        short_cpu_ns: i64, "ns", "sum of the lengths of those calls";
        short_gpu_ns: i64, "ns", "busy time of what they started";
        runtime_outlier_count: u64, "", "calls longer than --runtime-outlier-us";
        runtime_outlier_ns: i64, "ns", "sum of the lengths of those calls";
        runtime_outlier_max_ns: Option<i64>, "ns", "longest of those calls";
        delay_outlier_count: u64, "", "calls with a delay above --delay-outlier-us";
        launch_delay_negative_count: u64, "", "first starts before their own call: clock noise";
        idle_ns: i64, "ns", "part of the calls in which the device that they launch on was idle";
        short_idle_ns: i64, "ns", "the same, of short calls that are no runtime outliers";
        runtime_outlier_idle_ns: i64, "ns", "the same, of runtime outliers";
    }
}

table! {
    /// One row per launch call.
    pub(crate) struct Launches, LaunchRow = "launches" by "rank, ts_ns, event_id" {
        rank;
        device: Option<i64>, "", "device of the first activity";
        stream: Option<i64>, "", "stream of the first activity";
        event_id: u32, "", "the call, as in `events`";
        api: Text, "", "name of the call";
        tid: Text, "", "calling thread";
        step: Option<u32>, "", "index of the step that holds the call's start";
        ts_ns: i64, "ns", "start of the call";
        cpu_dur_ns: i64, "ns", "length of the call";
        activity_count: u32, "", "activities it owns";
        gpu_dur_ns: i64, "ns", "sum of their lengths";
        gpu_busy_ns: i64, "ns", "time in which any of them ran";
        gpu_span_ns: Option<i64>, "ns", "first start to last end";
        latency_ns: Option<i64>, "ns", "call start to first start; negative: clock noise";
        delay_ns: Option<i64>, "ns", "call end to first start; negative: it began before the call returned";
        is_short: bool, "", "its activities run shorter than the call";
        behind_unrecorded: bool, "",
            "its activities were queued behind work from before the recording, so latency and delay do not \
             describe the launch";
        idle_ns: i64, "ns", "part of the call in which the device was idle";
        op_event_id: Option<u32>, "", "innermost operator open when the call starts";
        op: Option<Text>, "", "its name";
        name: Option<Text>, "", "name of the first activity";
    }
}

table! {
    /// Activities whose launch was not recorded, by class; a class without any has no row.
    pub(crate) struct Unlinked, UnlinkedRow = "unlinked_activities" by "rank, device, scope, step, class" {
        rank; device;
        scope: Text, "", "capture: all activities; step: those that start in it; outside: the rest";
        step; step_label; is_partial; ts_ns; dur_ns;
        class: Text, "", "compute, communication, memory or fused_communication";
        unlinked_count: u64, "", "activities without a launch record";
        unlinked_ns: i64, "ns", "sum of their lengths";
        class_pct: Option<f64>, "%", "of the summed lengths of the class";
        gpu_pct: Option<f64>, "%", "of the summed lengths of all activities";
    }
}

pub const RUNTIME_OUTLIER: Setting = Setting {
    stem: "launches",
    flag: "--runtime-outlier-us",
    value: "US",
    help: "A launch call longer than this is an outlier",
    kind: ValueType::Micros { default: 50 },
};

pub const DELAY_OUTLIER: Setting = Setting {
    stem: "launches",
    flag: "--delay-outlier-us",
    value: "US",
    help: "A start later than this after its launch call is an outlier",
    kind: ValueType::Micros { default: 100 },
};

pub struct LaunchCalls;

impl Analysis for LaunchCalls {
    fn about(&self) -> About {
        About {
            stem: "launches",
            title: "the cost of launch calls, and how soon their work starts",
            explain: include_str!("page.md"),
            tables: &[LaunchStats::SPEC, report::LaunchApis::SPEC, Launches::SPEC, Unlinked::SPEC],
            views: &[report::CALLS],
            rollups: &[report::APIS],
            settings: &[RUNTIME_OUTLIER, DELAY_OUTLIER],
            is_long: true,
            needs: &[Capability::Launch],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let limits = OutlierLimits {
            runtime: options.settings.ns(&RUNTIME_OUTLIER),
            delay: options.settings.ns(&DELAY_OUTLIER),
        };
        let scopes = StepScopes::new(trace, &options.model);
        let calls = launch_calls(trace);
        let reason = calls.is_empty().then_some("no launches recorded");
        if options.wants(Launches::SPEC) {
            rows(trace, &scopes, &calls, give);
        }
        let tables = vec![stats(trace, &scopes, &calls, limits), unlinked(trace, &scopes)];
        Partial { rank: trace.rank, tables, reason }
    }
}

/// Limits above which calls and starts are outliers, ns.
#[derive(Clone, Copy)]
struct OutlierLimits {
    runtime: Ns,
    delay: Ns,
}

fn rows(trace: &RankTrace, scopes: &StepScopes, calls: &[LaunchCall], give: &mut RowEmitter) {
    let c = &trace.columns;
    let mut table = Launches::default();
    for call in calls {
        let first = call.first.map(|i| &trace.activities[i as usize]);
        let tid = c.lanes.get(c.lane[call.row as usize] as usize).map_or("", |l| trace.text(l.tid));
        table.push(LaunchRow {
            rank: trace.rank,
            device: first.and_then(|a| a.device()),
            stream: first.and_then(|a| a.stream()),
            event_id: call.row,
            api: trace.text(call.api),
            tid,
            step: scopes.step_at(call.span.start),
            ts_ns: call.span.start,
            cpu_dur_ns: call.cpu_ns(),
            activity_count: call.activities.len() as u32,
            gpu_dur_ns: call.gpu_ns,
            gpu_busy_ns: call.gpu_busy_ns,
            gpu_span_ns: call.gpu_span.map(|g| g.len()),
            latency_ns: call.latency_ns(),
            delay_ns: call.delay_ns(),
            is_short: call.is_short(),
            behind_unrecorded: call.behind_unrecorded,
            idle_ns: call.idle_ns,
            op_event_id: first.and_then(|a| a.op()),
            op: first.and_then(|a| a.op()).map(|o| trace.name(o)),
            name: first.map(|a| trace.text(a.name)),
        });
        table.give_piece(give);
    }
    give(table.finish());
}

fn stats<'a>(
    trace: &'a RankTrace,
    scopes: &StepScopes,
    calls: &'a [LaunchCall<'a>],
    limits: OutlierLimits,
) -> Batch {
    let mut groups: ByOwner<StrId, Vec<&LaunchCall>> = ByOwner::default();
    for call in calls {
        groups.charge(scopes.of(scopes.step_at(call.span.start)), call.api, |of| of.push(call));
    }
    let group = |(window, api, calls): (usize, StrId, Vec<&'a LaunchCall<'a>>)| {
        let api = trace.text(api);
        let cpu = Summary::new(calls.iter().map(|c| c.cpu_ns()).collect());
        (window, ApiCalls { api, calls, cpu, limits })
    };
    let mut rows: Vec<(usize, ApiCalls)> = groups.into_rows().map(group).collect();
    rows.sort_by_key(|(window, g)| (*window, std::cmp::Reverse(g.cpu.sum), g.api));
    let mut table = LaunchStats::default();
    for (window, group) in rows {
        let Some(w) = scopes.windows().get(window) else { continue };
        push_stats(&mut table, trace.rank, w, &group);
    }
    table.finish()
}

/// The calls of one API that belong to a window.
struct ApiCalls<'a> {
    api: &'a str,
    calls: Vec<&'a LaunchCall<'a>>,
    cpu: Summary,
    limits: OutlierLimits,
}

fn push_stats(table: &mut LaunchStats, rank: u32, w: &Window, group: &ApiCalls) {
    let ApiCalls { api, calls, cpu, limits } = group;
    // Calls queued behind unrecorded work do not measure launching.
    let clean = || calls.iter().filter(|c| !c.behind_unrecorded);
    // Work cannot start before its call: earlier starts are clock noise.
    let latency = Summary::new(clean().filter_map(|c| c.latency_ns()).map(|l| l.max(0)).collect());
    let delay = Summary::new(clean().filter_map(|c| Some(c.delay_ns()?.max(-c.cpu_ns()))).collect());
    let has_started = latency.count > 0;
    let some = |ns: Ns| has_started.then_some(ns);
    let short = || clean().filter(|c| c.is_short());
    let outliers = || clean().filter(|c| c.cpu_ns() > limits.runtime);
    table.push(LaunchStatsRow {
        rank,
        scope: w.scope.name(),
        step: w.step,
        step_label: w.label,
        is_partial: w.is_partial,
        ts_ns: w.start(),
        dur_ns: w.len(),
        api,
        launch_count: cpu.count,
        activity_count: calls.iter().map(|c| c.activities.len() as u64).sum(),
        launched_no_activity_count: calls.iter().filter(|c| c.activities.is_empty()).count() as u64,
        behind_unrecorded_count: calls.len() as u64 - clean().count() as u64,
        gpu_sum_ns: calls.iter().map(|c| c.gpu_ns).sum(),
        cpu_sum_ns: cpu.sum,
        cpu_mean_ns: cpu.mean,
        cpu_p50_ns: cpu.p50,
        cpu_p95_ns: cpu.p95,
        cpu_max_ns: cpu.max,
        started_count: latency.count,
        latency_mean_ns: has_started.then_some(latency.mean),
        latency_p50_ns: some(latency.p50),
        latency_p95_ns: some(latency.p95),
        latency_max_ns: some(latency.max),
        delay_mean_ns: has_started.then_some(delay.mean),
        delay_p50_ns: some(delay.p50),
        delay_p95_ns: some(delay.p95),
        delay_max_ns: some(delay.max),
        short_count: short().count() as u64,
        short_cpu_ns: short().map(|c| c.cpu_ns()).sum(),
        short_gpu_ns: short().map(|c| c.gpu_busy_ns).sum(),
        runtime_outlier_count: outliers().count() as u64,
        runtime_outlier_ns: outliers().map(|c| c.cpu_ns()).sum(),
        runtime_outlier_max_ns: outliers().map(|c| c.cpu_ns()).max(),
        delay_outlier_count: clean().filter(|c| c.delay_ns().is_some_and(|d| d > limits.delay)).count()
            as u64,
        launch_delay_negative_count: clean().filter(|c| c.is_noise()).count() as u64,
        idle_ns: clean().map(|c| c.idle_ns).sum(),
        short_idle_ns: short().filter(|c| c.cpu_ns() <= limits.runtime).map(|c| c.idle_ns).sum(),
        runtime_outlier_idle_ns: outliers().map(|c| c.idle_ns).sum(),
    });
}

/// Count and summed durations of one class, all and unlinked.
#[derive(Clone, Copy, Default)]
struct ClassSums {
    unlinked_count: u64,
    unlinked_ns: Ns,
    ns: Ns,
}

fn unlinked(trace: &RankTrace, scopes: &StepScopes) -> Batch {
    let mut table = Unlinked::default();
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        let mut shares = vec![[ClassSums::default(); 4]; scopes.windows().len()];
        for a in work.activities.iter().map(|&i| &trace.activities[i as usize]) {
            for window in scopes.of(a.step()) {
                let share = &mut shares[window][a.work as usize];
                share.ns += a.span.len();
                if a.launch().is_none() {
                    share.unlinked_count += 1;
                    share.unlinked_ns += a.span.len();
                }
            }
        }
        for (w, shares) in scopes.windows().iter().zip(&shares) {
            let all = shares.iter().map(|s| s.ns).sum();
            for class in WorkClass::ALL {
                let share = shares[class as usize];
                if share.unlinked_count == 0 {
                    continue;
                }
                table.push(UnlinkedRow {
                    rank: trace.rank,
                    device: work.device,
                    scope: w.scope.name(),
                    step: w.step,
                    step_label: w.label,
                    is_partial: w.is_partial,
                    ts_ns: w.start(),
                    dur_ns: w.len(),
                    class: class.name(),
                    unlinked_count: share.unlinked_count,
                    unlinked_ns: share.unlinked_ns,
                    class_pct: percent(share.unlinked_ns, share.ns),
                    gpu_pct: percent(share.unlinked_ns, all),
                });
            }
        }
    }
    table.finish()
}
