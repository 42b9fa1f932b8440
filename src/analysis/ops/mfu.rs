//! Model and hardware FLOPs utilization: the share of the devices' peak rate that products, convolutions and
//! attention reach over whole steps, idle time included.
//!
//! ```text
//!   hfu       sum over these operators of flops / peak of their type, over the length of the window
//!   mfu       the same without what is computed a second time for the backward pass
//!   coverage  |U(own GPU work of the operators whose FLOPs are known)|
//!               / |U(kernels of the categories gemm, attention, convolution, moe)|, at most 100 %
//! ```

use crate::api::{Options, Partial, rows};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::{Note, ViewSpec};
use hta_base::units::{fmt_pct, percent};
use hta_facts::direction::{Direction, Directions};
use hta_facts::graphs::nodes::OperatorCall;
use hta_facts::kernel_work::KernelWorks;
use hta_facts::machine::RankMachine;
use hta_facts::nameless_devices::is_pftrace_of_torch;
use hta_facts::operator_work::OperatorWorks;
use hta_facts::windows::ByLaunchStep;
use hta_trace::activity::Activity;
use hta_trace::device::DeviceWork;
use hta_trace::flops::Number;
use hta_trace::flops::peaks::Units;
use hta_trace::flops::roofline::{CallPeaks, Load};
use hta_trace::interval::Union;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::{Scope, Window};
use std::collections::{BTreeMap, BTreeSet};

/// Coverage below which the utilization is only a lower bound, percent.
const COVERED_PCT: f64 = 90.0;

table! {
    /// Model FLOPs utilization of each device. Work counts in the step in which it was launched.
    pub struct Mfu, MfuRow = "mfu" by "rank, device, scope, step" {
        rank; device;
        scope: Text, "", "span: all; step: launched in it; outside: the rest";
        step; step_label; ts_ns; dur_ns;
        device_name: Option<Text>, "", "product whose peaks are used; null if the device is not known";
        number: Option<Text>, "",
            "number type with most of the FLOPs; tf32: single precision on matrix units";
        peak_tflops_per_s: Option<f64>, "TFLOP/s", "dense peak of the device for that type";
        peak_tb_per_s: Option<f64>, "TB/s", "peak bandwidth of the device's memory";
        is_peak_approximate: bool, "", "public tables disagree about the peak";
        matrix_count: u64, "", "products, convolutions and attention whose FLOPs are known";
        matrix_unknown_count: u64, "", "the same with unknown FLOPs";
        matrix_flops: u64, "FLOP", "FLOPs of matrix_count";
        matrix_busy_ns: i64, "ns", "length of the union of their GPU work";
        matrix_category_ns: i64, "ns",
            "length of the union of the kernels of the categories gemm, attention, convolution and moe";
        coverage_pct: Option<f64>, "%", "matrix_busy_ns of matrix_category_ns, at most 100";
        tflops_per_s: Option<f64>, "TFLOP/s", "matrix_flops over matrix_busy_ns";
        mfu_pct: Option<f64>, "%",
            "model FLOPs utilization over the window, without recomputation; null without a known peak or \
             without known FLOPs";
        hfu_pct: Option<f64>, "%", "hardware FLOPs utilization: the same with recomputation";
        recompute_flops: u64, "FLOP",
            "of matrix_flops, computed a second time for the backward pass (activation checkpointing)";
        is_lower_bound: bool, "", "coverage_pct is below 90";
        other_flops: u64, "FLOP", "FLOPs of all other operators with a known model";
    }
}

