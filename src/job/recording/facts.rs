//! The table `recordings`: what is recorded of each rank. The rules read nothing else of a trace.

use hta_base::health::Counter;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, percent};
use hta_facts::counted_events::CountedEvents;
use hta_facts::same_durations::SameDurations;
use hta_facts::serving_mode::ServingMode;
use hta_facts::shared_streams::communication_beside_compute;
use hta_facts::validator::Validation;
use hta_facts::vendor::DeviceVendor;
use hta_trace::activity::Activity;
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::kernel::function_name;
use hta_trace::launch_times::ClockAhead;
use hta_trace::memory::{Allocations, by_device};
use hta_trace::meta::{Recorder, TimeEra};
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// What is recorded of a rank.
    pub struct Recordings, RecordingRow = "recordings" by "rank" {
        rank;
        vendor: Text, "", "maker of the devices: nvidia, amd, other or none";
        capability: Option<Text>, "", "compute capability of the first device";
        world_size: Option<u32>, "ranks", "ranks of the job";
        recorded_ns: i64, "ns", "capture";
        activity_count: u64, "", "GPU activities";
        gpu_sum_ns: i64, "ns", "their summed duration";
        unlinked_ns: i64, "ns", "of those without a launch record";
        graph_ns: i64, "ns", "of those launched by a graph";
        launch_count: u64, "", "calls that launch kernels";
        lost_launch_count: u64, "",
            "of those, calls without an activity, beyond those whose kernel another call owns";
        shared_launch_count: u64, "",
            "calls that launch one kernel and own several: the numbers that join them are not their own";
        shared_kernel_count: u64, "", "kernels of these beyond one each, whose own calls have none";
        kernel_launch_count: u64, "", "launch calls of which a kernel is recorded";
        early_launch_count: u64, "", "of those, calls that begin after their first kernel has started";
        early_by_ns: i64, "ns", "longest time by which they do";
        captured_count: u64, "", "calls that record a kernel into a graph instead of launching it";
        captured_graph_count: u64, "", "graphs that they record";
        frame_count: u64, "", "Python frames";
        overhead_ns: i64, "ns", "time in which the profiler worked";
        lead_ns: i64, "ns", "time in which work from before the recording ran";
        overrun_count: u64, "",
            "activities that cover three or more later ones of their stream, which cannot be";
        overrun_ns: i64, "ns", "their time after the next start on their stream, which counts nowhere";
        ordered_count: u64, "", "activities with a launch call, without communication";
        overtaken_count: u64, "",
            "of those, activities that ran on their stream after one that was launched later";
        overtaken_by_ns: i64, "ns", "longest time between the launches of both";
        clock_device: Option<i64>, "",
            "device whose clock disagrees with the host's: its activities start before their launch calls, \
             by nearly the same time";
        clock_ahead_ns: i64, "ns", "least time by which they do; 0: no such device";
        clock_early_count: u64, "", "activities of this device that start before their launch calls";
        clock_behind_ns: i64, "ns",
            "least time by which the clock of the device is behind: work that was launched before calls that \
             synchronize the device ends after them; 0: none";
        clock_late_count: u64, "", "such calls";
        clock_wait_count: u64, "", "all calls that synchronize the device with work before them";
        clock_linked_count: u64, "", "activities of this device with a launch call";
        clock_moved_ns: i64, "ns",
            "by how much the clock of a device is ahead of the host's (negative: behind), by the same time \
             at every launch: its times were moved by that; 0: none";
        same_count: u64, "", "kernels of several names that all last equally long, which cannot be";
        same_name_count: u64, "", "their names";
        same_ns: i64, "ns", "the duration of each";
        allocation_count: u64, "", "allocations of memory";
        live_again_count: u64, "", "of those, at an address that is in use by the sums of the same records";
        device_count: u32, "", "GPUs with work";
        device_state: Text, "",
            "recorded; partly (more than 5 % of launches have no activity, or of GPU time no launch); \
             not_recorded (launches, but no activity); counted (the same, and counters were read instead); \
             host_job (operators, but no launches); nothing";
        names_device: bool, "",
            "something points to a device, whether or not its work is recorded: properties of a device, \
             the recorder Cuspy, a back end such as NCCL, a call of its runtime, a row of it, or memory \
             on it";
        operator_count: u64, "", "operators";
        compute_ns: i64, "ns", "summed duration of compute kernels";
        idle_ns: i64, "ns", "time in which its GPUs run nothing";
        main_stream: Option<i64>, "", "stream with at least half of that";
        streams: Text, "", "streams with activities";
        data_parallel_count: u64, "", "calls of torch.nn.DataParallel";
        gloo_count: u64, "", "collectives of Gloo on the host";
        communication_count: u64, "", "communication kernels";
        communication_ns: i64, "ns", "time with communication";
        beside_compute_ns: i64, "ns", "part of it on the stream of the compute";
        fused_ns: i64, "ns", "time with fused kernels (exchange and product in one)";
        fused_name: Option<Text>, "", "the fused kernel with most time; null: none";
        iteration_count: u64, "", "iterations";
        step_count: u64, "", "steps; 0 if nothing is one";
        step_window: Text, "", "whose windows they have: host or device";
        step_launched_ns: i64, "ns", "summed duration of what they launched";
        step_held_ns: i64, "ns", "part of it inside their windows";
        is_serving: bool, "",
            "the rank serves requests: it has iterations of an engine, or most of its GPU time is in graphs \
             and there is no ProfilerStep";
        excerpt: bool, "", "a tool cut the file out of a longer one";
        file_end: Text, "",
            "whole; in_events (the file ends in the middle of its events: those behind are missing); \
             behind_events (it ends in the middle behind them)";
        file: Text, "", "its file";
        rank_source: Text, "", "source of the rank: file, name, position or process";
        role: Option<Text>, "", "role of its program in a job of several; null: a job of one program";
        host_name: Option<Text>, "", "host";
        pids: Text, "", "processes of the host that called the runtime or ran operators";
        devices: Text, "", "devices with work";
        recorded_start_ns: i64, "ns", "first recorded event";
        recorded_end_ns: i64, "ns", "last recorded event";
        has_origin: bool, "", "times count from 1970, so they can be compared with those of other files";
    }
}

