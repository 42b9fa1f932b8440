//! Iterations of inference engines: their batch, their time on the device and the host, and the rate of
//! tokens.
//!
//! `trace::iteration` reads the names, `trace::step` makes iterations the steps of a rank,
//! `facts::iterations` finds their work; `measure` computes the numbers of one, `phases` sums those of one
//! phase and batch.

mod chosen;
mod measure;
mod phases;
mod report;
pub mod tables;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::inventory::base_name;
use chosen::ChosenIteration;
use hta_facts::iterations::Iterations;
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::iteration::{Engine, Phase};
use hta_trace::meta::RankSource;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::Step;
use measure::measure;
use phases::{EnginePlace, counted_iterations, slow_iterations};
use tables::{IterationCategories, IterationKinds, IterationPhases, IterationWork};
pub use tables::{IterationRow, IterationsTable};

pub struct IterationsOf;

/// Why a rank has no rows.
const NONE: &str = "no iterations of an inference engine";

impl Analysis for IterationsOf {
    fn about(&self) -> About {
        About {
            stem: "iterations",
            title: "iterations of inference engines: batch, period, gaps, tokens per second",
            explain: include_str!("page.md"),
            tables: &[
                IterationsTable::SPEC,
                IterationPhases::SPEC,
                IterationKinds::SPEC,
                IterationCategories::SPEC,
                IterationWork::SPEC,
            ],
            views: &tables::VIEWS,
            rollups: &tables::ROLLUPS,
            needs: &[Capability::DeviceTime, Capability::Steps],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        let iterations = Iterations::of(trace);
        let mut table = IterationsTable::default();
        let (mut of_phases, mut categories) = (IterationPhases::default(), IterationCategories::default());
        let is_chosen = |s: &Step| options.model.selects(s);
        for work in trace.devices.iter().filter(|d| d.is_gpu) {
            let all: Vec<ChosenIteration> = measure(trace, work, &iterations)
                .into_iter()
                .filter_map(|m| {
                    let step = trace.steps.steps.get(m.host.step as usize).filter(|s| is_chosen(s))?;
                    Some(ChosenIteration { is_first: step.index == 0 && !trace.edges.is_excerpt, step, m })
                })
                .collect();
            let (slow, counted) = (slow_iterations(&all), counted_iterations(&all));
            for ((of, is_slow), is_counted) in all.iter().zip(&slow).zip(&counted) {
                push(&mut table, trace, work.device, of, (*is_counted, *is_slow));
            }
            let is_process = trace.rank_source == RankSource::Process;
            let process = is_process.then_some(base_name(&trace.file));
            let place = EnginePlace { rank: trace.rank, device: work.device, process };
            phases::push((&mut of_phases, &mut categories), place, &all, &slow, &counted);
        }
        let reason = match (iterations.all.is_empty(), trace.is_cpu_only()) {
            (true, _) => Some(NONE),
            (false, true) => Some("no GPU activity"),
            (false, false) => None,
        };
        Partial {
            rank: trace.rank,
            tables: vec![table.finish(), of_phases.finish(), categories.finish()],
            reason,
        }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        report::reduce(partials)
    }

    fn sentences(&self, partials: &[Partial], _: &Job, _: &Options) -> Vec<String> {
        report::sentences(partials)
    }
}

fn push(
    table: &mut IterationsTable,
    trace: &RankTrace,
    device: Option<i64>,
    of: &ChosenIteration,
    (is_counted, is_slow): (bool, Option<bool>),
) {
    let (m, about) = (&of.m, &of.m.host.about);
    let generated = about.generated();
    table.push(IterationRow {
        rank: trace.rank,
        device,
        step: of.step.index,
        label: &about.label(),
        name: trace.text(of.step.name),
        rule: trace.steps.rule.name(),
        engine: about.engine.map(Engine::name),
        phase: about.phase.map(Phase::name),
        mode: about.mode.as_deref(),
        requests: about.requests,
        padded_batch: about.padded_batch,
        tokens: about.tokens,
        context_requests: about.context.requests,
        context_tokens: about.context.query_tokens,
        generation_requests: about.generation.requests,
        generation_tokens: about.generation.query_tokens,
        kv_tokens: about.kv_tokens(),
        mean_kv_tokens: about.mean_kv_tokens(),
        is_continued: about.is_continued(),
        generated_min: generated.map(|g| g.0),
        generated_max: generated.map(|g| g.1),
        is_first: of.is_first,
        is_partial: of.step.is_partial,
        is_lost: of.step.is_lost,
        is_counted,
        is_slow,
        ts_ns: m.window.start,
        dur_ns: m.window.len(),
        host_ts_ns: m.host.host.start,
        host_dur_ns: m.host.host.len(),
        preparation_ns: m.host.forward.map(|f| f.start - m.host.host.start),
        forward_ns: m.host.forward.map(|f| f.len()),
        activity_count: m.activities,
        gpu_sum_ns: m.gpu_sum,
        gpu_busy_ns: m.gpu_busy,
        window_busy_ns: m.window_busy,
        idle_ns: m.idle_ns(),
        idle_before_graph_ns: m.idle.before_graph,
        idle_in_graph_call_ns: m.idle.in_graph_call,
        idle_rest_ns: m.idle.rest,
        graph_launch_count: m.graph.launches,
        graph_activity_count: m.graph.activities,
        graph_sum_ns: m.graph.sum,
        graph_busy_ns: m.graph.busy,
        graph_idle_inside_ns: m.graph.idle_inside,
        bare_communication_ns: m.bare_communication,
        gap_ns: m.gap.map(|g| g.len),
        post_count: m.post_count,
        post_work_ns: m.post_work,
        post_busy_ns: m.gap.map(|g| g.busy),
        gap_idle_ns: m.gap.map(|g| g.len - g.busy),
        period_ns: m.period,
        basis: m.basis(),
        lag_ns: m.lag,
        host_after_ns: m.host_after,
        host_after_sync_ns: m.after.sync,
        host_after_api_ns: m.after.api,
        host_after_operator_ns: m.after.operator,
        host_after_python_ns: m.after.python,
        host_after_waiting_ns: m.after.waiting,
        host_after_other_ns: m.after.other,
        host_exposed_ns: m.host_exposed,
        host_cycle_ns: m.host_cycle,
        is_host_bound: m.is_host_bound(),
        ms_per_token: of.ms_per_token().filter(|_| !of.step.is_lost),
        tokens_per_s: of.tokens_per_s().filter(|_| !of.step.is_lost),
    });
}