table! {
    /// Model FLOPs utilization of each device over its steps, or its span without steps.
    pub struct MfuByDevice, MfuByDeviceRow = "mfu_by_device" by "rank, device" {
        rank; device;
        device_name: Option<Text>, "", "product whose peaks are used; null if the device is not known",
            "product" => first(device_name);
        number: Option<Text>, "", "number type with most of the operations" => most(number, matrix_flops);
        peak_tflops_per_s: Option<f64>, "TFLOP/s", "dense peak for that type" => max(peak_tflops_per_s);
        peak_tb_per_s: Option<f64>, "TB/s", "peak bandwidth of the device's memory" => max(peak_tb_per_s);
        matrix_flops: u64, "FLOP", "FLOPs of products, convolutions and attention" => sum(matrix_flops);
        tflops_per_s: Option<f64>, "TFLOP/s", "rate while products, convolutions and attention run"
            => mean(tflops_per_s, matrix_busy_ns);
        mfu_pct: Option<f64>, "%", "model FLOPs utilization over the steps, idle time included", "MFU"
            => mean(mfu_pct, dur_ns);
        hfu_pct: Option<f64>, "%", "the same with what is recomputed for the backward pass", "HFU"
            => mean(hfu_pct, dur_ns);
        coverage_pct: Option<f64>, "%", "of the matrix kernels' time with known operations; below 90 % the \
            MFU is a lower bound", "coverage" => mean(coverage_pct, dur_ns);
    }
}

pub(crate) const BY_DEVICE: Rollup = Rollup::of_windows(Mfu::SPEC, MfuByDevice::SPEC);

table! {
    /// Model FLOPs utilization of the job over its steps, or where there are none over the spans of its
    /// devices. No row without products, convolutions and attention.
    pub struct MfuOverRanks, MfuOverRanksRow = "mfu_over_ranks" by "device_count" {
        device_count: u64, "", "devices", "devices";
        dur_ns: i64, "ns", "length of the windows of a device, mean over the devices", "time each";
        matrix_tflop: f64, "TFLOP", "FLOPs of operators whose FLOPs are known", "TFLOP";
        matrix_busy_ns: i64, "ns", "their GPU time, as in mfu", "GPU time of it";
        tflops_per_s: Option<f64>, "TFLOP/s", "matrix_tflop over matrix_busy_ns", "TFLOP/s";
        mfu_pct: Option<f64>, "%", "model FLOPs utilization, weighted by the length of the windows", "MFU";
        hfu_pct: Option<f64>, "%", "hardware FLOPs utilization, where recomputation tells them apart", "HFU";
        recompute_pct: Option<f64>, "%", "of the FLOPs, computed a second time (activation checkpointing): \
            in HFU, not in MFU", "recomputed";
        coverage_pct: Option<f64>, "%", "FLOPs are known for so much of the busy time of kernels of the \
            categories gemm, attention, convolution and moe", "FLOPs known for";
        is_lower_bound: bool, "", "coverage_pct is below 90: MFU and HFU are at least so large";
        matrix_unknown_count: u64, "", "operators whose inputs do not say their FLOPs";
    }
}

pub(crate) const VIEW: ViewSpec = ViewSpec {
    title: "Model FLOPs utilization (MFU)",
    columns: &[
        "device_count",
        "dur_ns",
        "matrix_tflop",
        "matrix_busy_ns",
        "tflops_per_s",
        "mfu_pct",
        "hfu_pct?",
        "recompute_pct?",
        "coverage_pct?",
    ],
    notes: &[
        Note::If("is_lower_bound", "of some matrix work no FLOPs are known: MFU is at least so large"),
        Note::If("recompute_pct", "recomputed (activation checkpointing): FLOPs in HFU, not in MFU"),
        Note::If("coverage_pct", "FLOPs known for: so much of the matrix-category busy time"),
        Note::Sum("matrix_unknown_count", "operator", "with inputs that do not say their FLOPs"),
    ],
    ..ViewSpec::of(MfuOverRanks::SPEC)
};

pub(crate) fn table(trace: &RankTrace, options: &Options) -> Batch {
    let machine = RankMachine::new(trace, &options.peaks);
    let mut table = Mfu::default();
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        let step = |i: u32| trace.activities.get(i as usize).and_then(Activity::step);
        let launched = ByLaunchStep::new(work.activities.iter().map(|&i| (step(i), i)));
        for window in trace.windows(work, &options.model).iter().filter(|w| w.scope != Scope::Capture) {
            push(&mut table, trace, &machine, (work, launched.of(window)), window);
        }
    }
    table.finish()
}

