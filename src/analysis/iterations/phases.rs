//! Iterations of one phase and batch together: only these do the same work.

use crate::iterations::chosen::{ChosenIteration, IterationKind, rate};
use crate::iterations::measure::Measured;
use crate::iterations::tables::{
    IterationCategories, IterationCategoryRow, IterationPhaseRow, IterationPhases,
};
use crate::steps::judge::StepStats;
use crate::summary::Summary;
use hta_base::units::{Ns, percent};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Whose iterations they are.
#[derive(Clone, Copy)]
pub struct EnginePlace<'a> {
    pub(crate) rank: u32,
    pub(crate) device: Option<i64>,
    /// The file, if the processes of the set are no ranks of one job.
    pub(crate) process: Option<&'a str>,
}

/// Number of the process, phase, mode and batch.
pub(crate) type KindKey<'a> = (Option<u32>, Option<&'a str>, Option<&'a str>, Option<u64>);

/// Fewest iterations from which the first one after the profiler started is left out of averages.
const FEWEST: usize = 3;

fn by_kind(all: &[ChosenIteration]) -> BTreeMap<IterationKind, Vec<usize>> {
    let mut out: BTreeMap<IterationKind, Vec<usize>> = BTreeMap::new();
    for (i, of) in all.iter().enumerate() {
        out.entry(of.kind()).or_default().push(i);
    }
    out
}

/// Whether each iteration is slow among those of its kind, by its window or with the work that runs between
/// it and the next one; `None` with too few.
pub(crate) fn slow_iterations(all: &[ChosenIteration]) -> Vec<Option<bool>> {
    let mut out = vec![None; all.len()];
    for of in by_kind(all).into_values() {
        let left_out = |c: &ChosenIteration| c.step.is_partial || (c.is_first && of.len() >= FEWEST);
        let lengths = |length: fn(&Measured) -> Ns| -> Vec<(Ns, bool)> {
            of.iter().map(|&i| (length(&all[i].m), left_out(&all[i]))).collect()
        };
        for lengths in [lengths(|m| m.window.len()), lengths(|m| m.work_len())] {
            let stats = StepStats::new(&lengths);
            for (&i, (len, _)) in of.iter().zip(lengths).filter(|(i, _)| !all[**i].step.is_lost) {
                out[i] = stats.is_slow(len).map(|is_slow| is_slow || out[i] == Some(true));
            }
        }
    }
    out
}

/// Whether each iteration is in the averages of its kind: neither partial nor the first after the profiler
/// started, unless nothing else is left.
pub(crate) fn counted_iterations(all: &[ChosenIteration]) -> Vec<bool> {
    let mut out = vec![false; all.len()];
    for of in by_kind(all).into_values() {
        let full: Vec<usize> = of.iter().copied().filter(|&i| !all[i].step.is_partial).collect();
        let recorded: Vec<usize> = of.iter().copied().filter(|&i| !all[i].step.is_lost).collect();
        let full = [full, recorded].into_iter().find(|some| !some.is_empty()).unwrap_or_else(|| of.clone());
        let later: Vec<usize> = full.iter().copied().filter(|&i| !all[i].is_first).collect();
        let counted = if of.len() >= FEWEST && !later.is_empty() { later } else { full };
        counted.into_iter().for_each(|i| out[i] = true);
    }
    out
}

pub(crate) fn push(
    (table, categories): (&mut IterationPhases, &mut IterationCategories),
    place: EnginePlace,
    all: &[ChosenIteration],
    slow: &[Option<bool>],
    counted: &[bool],
) {
    for (kind, of) in by_kind(all) {
        let members: Vec<&ChosenIteration> = of.iter().map(|&i| &all[i]).collect();
        let counted: Vec<&ChosenIteration> = of.iter().filter(|&&i| counted[i]).map(|&i| &all[i]).collect();
        let slow_count = of.iter().filter(|&&i| slow[i] == Some(true)).count();
        push_kind(table, place, &kind, (&members, &counted), slow_count as u64);
        push_categories(categories, place, &kind, &members);
    }
}

