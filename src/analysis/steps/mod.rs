//! Steps: how long each one is, how much they vary, which are slow, and what takes longer in slow ones.
//!
//! `tables` declares the tables, `judge` decides what is slow, `differ` compares a slow step with the median
//! step, `join` compares ranks, `words` and `report` make the report. `trace::step` finds the steps and their
//! windows.
//!
//! With `--steps` the other steps are ignored completely, also in medians.

mod differ;
mod join;
pub(crate) mod judge;
mod report;
pub mod tables;
mod words;

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter};
use differ::{StepDifferenceTables, differences};
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, ratio};
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::{Step, iteration_kind};
use judge::StepJudge;
use tables::{SlowStepHost, SlowStepWork, SlowSteps, StepRow, StepSummary, StepSummaryRow, StepsTable};

pub struct StepTimes;

impl Analysis for StepTimes {
    fn about(&self) -> About {
        About {
            stem: "steps",
            title: "how long steps take, which are slow, and what takes longer in slow ones",
            explain: include_str!("page.md"),
            tables: &[
                StepsTable::SPEC,
                StepSummary::SPEC,
                SlowSteps::SPEC,
                SlowStepHost::SPEC,
                SlowStepWork::SPEC,
            ],
            views: &tables::VIEWS,
            needs: &[Capability::Steps],
            takes: &[AcrossOption::KernelWaitMax],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let chosen: Vec<&Step> = trace.steps.steps.iter().filter(|s| options.model.selects(s)).collect();
        let durations: Vec<(u32, Ns, bool)> =
            chosen.iter().map(|s| (s.index, s.window.len(), s.is_partial)).collect();
        let mut judged = StepJudge::new(&durations, trace.steps.period);
        if is_mixed(trace, &chosen) {
            // Iterations of several phases and batches differ by design; `iterations` compares those of one
            // kind.
            judged.all.limit = None;
        }
        let slow: Vec<&Step> = chosen
            .iter()
            .copied()
            .filter(|s| judged.of(s.index).is_slow(s.window.len()) == Some(true))
            .collect();
        let usual = |s: &Step| judged.of(s.index).median.and_then(|i| chosen.get(i)).copied();
        let pairs: Vec<(&Step, &Step)> = slow.iter().filter_map(|s| Some((*s, usual(s)?))).collect();
        let StepDifferenceTables { steps: slow_steps, host, work } = differences(trace, options, &pairs);
        if options.wants(SlowStepHost::SPEC) {
            give(host.finish());
        }
        if options.wants(SlowStepWork::SPEC) {
            give(work.finish());
        }
        let steps = steps(trace, &chosen, &judged);
        let summary = summary(trace, &chosen, &judged, &steps);
        let tables = vec![steps, summary, slow_steps.finish()];
        let reason = match (trace.steps.steps.is_empty(), chosen.is_empty()) {
            (true, _) => Some("no steps"),
            (false, true) => Some("none of the steps asked for"),
            (false, false) => None,
        };
        Partial { rank: trace.rank, tables, reason }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        report::reduce(partials)
    }
}

/// Whether steps are iterations of an inference engine that do not all do the same.
fn is_mixed(trace: &RankTrace, chosen: &[&Step]) -> bool {
    let kind = |s: &&Step| iteration_kind(trace.text(s.name));
    trace.steps.are_iterations() && chosen.windows(2).any(|w| kind(&w[0]) != kind(&w[1]))
}

/// Statistics of a step's activities.
#[derive(Debug, Clone, Copy, Default)]
struct StepWork {
    activities: u64,
    launched: u64,
    last_end: Option<Ns>,
}

/// Statistics of activities, by index of the step.
fn work(trace: &RankTrace) -> Vec<StepWork> {
    let mut out = vec![StepWork::default(); trace.steps.steps.len()];
    // In a trace without any launch record, activities count by their starts.
    let has_launches = trace.activities.iter().any(|a| a.launch().is_some());
    for a in &trace.activities {
        let Some(of) = a.step().and_then(|s| out.get_mut(s as usize)) else { continue };
        of.activities += 1;
        if a.launch().is_some() || !has_launches {
            of.launched += 1;
            of.last_end = of.last_end.max(Some(a.span.end));
        }
    }
    out
}

fn steps(trace: &RankTrace, chosen: &[&Step], judged: &StepJudge) -> Batch {
    let work = work(trace);
    // Devices are never pooled: with several devices, the classes are only in `temporal_breakdown`.
    let device = match trace.devices.as_slice() {
        [one] => Some(one),
        _ => None,
    };
    let mut table = StepsTable::default();
    for s in chosen {
        let own = work.get(s.index as usize).copied().unwrap_or_default();
        let dur = s.window.len();
        // The device time of a step in the device's lead is not recorded.
        let shares = device.filter(|d| !trace.is_cut_away(d, dur)).map(|d| d.timeline.shares_in(s.window));
        table.push(StepRow {
            rank: trace.rank,
            step: s.index,
            step_label: s.label,
            name: trace.text(s.name),
            ts_ns: s.window.start,
            dur_ns: dur,
            host_ts_ns: s.host.start,
            host_dur_ns: s.host.len(),
            activity_count: own.activities,
            launched_count: own.launched,
            gpu_lag_ns: own.last_end.map(|end| end - s.host.end),
            is_partial: s.is_partial,
            ratio_to_median: ratio(dur, judged.of(s.index).summary.p50),
            is_slow: judged.of(s.index).is_slow(dur),
            compute_ns: shares.map(|x| x.compute()),
            exposed_communication_ns: shares.map(|x| x.exposed_communication()),
            copies_ns: shares.map(|x| x.copies()),
            idle_ns: shares.map(|x| dur - x.busy()),
        });
    }
    table.finish()
}

fn summary(trace: &RankTrace, chosen: &[&Step], judged: &StepJudge, steps: &Batch) -> Batch {
    let mut table = StepSummary::default();
    let over = |s: &&&Step| s.window.len() - judged.of(s.index).summary.p50;
    let slow = || chosen.iter().filter(|s| judged.of(s.index).is_slow(s.window.len()) == Some(true));
    // Of equally long steps, the first is chosen.
    let longest = || chosen.iter().rev().max_by_key(|s| s.window.len());
    let most_over = || slow().collect::<Vec<_>>().into_iter().rev().max_by_key(over);
    // Steps that do more work are longer by design.
    if let Some(slowest) = if judged.alike.is_some() { most_over().or_else(longest) } else { longest() } {
        let s = &judged.all.summary;
        let variation = s.std.filter(|_| s.mean > 0.0 && judged.alike.is_none()).map(|x| x / s.mean);
        // Slow partial steps do not count in the statistics, but they do in the cost of slow steps.
        let beside: Ns =
            slow().filter(|s| s.is_partial && !judged.all.all_partial).map(|s| s.window.len()).sum();
        table.push(StepSummaryRow {
            rank: trace.rank,
            step_rule: trace.steps.rule.name(),
            step_count: chosen.len() as u32,
            full_count: if judged.all.all_partial { 0 } else { judged.all.counted as u32 },
            slow_count: slow().count() as u32,
            dur_ns: s.sum + beside,
            min_ns: s.min,
            median_ns: s.p50,
            mean_ns: s.mean,
            p95_ns: s.p95,
            max_ns: s.max,
            std_ns: s.std,
            mad_ns: judged.all.mad,
            variation_ratio: variation,
            slow_above_ns: judged.of(slowest.index).limit,
            slow_ns: slow().map(|x| over(&x)).sum(),
            slowest_step: slowest.index,
            slowest_label: slowest.label,
            slowest_ns: slowest.window.len(),
            period: judged.alike.as_ref().map(|(p, _)| p.every),
            period_first: judged.alike.as_ref().map(|(p, _)| p.first),
            period_ns: judged.period_ns(),
            usual_ns: judged.of(slowest.index).summary.p50,
            variation_pct: variation.map(|ratio| 100.0 * ratio),
            marks: &tables::marks(&StepsTable::rows(steps).collect::<Vec<_>>()),
        });
    }
    table.finish()
}