/// The row of a window in which these activities of the device were launched.
fn push(
    table: &mut Mfu,
    trace: &RankTrace,
    machine: &RankMachine,
    (device, launched): (&DeviceWork, &[u32]),
    window: &Window,
) {
    let (works, kernels) = (OperatorWorks::of(trace), KernelWorks::of(trace));
    let (mut known, mut matrix) = (Vec::new(), Vec::new());
    let (mut operators, mut unknown): (BTreeSet<OperatorCall>, BTreeSet<OperatorCall>) = Default::default();
    let mut others: BTreeSet<OperatorCall> = BTreeSet::new();
    for &i in launched {
        let a = &trace.activities[i as usize];
        let category = kernels.at(i).category;
        if matches!(category, Category::Gemm | Category::Attention | Category::Convolution | Category::Moe) {
            matrix.push(a.span);
        }
        let Some((call, work)) = works.of_activity(trace, i) else { continue };
        match (work.family.is_matrix(), work.flops) {
            (true, Some(_)) => {
                known.push(a.span);
                operators.insert(call);
            }
            (true, None) => drop(unknown.insert(call)),
            (false, _) => drop(others.insert(call)),
        }
    }
    let directions = Directions::of(trace);
    let mut loads = MatrixLoads::default();
    let mut by_number: BTreeMap<(Number, Option<Units>), (u64, Option<f64>)> = BTreeMap::new();
    for &call in &operators {
        let Some((work, flops)) = works.of_call(call).and_then(|w| Some((w, w.flops?))) else { continue };
        let peaks = machine.peaks(call, work);
        loads.add(trace, &directions, call, (flops, work.bytes, peaks));
        if let Some(number) = work.number {
            let of = by_number.entry((number, machine.units(call, work))).or_insert((0, peaks.flops_per_s));
            of.0 = of.0.saturating_add(flops);
        }
    }
    let most = by_number.into_iter().max_by_key(|(_, (flops, _))| *flops);
    let (busy, all) = (Union::new(known).len(), Union::new(matrix).len());
    let coverage_pct = percent(busy, all).map(|pct| pct.min(100.0));
    let seconds = window.len() as f64 / 1e9;
    let share = |at_peak_s: Option<f64>| at_peak_s.filter(|_| seconds > 0.0).map(|s| 100.0 * s / seconds);
    let peaks = machine.device(device.device);
    table.push(MfuRow {
        rank: trace.rank,
        device: device.device,
        scope: window.scope.name(),
        step: window.step,
        step_label: window.label,
        ts_ns: window.start(),
        dur_ns: window.len(),
        device_name: peaks.map(|p| p.name.as_str()),
        number: most.map(|((number, units), _)| match (number, units) {
            (Number::Float32, Some(Units::Matrix)) => "tf32",
            (number, _) => number.name(),
        }),
        peak_tflops_per_s: most.and_then(|(_, (_, peak))| peak).map(|p| p / 1e12),
        peak_tb_per_s: peaks.map(|p| p.bandwidth_gb_per_s / 1e3),
        is_peak_approximate: peaks.is_some_and(|p| p.approximate),
        matrix_count: operators.len() as u64,
        matrix_unknown_count: unknown.len() as u64,
        matrix_flops: loads.all.flops().unwrap_or(0),
        matrix_busy_ns: busy,
        matrix_category_ns: all,
        coverage_pct,
        tflops_per_s: loads.all.rates(busy).tflops_per_s,
        mfu_pct: share(loads.at_peak_once_s()),
        hfu_pct: share(loads.all.at_peak_s()),
        recompute_flops: (loads.again.flops().unwrap_or(0) as f64 * loads.repeated()).round() as u64,
        is_lower_bound: coverage_pct.is_some_and(|pct| pct < COVERED_PCT),
        other_flops: others
            .iter()
            .filter_map(|call| works.of_call(*call)?.flops)
            .fold(0, u64::saturating_add),
    });
}

/// The work of products, convolutions and attention.
#[derive(Default)]
struct MatrixLoads {
    all: Load,
    /// Below the backward node of a checkpoint, or in a range of recomputation.
    again: Load,
    /// In the forward pass of a checkpoint.
    once: Load,
}