/// Time of the capture in which the profiler itself worked, ns.
pub fn overhead(trace: &RankTrace) -> Ns {
    let rows = (0..trace.classes.len() as u32).filter(|r| trace.classes[*r as usize] == Class::Overhead);
    Union::new(rows.map(|r| trace.span(r).intersect(trace.capture))).len()
}

/// Share of launches without an activity up to which a device counts as recorded, percent.
pub(crate) const LOST_PCT: u64 = 5;
/// Share of GPU time without a launch up to which it does, percent.
pub(crate) const UNLINKED_PCT: f64 = 5.0;

/// What says whether the device of a rank was recorded.
struct DeviceState {
    is_counted: bool,
    activities: u64,
    launches: u64,
    /// Of these, those without an activity.
    lost: u64,
    operators: u64,
    is_unlinked: bool,
}

impl DeviceState {
    /// With the share of GPU time without a launch, percent.
    fn of(trace: &RankTrace, events: &CountedEvents, unlinked_pct: Option<f64>) -> Self {
        Self {
            is_counted: !trace.is_device_lost,
            activities: trace.activities.len() as u64,
            launches: events.launches,
            lost: events.lost,
            operators: events.operators,
            is_unlinked: unlinked_pct.is_some_and(|p| p > UNLINKED_PCT),
        }
    }

    fn name(&self) -> &'static str {
        match (self.activities, self.launches, self.operators) {
            (0, 0, 0) => "nothing",
            (0, 0, _) => HOST_JOB,
            (0, ..) if self.is_counted => COUNTED,
            (0, ..) => NOT_RECORDED,
            _ if self.is_unlinked || self.lost * 100 > self.launches * LOST_PCT => "partly",
            _ => RECORDED,
        }
    }
}

/// The state of a device of which everything is recorded, as far as can be seen.
pub const RECORDED: &str = "recorded";

/// The state of a rank with operators and without launches.
pub(crate) const HOST_JOB: &str = "host_job";

/// The state of a device of which nothing is recorded.
pub(crate) const NOT_RECORDED: &str = "not_recorded";

/// The state of a device of which the profiler read counters instead of recording activities.
pub(crate) const COUNTED: &str = "counted";

/// The end of a file that has one.
pub(crate) const WHOLE: &str = "whole";

/// The end of a file of which events are missing.
pub const IN_EVENTS: &str = "in_events";

impl RecordingRow<'_> {
    /// Whether events are missing because the file ends in their middle.
    pub fn is_cut(&self) -> bool {
        self.file_end == IN_EVENTS
    }

    /// Whether neither a launch nor an activity is recorded.
    pub(crate) fn is_without_work(&self) -> bool {
        self.activity_count == 0 && self.launch_count == 0
    }
}

fn file_end(trace: &RankTrace) -> &'static str {
    let is_list = trace.health.count(Counter::RootArray) > 0;
    match (trace.columns.is_cut, trace.health.count(Counter::Truncated)) {
        (true, _) => IN_EVENTS,
        (false, 0) => WHOLE,
        // Nothing stands behind the events of a bare list, whose end may be left out.
        _ if is_list => WHOLE,
        _ => "behind_events",
    }
}