fn push_kind(
    table: &mut IterationPhases,
    EnginePlace { rank, device, process }: EnginePlace,
    kind: &IterationKind,
    (members, counted): (&[&ChosenIteration], &[&ChosenIteration]),
    slow_count: u64,
) {
    // An iteration without a next one has no period, so it only counts if none has.
    let measured = || counted.iter().filter(|c| c.m.gap.is_some());
    let has_period = measured().next().is_some();
    // If what follows is lost, the ranges on the host still say how often one begins.
    let lost_count = members.iter().filter(|c| c.step.is_lost).count() as u64;
    let on_host: Vec<&ChosenIteration> =
        members.iter().filter(|c| c.m.host_period.is_some()).copied().collect();
    let by_host = !has_period && lost_count > 0 && !on_host.is_empty();
    let timed: Vec<&ChosenIteration> = match (has_period, by_host) {
        (true, _) => measured().copied().collect(),
        (false, true) => on_host,
        (false, false) => counted.to_vec(),
    };
    let time = |c: &&ChosenIteration| c.m.host_period.filter(|_| by_host).unwrap_or(c.m.period);
    let periods = Summary::new(timed.iter().map(time).collect());
    let followed: Vec<&ChosenIteration> =
        if has_period { measured().copied().collect() } else { counted.to_vec() };
    let windows = Summary::new(counted.iter().map(|c| c.m.window.len()).collect());
    let busy: Ns = counted.iter().map(|c| c.m.window_busy).sum();
    let sum = |of: &[&ChosenIteration], tokens: fn(&ChosenIteration) -> Option<u64>| {
        of.iter().try_fold(0u64, |sum, c| tokens(c).and_then(|n| sum.checked_add(n)))
    };
    table.push(IterationPhaseRow {
        rank,
        device,
        process,
        phase: kind.phase,
        mode: kind.mode.as_deref(),
        requests: kind.requests,
        iteration_count: members.len() as u64,
        counted: counted.len() as u64,
        period_count: measured().count() as u64,
        slow_count,
        lost_count,
        tokens: sum(counted, |c| c.m.host.about.tokens),
        basis: if has_period {
            "period"
        } else if by_host {
            "host"
        } else {
            "window"
        },
        period_p50_ns: periods.p50,
        period_p95_ns: periods.p95,
        window_p50_ns: windows.p50,
        window_p95_ns: windows.p95,
        window_ns: windows.sum,
        window_busy_ns: busy,
        window_busy_pct: percent(busy, windows.sum),
        bare_communication_ns: counted.iter().map(|c| c.m.bare_communication).sum(),
        gap_idle_ns: counted.iter().filter_map(|c| c.m.gap).map(|g| g.len - g.busy).sum(),
        host_exposed_ns: counted.iter().map(|c| c.m.host_exposed).sum(),
        gpu_sum_ns: counted.iter().map(|c| c.m.gpu_sum).sum(),
        tokens_per_s: sum(&timed, |c| c.m.host.about.progress()).and_then(|n| rate(n, periods.sum)),
        process_rank: process.map(|_| rank),
        is_bound: !has_period,
        bubble_ns: followed.iter().map(|c| c.m.host_exposed).sum(),
        bubble_count: followed.len() as u64,
    });
}

fn push_categories(
    table: &mut IterationCategories,
    EnginePlace { rank, device, .. }: EnginePlace,
    kind: &IterationKind,
    members: &[&ChosenIteration],
) {
    let mut sums: BTreeMap<(&str, &str), (u64, Ns)> = BTreeMap::new();
    for ((category, part), (count, ns)) in members.iter().flat_map(|c| &c.m.categories) {
        let sum = sums.entry((category.name(), part)).or_default();
        sum.0 += count;
        sum.1 += ns;
    }
    let all: Ns = sums.values().map(|s| s.1).sum();
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by_key(|(category, (_, ns))| (Reverse(*ns), *category));
    for ((category, sub_category), (activity_count, sum_ns)) in sorted {
        table.push(IterationCategoryRow {
            rank,
            device,
            phase: kind.phase,
            mode: kind.mode.as_deref(),
            requests: kind.requests,
            category,
            sub_category,
            activity_count,
            sum_ns,
            share_pct: percent(sum_ns, all),
        });
    }
}