impl MatrixLoads {
    fn add(
        &mut self,
        trace: &RankTrace,
        directions: &Directions,
        call: OperatorCall,
        (flops, bytes, peaks): (u64, Option<u64>, CallPeaks),
    ) {
        self.all.add(flops, bytes, peaks);
        let OperatorCall::Row(row) = call else { return };
        let is_checkpoint = |around: u32| trace.name(around).ends_with("CheckpointFunction");
        if directions.at(row) == Direction::Recompute {
            self.again.add(flops, bytes, peaks);
        } else if trace.stacks.outward(row).any(is_checkpoint) {
            self.once.add(flops, bytes, peaks);
        }
    }

    /// The part of `again` that repeats something. Where the nodes that a checkpoint runs in turn are not
    /// recorded, its backward pass is among it: no more is repeated than was done in the forward pass.
    fn repeated(&self) -> f64 {
        match (self.again.flops(), self.once.flops()) {
            (Some(again), Some(once)) if once < again => once as f64 / again as f64,
            _ => 1.0,
        }
    }

    /// Time that the FLOPs take at the peak without those that are repeated, s.
    fn at_peak_once_s(&self) -> Option<f64> {
        Some(self.all.at_peak_s()? - self.again.at_peak_s().unwrap_or(0.0) * self.repeated())
    }
}

table! {
    /// Ranks whose file says nothing about its devices, because files of its kind never do.
    pub(crate) struct NamelessDevices, NamelessDeviceRow = "nameless_devices" by "rank" { rank; }
}

/// Why there is no peak for such a file.
const NAMELESS: &str = "a .pftrace of torch carries no properties of devices, so the peak is not known";

/// The row of a rank whose file is torch's own `.pftrace`.
pub(crate) fn nameless(trace: &RankTrace) -> Batch {
    let mut table = NamelessDevices::default();
    if is_pftrace_of_torch(trace) {
        table.push(NamelessDeviceRow { rank: trace.rank });
    }
    table.finish()
}

/// The rows that describe the job: its steps if there are any.
fn of_job(partials: &[Partial]) -> Vec<MfuRow<'_>> {
    let all: Vec<MfuRow> = rows::<Mfu>(partials).collect();
    let has_steps = all.iter().any(|r| r.scope == Scope::Step.name());
    let scope = if has_steps { Scope::Step } else { Scope::Span };
    all.into_iter().filter(|r| r.scope == scope.name()).collect()
}

/// A utilization (`pct`) of all devices over these rows, percent. One unknown peak makes the sum unknown; a
/// window without work is one of 0 %.
fn utilization(rows: &[MfuRow], pct: fn(&MfuRow) -> Option<f64>) -> Option<f64> {
    let dur: i64 = rows.iter().map(|r| r.dur_ns).sum();
    let used = |r: &MfuRow| match (pct(r), r.matrix_count) {
        (Some(pct), _) => Some(pct / 100.0 * r.dur_ns as f64),
        (None, 0) => Some(0.0),
        (None, _) => None,
    };
    let used: f64 = rows.iter().map(used).sum::<Option<f64>>()?;
    let is_known = rows.iter().any(|r| pct(r).is_some());
    (dur > 0 && is_known).then(|| 100.0 * used / dur as f64)
}

/// Both utilizations, percent.
fn both(rows: &[MfuRow]) -> [Option<f64>; 2] {
    [|r: &MfuRow| r.mfu_pct, |r: &MfuRow| r.hfu_pct].map(|pct| utilization(rows, pct))
}

/// Share of the FLOPs that are computed a second time, percent; `None` if none are.
fn recomputed_pct(rows: &[MfuRow]) -> Option<f64> {
    let sum = |flops: fn(&MfuRow) -> u64| rows.iter().map(|r| flops(r) as f64).sum::<f64>();
    let again = sum(|r| r.recompute_flops);
    (again > 0.0).then(|| 100.0 * again / sum(|r| r.matrix_flops))
}