/// Largest number of processes of a rank that are listed.
const MOST_PIDS: usize = 16;

/// The processes of the host, separated by commas.
fn pids(trace: &RankTrace) -> String {
    let c = &trace.columns;
    let calls =
        (0..c.len()).filter(|&r| matches!(trace.classes.get(r), Some(Class::Runtime | Class::HostOp)));
    let lanes: BTreeSet<u32> = calls.filter_map(|r| c.lane.get(r).copied()).collect();
    let pids: BTreeSet<&str> =
        lanes.iter().filter_map(|l| c.lanes.get(*l as usize)).map(|l| trace.text(l.pid)).collect();
    pids.into_iter().take(MOST_PIDS).collect::<Vec<_>>().join(",")
}

/// Back ends of collectives that run on devices only.
const DEVICE_BACKENDS: [&str; 3] = ["nccl", "xccl", "hccl"];

/// Whether anything but events of a device points to one.
fn is_device_named(trace: &RankTrace) -> bool {
    let backend = trace.meta.backend.as_deref();
    // Cuspy is used only where a device is recorded.
    !trace.meta.devices.is_empty()
        || trace.meta.recorder == Recorder::Cuspy
        || backend.is_some_and(|name| DEVICE_BACKENDS.contains(&name))
        || trace.columns.memory.iter().any(|m| m.device_type != 0)
}

/// Time of compute on each stream with activities.
fn compute_by_stream(trace: &RankTrace) -> BTreeMap<i64, Ns> {
    let mut streams: BTreeMap<i64, Ns> = BTreeMap::new();
    for a in &trace.activities {
        let Some(stream) = a.stream() else { continue };
        *streams.entry(stream).or_default() += if a.work == WorkClass::Compute { a.span.len() } else { 0 };
    }
    streams
}

/// The stream with at least half of the compute.
fn main_stream(streams: &BTreeMap<i64, Ns>, compute: Ns) -> Option<i64> {
    streams.iter().find(|(_, ns)| **ns > 0 && **ns * 2 >= compute).map(|(stream, _)| *stream)
}

/// Allocations at an address that is in use by the sums of the same records.
fn live_again(trace: &RankTrace) -> u64 {
    if trace.health.count(Counter::MemoryAllocOverLive) == 0 {
        return 0;
    }
    by_device(&trace.columns.memory).filter_map(Allocations::live_again).sum()
}

/// Summed duration of the GPU activities that `keep` selects.
fn gpu_sum(trace: &RankTrace, keep: &dyn Fn(&Activity) -> bool) -> Ns {
    trace.activities.iter().filter(|a| keep(a)).map(|a| a.span.len()).sum()
}

fn communication_count(trace: &RankTrace) -> u64 {
    trace.activities.iter().filter(|a| a.work == WorkClass::Communication).count() as u64
}

/// The clock of a device that is most ahead of the host's.
fn clock_ahead(trace: &RankTrace) -> Option<&ClockAhead> {
    trace.launch_times.clocks.iter().max_by_key(|c| c.ahead)
}

/// Sum over the GPUs.
fn fused_in(d: &DeviceWork) -> Ns {
    d.timeline.shares_in(d.capture).fused_total()
}

/// The function of the fused kernels with most time.
fn fused_name(trace: &RankTrace) -> Option<String> {
    let mut sums: BTreeMap<StrId, Ns> = BTreeMap::new();
    for a in trace.activities.iter().filter(|a| a.work == WorkClass::Fused) {
        *sums.entry(a.name).or_default() += a.span.len();
    }
    let (name, _) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    Some(function_name(trace.text(name)))
}

fn over_gpus(trace: &RankTrace, of: impl Fn(&DeviceWork) -> Ns) -> Ns {
    trace.devices.iter().filter(|d| d.is_gpu).map(of).sum()
}

/// By how much the times of a device were moved, at most.
fn clock_moved(trace: &RankTrace) -> Ns {
    trace.device_offsets.iter().map(|(_, by)| *by).max_by_key(|by| by.abs()).unwrap_or(0)
}

/// The devices with work, separated by commas.
fn devices(trace: &RankTrace) -> String {
    let named = trace.devices.iter().filter_map(|d| Some(d.device?.to_string()));
    named.collect::<Vec<_>>().join(",")
}

fn first_capability(trace: &RankTrace) -> Option<&str> {
    let first = trace.devices.iter().find_map(|d| d.device)?;
    trace.device_properties(Some(first))?.compute_capability.as_deref()
}

/// The row of a rank.
pub fn of_rank(trace: &RankTrace) -> Batch {
    let mut table = Recordings::default();
    push(trace, &mut table);
    table.finish()
}

