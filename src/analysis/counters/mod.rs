//! Counters of a device over time: queue length, memory bandwidth, how busy kernels keep it, and what the
//! hardware's own counters say where the profiler sampled them.

pub mod load;
pub mod recorded;
pub mod series;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::settings::{Setting, ValueType};
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_base::table::view::{Fold, Keep, Note, RowTest, TableError, ViewScope, ViewSpec};
use hta_base::units::Span;
use hta_job::Job;
use hta_job::recording::{Recording, step_noun};
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::{Scope, Window};
use load::{KernelLoad, kernels, loads, multiprocessors};
use recorded::{EnergyTable, HardwareByRank, HardwareCounterMeans, HardwareCounters};
use series::{CounterSeries, DeviceCounter, DeviceLoad, RankCounters, bucket_width, buckets, series_of};
use std::collections::BTreeSet;

table! {
    /// Counters over time; a value holds for dur_ns.
    pub struct CounterValues, CounterValueRow = "counters"
        by "rank, counter, device, stream, direction, ts_ns" {
        rank;
        counter: Text, "",
            "queue_length, memory_bandwidth, gpu_utilization_ratio, sm_efficiency_ratio or est_occupancy_pct";
        device;
        stream: Option<i64>, "", "stream of a queue, where recorded";
        direction: Option<Text>, "", "of copies: HtoD, DtoH, DtoD, PtoP, HtoH, set or unknown";
        ts_ns: i64, "ns", "start of the time for which the value holds";
        dur_ns: Option<i64>, "ns", "length of that time; null: nothing more is recorded";
        value: Option<f64>, "",
            "value in the unit of the row; null if it is unknown, or if it is a mean over kernels and none \
             runs";
        unit: Text, "", "launches, GB/s, ratio or %";
    }
}

table! {
    /// The counters of kernels as one value per window.
    pub struct CounterMeans, CounterMeanRow = "counter_means" by "rank, device, scope, step" {
        rank; device;
        scope: Text, "", "steps (first step's start to last one's end), span, capture, step or outside";
        step; step_label; is_partial; ts_ns;
        dur_ns: i64, "ns", "length of the window", "window" => mean(dur_ns);
        kernel_ns: i64, "ns", "time in which a kernel runs; copies and sets do not count" => sum(kernel_ns);
        gpu_utilization_ratio: Option<f64>, "share", "kernel_ns / dur_ns", "utilization"
            => ratio(kernel_ns, dur_ns);
        sm_efficiency_ratio: Option<f64>, "share",
            "mean over the window of min(1, blocks per SM of the running kernels)", "SM eff."
            => mean(sm_efficiency_ratio, dur_ns);
        est_occupancy_pct: Option<f64>, "%",
            "mean of the recorded occupancies, and of those derived where Cuspy records none, weighted by \
             duration",
            "occupancy";
        blocks_known_pct: Option<f64>, "%",
            "share of the kernels' summed duration in the window for which blocks per SM are known", "known";
        occupancy_known_pct: Option<f64>, "%",
            "share of the kernels' summed duration in the window for which the occupancy is known",
            "known occ.";
    }
}

const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "How busy kernels keep each device, first to last step",
        columns: &[
            "rank",
            "device?",
            "dur_ns",
            "gpu_utilization_ratio",
            "sm_efficiency_ratio",
            "est_occupancy_pct",
            "blocks_known_pct",
            "occupancy_known_pct",
        ],
        keep: &[Keep::Made(&["rank", "scope"], first_to_last)],
        by: "gpu_utilization_ratio ascending",
        fold: Fold::Worst,
        notes: &[
            Note::Text(
                "utilization: kernels, without copies; SM efficiency and occupancy are estimates from grids",
            ),
            Note::Text("known: of the kernels' time, with blocks per SM and with an occupancy"),
            Note::Made(nothing_known),
        ],
        ..ViewSpec::of(CounterMeans::SPEC)
    },
    recorded::VIEW,
];

/// Rows of the steps as a whole; of ranks without steps those of the span.
fn first_to_last(scope: &ViewScope) -> Result<RowTest, TableError> {
    let mut with_steps = BTreeSet::new();
    scope.each::<CounterMeans>(|r| {
        with_steps.extend((r.scope == STEPS).then_some(i64::from(r.rank)));
    })?;
    Ok(Box::new(move |cells, row| {
        let has_steps = cells[0].int(row).is_some_and(|rank| with_steps.contains(&rank));
        cells[1].text(row) == Some(if has_steps { STEPS } else { "span" })
    }))
}

const BUCKET: Setting = Setting {
    stem: "counters",
    flag: "--bucket-us",
    value: "US",
    help: "Width of a bucket; 0: a hundredth of the capture, rounded up to 1, 2 or 5 times a power of ten",
    kind: ValueType::Micros { default: 0 },
};

pub struct CountersOf;