/// Both utilizations as one line, where recomputation tells them apart.
pub(crate) fn headline(partials: &[Partial]) -> Option<String> {
    let rows = of_job(partials);
    let again = recomputed_pct(&rows)?;
    let [mfu, hfu] = both(&rows).map(|pct| pct.map(|pct| fmt_pct(Some(pct))));
    let again = fmt_pct(Some(again));
    Some(format!("MFU {}, HFU {}: {again} of the FLOPs are recomputed for the backward pass", mfu?, hfu?))
}

/// The row of the job, and what is said of it; no row without matrix work.
pub(crate) fn over_ranks(partials: &[Partial]) -> (Batch, Vec<String>) {
    let mut table = MfuOverRanks::default();
    let rows = of_job(partials);
    if rows.iter().all(|r| r.matrix_count == 0 && r.matrix_category_ns == 0) {
        return (table.finish(), Vec::new());
    }
    let devices = rows.iter().map(|r| (r.rank, r.device)).collect::<BTreeSet<_>>().len();
    let [count, unknown] = [|r: &MfuRow| r.matrix_count, |r: &MfuRow| r.matrix_unknown_count]
        .map(|column| rows.iter().map(column).sum::<u64>());
    let [busy, all, dur] =
        [|r: &MfuRow| r.matrix_busy_ns, |r: &MfuRow| r.matrix_category_ns, |r: &MfuRow| r.dur_ns]
            .map(|column| rows.iter().map(column).sum::<i64>());
    let flops = rows.iter().map(|r| r.matrix_flops as f64).sum::<f64>();
    let coverage_pct = percent(busy, all).map(|pct| pct.min(100.0));
    let recompute_pct = recomputed_pct(&rows);
    let [mfu_pct, hfu_pct] = both(&rows);
    table.push(MfuOverRanksRow {
        device_count: devices as u64,
        dur_ns: dur / (devices as i64).max(1),
        matrix_tflop: flops / 1e12,
        matrix_busy_ns: busy,
        tflops_per_s: (busy > 0).then(|| flops / busy as f64 / 1e3),
        mfu_pct,
        hfu_pct: hfu_pct.filter(|_| recompute_pct.is_some()),
        recompute_pct,
        coverage_pct: coverage_pct.filter(|_| count > 0),
        is_lower_bound: mfu_pct.is_some() && coverage_pct.is_some_and(|pct| pct < COVERED_PCT),
        matrix_unknown_count: unknown,
    });
    let mut notes: Vec<String> = peak_note(&rows, partials).into_iter().collect();
    if hfu_pct.is_some_and(|pct| pct > 100.0) {
        notes.push(
            "more than is possible: the recorded shapes do not fit the kernels, or the device is not this one"
                .to_string(),
        );
    }
    notes.extend((count == 0).then(|| "no FLOPs are known: record with record_shapes=True".to_string()));
    (table.finish(), notes)
}

/// The peak against which devices are measured, or why there is none.
fn peak_note(rows: &[MfuRow], partials: &[Partial]) -> Option<String> {
    let names: BTreeSet<&str> = rows.iter().filter_map(|r| r.device_name).collect();
    let peak = rows
        .iter()
        .find_map(|r| Some((r.peak_tflops_per_s?, r.number?, r.device_name?, r.is_peak_approximate)));
    match (peak, names.len()) {
        (Some((tflops, number, name, approximate)), 1) => {
            let about = if approximate { "~" } else { "" };
            Some(format!(
                "of {about}{tflops} TFLOP/s, the dense {number} peak of {name}, over all of the time"
            ))
        }
        (Some(_), n) => Some(format!("each device is measured against its own peak, of {n} products")),
        (None, _) => {
            let is_nameless = partials.iter().any(|p| p.rows::<NamelessDevices>().next().is_some());
            let why = if is_nameless { NAMELESS } else { "the peak of the device is not known" };
            // Of a known device the type of its numbers is not, and the line on FLOPs says why.
            let is_known = rows.iter().any(|r| r.peak_tb_per_s.is_some());
            (!is_known || is_nameless).then(|| format!("{why}; give it with --peaks FILE"))
        }
    }
}