fn push(trace: &RankTrace, table: &mut Recordings) {
    let (events, same, mode) = (CountedEvents::of(trace), SameDurations::of(trace), ServingMode::of(trace));
    let sum = |keep: &dyn Fn(&Activity) -> bool| gpu_sum(trace, keep);
    let (compute, unlinked) = (sum(&|a| a.work == WorkClass::Compute), sum(&|a| a.launch().is_none()));
    let (validation, fused_ns) = (Validation::of(trace), over_gpus(trace, fused_in));
    let (clock, streams) = (clock_ahead(trace), compute_by_stream(trace));
    table.push(RecordingRow {
        rank: trace.rank,
        vendor: DeviceVendor::of(trace).name(),
        capability: first_capability(trace),
        world_size: trace.meta.world_size,
        recorded_ns: trace.capture.len(),
        activity_count: trace.activities.len() as u64,
        gpu_sum_ns: sum(&|_| true),
        unlinked_ns: unlinked,
        graph_ns: mode.graph,
        launch_count: events.launches,
        lost_launch_count: events.lost,
        shared_launch_count: events.shared,
        shared_kernel_count: events.surplus,
        kernel_launch_count: validation.launches.checked,
        early_launch_count: validation.launches.violated,
        early_by_ns: validation.early_by,
        captured_count: events.captured,
        captured_graph_count: trace.stream_captures.iter().map(|(_, spans)| spans.len() as u64).sum(),
        frame_count: events.frames,
        overhead_ns: overhead(trace),
        lead_ns: (trace.capture.start - trace.recorded.start).max(0),
        device_state: DeviceState::of(trace, &events, percent(unlinked, sum(&|_| true))).name(),
        names_device: events.names_device || is_device_named(trace),
        operator_count: events.operators,
        compute_ns: compute,
        idle_ns: over_gpus(trace, |d| d.capture.len() - d.timeline.shares_in(d.capture).busy()),
        main_stream: main_stream(&streams, compute),
        streams: &streams.keys().map(i64::to_string).collect::<Vec<_>>().join(","),
        overrun_count: trace.overruns.count,
        overrun_ns: trace.overruns.cut,
        ordered_count: trace.launch_times.ordered,
        overtaken_count: trace.launch_times.overtaken,
        overtaken_by_ns: trace.launch_times.overtaken_by,
        clock_device: clock.and_then(|c| c.device),
        clock_ahead_ns: clock.map_or(0, |c| c.ahead),
        clock_early_count: clock.map_or(0, |c| c.early),
        clock_behind_ns: trace.launch_times.behind.map_or(0, |b| b.behind),
        clock_late_count: trace.launch_times.behind.map_or(0, |b| b.late),
        clock_wait_count: trace.launch_times.behind.map_or(0, |b| b.waits),
        clock_linked_count: clock.map_or(0, |c| c.linked),
        clock_moved_ns: clock_moved(trace),
        same_count: same.count,
        same_name_count: same.names,
        same_ns: same.ns,
        allocation_count: trace.columns.memory.iter().filter(|m| m.bytes > 0).count() as u64,
        live_again_count: live_again(trace),
        device_count: trace.devices.iter().filter(|d| d.is_gpu).count() as u32,
        data_parallel_count: events.data_parallel,
        gloo_count: events.gloo,
        communication_count: communication_count(trace),
        communication_ns: over_gpus(trace, |d| d.timeline.when(WorkClass::Communication).len()),
        beside_compute_ns: over_gpus(trace, |d| communication_beside_compute(trace, d).len()),
        fused_ns,
        fused_name: (fused_ns > 0).then(|| fused_name(trace)).flatten().as_deref(),
        iteration_count: if trace.steps.are_iterations() { trace.steps.steps.len() as u64 } else { 0 },
        step_count: if trace.steps.rule == StepRule::Capture { 0 } else { trace.steps.steps.len() as u64 },
        step_window: if trace.steps.is_on_device { "device" } else { "host" },
        step_launched_ns: trace.steps.lag.launched,
        step_held_ns: trace.steps.lag.held,
        is_serving: mode.is_serving,
        excerpt: trace.edges.is_excerpt,
        file_end: file_end(trace),
        file: &trace.file,
        rank_source: trace.rank_source.name(),
        role: trace.meta.role.as_ref().map(|role| role.name.as_str()),
        host_name: trace.meta.host_name.as_deref(),
        pids: &pids(trace),
        devices: &devices(trace),
        recorded_start_ns: trace.recorded.start,
        recorded_end_ns: trace.recorded.end,
        has_origin: trace.meta.era != TimeEra::Unknown,
    });
}