impl Analysis for CountersOf {
    fn about(&self) -> About {
        About {
            stem: "counters",
            title: "queue length, bandwidth, utilization and occupancy over time, and hardware counters",
            explain: include_str!("page.md"),
            tables: &[
                CounterValues::SPEC,
                CounterMeans::SPEC,
                HardwareCounters::SPEC,
                HardwareCounterMeans::SPEC,
                EnergyTable::SPEC,
                HardwareByRank::SPEC,
            ],
            views: &VIEWS,
            settings: &[BUCKET],
            is_long: true,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let bucket = Some(options.settings.ns(&BUCKET)).filter(|b| *b > 0);
        let mut means = CounterMeans::default();
        let width = bucket_width(trace.capture, bucket);
        let in_time: Vec<Span> = match options.wants(CounterValues::SPEC) {
            true => buckets(trace.capture, width).collect(),
            false => Vec::new(),
        };
        let mut of_kernels = Vec::new();
        let sms = multiprocessors(trace);
        for work in trace.devices.iter().filter(|w| w.is_gpu) {
            let scopes = scopes(trace, work, options);
            let asked = scopes.iter().map(|(_, w)| w.parts()).chain(in_time.iter().map(std::slice::from_ref));
            let mut means_then_buckets = loads(&kernels(trace, work, &sms), &asked.collect::<Vec<_>>());
            let buckets = means_then_buckets.split_off(scopes.len());
            push_means(&mut means, trace, work, scopes.iter().zip(means_then_buckets));
            of_kernels.push(DeviceLoad { device: work.device, buckets });
        }
        if options.wants(CounterValues::SPEC) {
            let mut table = CounterValues::default();
            // One counter at a time, to limit memory.
            for counter in DeviceCounter::ALL {
                values(trace, &series_of(trace, &[counter], width, &of_kernels), &mut table, give);
            }
            give(table.finish());
        }
        let reason = trace.is_cpu_only().then_some("no GPU activity");
        let [recorded, energy] = recorded::map(trace, options, give);
        Partial { rank: trace.rank, tables: vec![means.finish(), recorded, energy], reason }
    }

    fn reduce(&self, partials: &[Partial], job: &Job, _: &Options) -> Output {
        let by_rank = recorded::by_rank(partials);
        let noun = step_noun(Recording::of_job(job).has_iterations());
        let energy = recorded::energy_of_job(&by_rank, partials, noun);
        Output { energy, tables: vec![by_rank], ..Output::default() }
    }
}

/// Why nothing is known of kernels, where that is so.
fn nothing_known(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut is_so = false;
    scope.each::<CounterMeans>(|r| {
        let lacks = |pct: Option<f64>| pct == Some(0.0);
        is_so |=
            r.scope == "span" && r.kernel_ns > 0 && lacks(r.blocks_known_pct) && lacks(r.occupancy_known_pct);
    })?;
    Ok(is_so.then(|| {
        "0 % known: the file records neither these numbers of kernels nor the properties of the device from \
         which they follow"
            .to_string()
    }))
}

/// Scope of the window from the first step's start to the last step's end.
const STEPS: &str = "steps";

/// The windows of the means, with their names.
fn scopes(trace: &RankTrace, work: &DeviceWork, options: &Options) -> Vec<(&'static str, Window)> {
    let windows = trace.windows(work, &options.model);
    let steps = || windows.iter().filter(|w| w.step.is_some()).flat_map(|w| w.parts());
    let all = steps().map(|p| p.start).min().zip(steps().map(|p| p.end).max());
    let whole = all.map(|(a, b)| (STEPS, Window::whole(Scope::Span, Span::new(a, b))));
    whole.into_iter().chain(windows.into_iter().map(|w| (w.scope.name(), w))).collect()
}

fn push_means<'a>(
    table: &mut CounterMeans,
    trace: &RankTrace,
    work: &DeviceWork,
    of_scopes: impl Iterator<Item = (&'a (&'static str, Window), KernelLoad)>,
) {
    for ((scope, w), l) in of_scopes {
        let dur_ns = w.len();
        table.push(CounterMeanRow {
            rank: trace.rank,
            device: work.device,
            scope,
            step: w.step,
            step_label: w.label,
            is_partial: w.is_partial,
            ts_ns: w.start(),
            dur_ns,
            kernel_ns: l.kernel,
            gpu_utilization_ratio: l.utilization(dur_ns),
            sm_efficiency_ratio: l.sm_efficiency(dur_ns).filter(|_| l.has_blocks()),
            est_occupancy_pct: l.occupancy_pct().filter(|_| l.has_occupancy()),
            blocks_known_pct: l.blocks_coverage_pct(),
            occupancy_known_pct: l.occupancy_coverage_pct(),
        });
    }
}

fn values(trace: &RankTrace, counters: &RankCounters, table: &mut CounterValues, give: &mut RowEmitter) {
    for s in &counters.series {
        for i in 0..s.points.len() {
            let (ts_ns, value) = s.points[i];
            table.push(CounterValueRow {
                rank: trace.rank,
                counter: s.counter.name(),
                device: s.device,
                stream: s.stream,
                direction: s.direction,
                ts_ns,
                dur_ns: until(s, i).map(|end| end - ts_ns),
                value,
                unit: s.counter.unit(),
            });
            table.give_piece(give);
        }
    }
}

/// Time until which the value of a point holds; `None` after the last change.
fn until(s: &CounterSeries, i: usize) -> Option<i64> {
    s.points.get(i + 1).map(|p| p.0).or(s.end)
}
