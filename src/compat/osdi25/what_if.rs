//! The result of the published what-if analysis as a table.

use crate::osdi25::published::{Published, analyse};
use crate::osdi25::timeline;
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use hta_analysis::what_if::{RELIABLE_PCT, WhatIfRow, WhatIfs};
use hta_base::table::view::{Keep, Note, ViewSpec};
use hta_base::units::{Ns, fmt_ns, fmt_pct};
use hta_job::Job;
use hta_trace::rank_trace::RankTrace;

const VIEWS: [ViewSpec; 1] = [ViewSpec {
    title: "What if nobody straggled, the published way",
    columns: &["scope", "what", "step_ns", "slowdown", "share_of_slowdown_pct"],
    notes: &[Note::Text(
        "all: the ideal step; the others: only these keep their own durations, and all else is ideal",
    )],
    keep: &[Keep::Is("scope", &["all", "stage", "dp_rank", "op_type"])],
    ..ViewSpec::of(WhatIfs::SPEC)
}];

pub(crate) struct PublishedWhatIf;

impl Analysis for PublishedWhatIf {
    fn about(&self) -> About {
        About {
            views: &VIEWS,
            kept_tables: &[timeline::PublishedOperations::SPEC],
            // A timeline contains operations instead of events that hta knows.
            needs_known_events: false,
            ..head!(
                None,
                "what-if",
                "the published analysis of what stragglers cost, on its own timeline format",
                [WhatIfs]
            )
        }
    }

    /// A timeline has its own steps.
    fn steps(&self, trace: &RankTrace) -> Option<Vec<(u32, Option<i64>)>> {
        Some(timeline::steps(&timeline::operations(trace)))
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        let table = timeline::table(&timeline::operations(trace), options.model.steps.as_ref());
        Partial { rank: trace.rank, tables: vec![table], reason: None }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        reduce(partials)
    }
}

fn reduce(partials: &[Partial]) -> Output {
    // Partials hold the tables that `map` made. Invalid ones are skipped.
    let ops: Vec<_> = partials.iter().filter_map(|p| timeline::read(p).ok()).flatten().collect();
    let mut table = WhatIfs::default();
    let notes = match analyse(&ops) {
        Err(reason) => vec![format!(
            "cannot replay: {reason} (expected a what-if timeline: processes are data-parallel ranks, \
             threads are named `PP rank 0, TP rank 0, ...`, events are operations with a `step`)"
        )],
        Ok(p) => {
            fill(&p, &mut table);
            notes(&p)
        }
    };
    let notes = notes.into_iter().map(|text| ViewNote { view: "", text }).collect();
    Output { tables: vec![table.finish()], notes, ..Output::default() }
}

/// Deviation of the replay from the measured steps, percent.
fn error_pct(p: &Published) -> f64 {
    100.0 * (p.measured_ns - p.original_ns).abs() / p.measured_ns.max(1.0)
}

fn fill(p: &Published, table: &mut WhatIfs) {
    let error = error_pct(p);
    let whole = p.original_ns - p.ideal_ns;
    let mut row = |scope: &str, what: &str, step: f64, slowdown: f64| {
        table.push(WhatIfRow {
            scope,
            what,
            step_ns: Some(step.round() as Ns),
            gain_ns: Some((p.original_ns - step).round() as Ns),
            gain_pct: Some(100.0 * (p.original_ns - step) / p.original_ns),
            gain_device_only_ns: None,
            share_of_slowdown_pct: (whole != 0.0).then(|| 100.0 * (p.original_ns - step) / whole),
            slowdown: Some(slowdown),
            replay_error_pct: error,
            is_reliable: error <= RELIABLE_PCT,
        });
    };
    // In the row `all` everything is repaired: its step is the ideal one, its slowdown is S.
    row("all", "all workers and steps", p.ideal_ns, p.slowdown);
    let mut shares: Vec<(&str, String, f64)> = Vec::new();
    shares.extend(p.by_stage.iter().map(|s| ("stage", s.of.to_string(), s.slowdown)));
    shares.extend(p.by_dp_rank.iter().map(|s| ("dp_rank", s.of.to_string(), s.slowdown)));
    shares.extend(p.by_op_type.iter().map(|s| ("op_type", s.of.to_string(), s.slowdown)));
    for (scope, what, slowdown) in &shares {
        row(scope, what, slowdown * p.ideal_ns, *slowdown);
    }
    for s in &p.steps {
        row("step", &s.step.to_string(), s.ideal_ns, s.original_ns / s.ideal_ns);
    }
    let repaired = |m: f64| p.original_ns - m * whole;
    for (scope, what, m) in
        [("m_s", "last stage repaired", p.m_s), ("m_w", "slowest 3 % of workers repaired", p.m_w)]
    {
        if let Some(m) = m {
            row(scope, what, repaired(m), p.original_ns / repaired(m));
        }
    }
}

fn notes(p: &Published) -> Vec<String> {
    let show = |m: Option<f64>| m.map_or("-".to_string(), |m| format!("{m:.4}"));
    let slowest: Vec<String> = p.slowest_workers.iter().map(ToString::to_string).collect();
    let mut notes = vec![
        format!(
            "slowdown S = {:.4}: a step takes {} as replayed and {} ideally; measured {}: replay error {}",
            p.slowdown,
            fmt_ns(p.original_ns as Ns),
            fmt_ns(p.ideal_ns as Ns),
            fmt_ns(p.measured_ns as Ns),
            fmt_pct(Some(error_pct(p)))
        ),
        format!(
            "M_S = {} (repairing the last stage), M_W = {} (repairing the slowest workers: {})",
            show(p.m_s),
            show(p.m_w),
            slowest.join(", ")
        ),
        format!("{} workers, {} steps, {} operations", p.workers, p.steps.len(), p.ops),
    ];
    notes.extend(p.left_out.iter().take(3).map(|l| format!("step {} left out: {}", l.step, l.reason)));
    if p.left_out.len() > 3 {
        notes.push(format!("{} more steps left out", p.left_out.len() - 3));
    }
    notes
}
