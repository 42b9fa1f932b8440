//! Hardware counters that the profiler sampled: samples, means over sets of time, and energy.

mod energy_line;
mod joules;
mod means;
mod ranks;
mod scopes;
mod step_energies;
mod tables;
mod words;

pub use energy_line::{DeviceOfRank, KnownEnergy, energy_of_devices};
pub use tables::{EnergyRow, EnergyTable, HardwareByRank, HardwareCounterMeans, HardwareCounters};
pub use tables::{HardwareByRankRow, HardwareMeanRow};

pub(super) use ranks::{VIEW, by_rank, energy_of_job};
pub use step_energies::StepEnergies;

use crate::api::{Options, RowEmitter};
use hta_base::table::schema::{Batch, Table};
use hta_facts::iterations::Iterations;
use hta_trace::hardware_counters::{HardwareCounter, RecordedCounter};
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::Step;
use joules::{DevicePower, JudgedEnergy, has_energy};
use means::JudgedMean;
use scopes::{CounterScope, PeriodOfStep, ScopedTime, recorded, scoped_times, steps};
use std::collections::BTreeMap;
use step_energies::by_device;
use tables::HardwareCounterRow;

/// Means and energy of a rank; its samples are given away. Without samples there is no row.
pub(super) fn map(trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> [Batch; 2] {
    let (mut means, mut energy) = (HardwareCounterMeans::default(), EnergyTable::default());
    for (device, counters) in &by_device(trace) {
        let work = trace.devices.iter().find(|w| w.is_gpu && w.device == Some(*device));
        let recorded = recorded(trace, work, counters);
        let steps = steps(trace, recorded);
        let sets = scoped_times(trace, work, recorded, &steps);
        let chosen = |set: &&ScopedTime| is_chosen(trace, set, options);
        for counter in counters.iter().filter(|c| c.kind != HardwareCounter::Cycles) {
            for set in sets.iter().filter(chosen) {
                if has_mean(counter, set) {
                    push_mean(&mut means, trace, counter, set);
                }
            }
        }
        if let Some(power) = DevicePower::of_device(counters) {
            push_energies(&mut energy, trace, *device, power, (&sets, &steps), options);
        }
    }
    if options.wants_per_event(HardwareCounters::SPEC) {
        samples(trace, give);
    }
    [means.finish(), energy.finish()]
}

/// Whether a counter gets a row for a set of time. A counter without means (two values at one time) gets
/// one row, of the whole capture, with the reason.
fn has_mean(counter: &RecordedCounter, set: &ScopedTime) -> bool {
    match counter.has_means() {
        true => set.scope != CounterScope::Idle,
        false => set.scope == CounterScope::Capture,
    }
}

/// The step that a set of time is.
fn step_of<'a>(trace: &'a RankTrace, set: &ScopedTime) -> Option<&'a Step> {
    set.step.and_then(|(i, _)| trace.steps.steps.get(i as usize))
}

fn is_chosen(trace: &RankTrace, set: &ScopedTime, options: &Options) -> bool {
    step_of(trace, set).is_none_or(|step| options.model.selects(step))
}

fn push_mean(
    table: &mut HardwareCounterMeans,
    trace: &RankTrace,
    counter: &RecordedCounter,
    set: &ScopedTime,
) {
    let judged = JudgedMean::new(counter, set);
    table.push(HardwareMeanRow {
        rank: trace.rank,
        device: Some(counter.device),
        kind: counter.kind.key(),
        counter: trace.text(counter.counter),
        unit: counter.unit,
        scope: set.scope.key(),
        name: set.name,
        step: set.step.map(|s| s.0),
        step_label: set.step.and_then(|s| s.1),
        mean: judged.value,
        min: judged.mean.min.filter(|_| judged.value.is_some()),
        max: judged.mean.max.filter(|_| judged.value.is_some()),
        period_ns: counter.period,
        samples: judged.mean.samples,
        covered_ns: judged.mean.covered,
        window_ns: judged.mean.window,
        resolved: judged.is_resolved,
        reason: judged.reason.as_deref(),
    });
}

fn push_energies(
    table: &mut EnergyTable,
    trace: &RankTrace,
    device: i64,
    power: DevicePower,
    (sets, steps): (&[ScopedTime], &[PeriodOfStep]),
    options: &Options,
) {
    let work = trace.devices.iter().find(|w| w.is_gpu && w.device == Some(device));
    let shares = work.filter(|_| power.is_divisible(steps)).map(|work| {
        let mut by_text: BTreeMap<&str, i128> = BTreeMap::new();
        for (name, pj) in power.shares(trace, work) {
            *by_text.entry(trace.text(name)).or_default() += pj;
        }
        by_text
    });
    let (iterations, of_steps) = (Iterations::of(trace), StepEnergies::of(trace));
    for set in sets.iter().filter(|set| is_chosen(trace, set, options)) {
        let of_step = set.step.and_then(|(step, _)| of_steps.judged(device, step).cloned());
        let (judged, shared) = match (set.name, &shares) {
            _ if let Some(judged) = of_step => (judged, None),
            _ if has_energy(set.scope) => (power.of(set), None),
            (Some(name), Some(shares)) if set.scope == CounterScope::KernelName => {
                let Some(pj) = shares.get(name) else { continue };
                (power.of_share(set, *pj), Some("by share of time"))
            }
            _ => continue,
        };
        let j = judged.joules();
        let JudgedEnergy { pj, covered, window, reason } = judged;
        let iteration = set.step.and_then(|(step, _)| iterations.all.iter().find(|i| i.step == step));
        table.push(EnergyRow {
            rank: trace.rank,
            device: Some(device),
            scope: set.scope.key(),
            name: set.name,
            step: set.step.map(|s| s.0),
            step_label: set.step.and_then(|s| s.1),
            is_partial: step_of(trace, set).map(|step| step.is_partial),
            pj: pj.map(|pj| pj.to_string()).as_deref(),
            j,
            covered_ns: covered,
            window_ns: window,
            tokens: iteration.filter(|i| !i.is_lost).and_then(|i| i.about.progress()),
            shared,
            reason: reason.as_deref(),
        });
    }
}

fn samples(trace: &RankTrace, give: &mut RowEmitter) {
    let mut table = HardwareCounters::default();
    for counter in &trace.counters.tracks {
        for ((ts, value), cell) in counter.samples.iter().zip(&counter.cells) {
            table.push(HardwareCounterRow {
                rank: trace.rank,
                device: Some(counter.device),
                kind: counter.kind.key(),
                counter: trace.text(counter.counter),
                unit: counter.unit,
                source: counter.source.key(),
                ts_ns: *ts,
                dur_ns: cell.span.len(),
                value: *value,
            });
            table.give_piece(give);
        }
    }
    if !trace.counters.tracks.is_empty() {
        give(table.finish());
    }
}
