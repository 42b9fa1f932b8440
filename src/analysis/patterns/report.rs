//! The printed tables of `patterns`, and the finding on what to fuse or capture as a graph.

use crate::analysis::api::{Align, Certainty, Finding, Options, Output, Partial, View};
use crate::analysis::patterns::operators::TopSequences;
use crate::analysis::patterns::tables::{GRAPH_DONE_PCT, TopRepeats};
use crate::analysis::population::reasons;
use crate::table::schema::Batch;
use crate::units::{Ns, fmt_count, fmt_ns, fmt_pct, ratio};
use crate::wording::counts::capital;
use crate::wording::counts::{counted, plural};
use crate::wording::names::clip;
use std::cmp::Reverse;

/// Smallest share of the step that gaps must have for a finding.
const WORTH_SHARE: f64 = 0.02;

/// Views and the finding. The tables were already written rank by rank.
pub fn reduce(partials: &[Partial], options: &Options) -> Output {
    let mut notes = reasons(partials);
    let most = partials.iter().max_by_key(|p| (gpu_ns(p), Reverse(p.rank)));
    let mut views = Vec::new();
    if let Some(p) = most.filter(|p| gpu_ns(p) > 0) {
        views.extend(p.table(TopRepeats::SPEC).map(|t| repeats(t, p.rank, partials.len(), options)));
        views.extend(p.table(TopSequences::SPEC).map(|t| sequences(t, p.rank, options)));
        views.retain(|v| !v.rows.is_empty());
    }
    match views.first_mut() {
        Some(view) => view.notes.append(&mut notes),
        None => views.push(View { title: REPEATS.to_string(), columns: Vec::new(), rows: Vec::new(), notes }),
    }
    Output { tables: Vec::new(), findings: findings(partials), views, raw: None }
}

const REPEATS: &str = "Kernel sequences that repeat on a stream";

/// GPU time of the rank's largest printed pattern, ns; the rank with most is printed.
fn gpu_ns(p: &Partial) -> Ns {
    let sum =
        |spec, column| p.table(spec).map_or(0, |t| (0..t.len()).filter_map(|r| t.int(column, r)).max().unwrap_or(0));
    sum(TopRepeats::SPEC, "gpu_ns").max(sum(TopSequences::SPEC, "gpu_dur_sum_ns"))
}

fn repeats(t: &Batch, rank: u32, ranks: usize, options: &Options) -> View {
    let shown: Vec<usize> = (0..t.len()).filter(|&r| t.int("is_shown", r) == Some(1)).take(options.top).collect();
    let count = |column: &str, r: usize| fmt_count(t.uint(column, r).unwrap_or(0));
    let time = |column: &str, r: usize| t.int(column, r).map_or("-".to_string(), fmt_ns);
    let row = |&r: &usize| {
        vec![
            t.int("stream", r).map_or("-".to_string(), |s| s.to_string()),
            fmt_count(t.int("length", r).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)),
            count("count", r),
            time("gpu_ns", r),
            fmt_pct(t.float("covered_pct", r)),
            time("idle_ns", r),
            launch(t, r),
            t.text("names", r).unwrap_or_default().to_string(),
        ]
    };
    let mut notes = vec![
        "idle: of the device, inside all occurrences; launch: host time in one occurrence's launch calls".to_string(),
    ];
    if ranks > 1 {
        notes.push(format!("rank {rank}, which has the largest; the others are in the table"));
    }
    match shown.first().and_then(|&r| t.uint("hidden", r)) {
        Some(n) if n > 0 => notes.push(format!("{} in the table", counted(n, "more sequence"))),
        _ => {}
    }
    View {
        title: format!("{REPEATS}, rank {rank}"),
        columns: vec![
            ("stream", Align::Right),
            ("kernels", Align::Right),
            ("times", Align::Right),
            ("GPU", Align::Right),
            ("of stream", Align::Right),
            ("idle", Align::Right),
            ("launch", Align::Right),
            ("begins with", Align::Left),
        ],
        rows: shown.iter().map(row).collect(),
        notes,
    }
}

/// Host time in the launches of an occurrence, or a note that a graph launches it.
fn launch(t: &Batch, r: usize) -> String {
    match (t.float("launch_cpu_ns", r), t.float("graph_pct", r)) {
        (_, Some(graph)) if graph >= GRAPH_DONE_PCT => "graph".to_string(),
        (Some(ns), _) => fmt_ns(ns as Ns),
        (None, _) => "-".to_string(),
    }
}

fn sequences(t: &Batch, rank: u32, options: &Options) -> View {
    const ROWS: usize = 8;
    let shown = t.len().min(options.top).min(ROWS);
    let row = |r: usize| {
        vec![
            clip(t.text("operator", r).unwrap_or_default(), 36),
            fmt_count(t.int("length", r).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)),
            fmt_count(t.uint("count", r).unwrap_or(0)),
            t.int("gpu_dur_sum_ns", r).map_or("-".to_string(), fmt_ns),
            t.int("op_dur_sum_ns", r).map_or("-".to_string(), fmt_ns),
            t.text("names", r).unwrap_or_default().to_string(),
        ]
    };
    let more = t.uint("hidden", 0).unwrap_or(0) + (t.len() - shown) as u64;
    View {
        title: format!("Kernel sequences under operators, rank {rank}"),
        columns: vec![
            ("operator", Align::Left),
            ("kernels", Align::Right),
            ("times", Align::Right),
            ("GPU", Align::Right),
            ("host", Align::Right),
            ("begins with", Align::Left),
        ],
        rows: (0..shown).map(row).collect(),
        notes: (more > 0).then(|| format!("{} in the table", counted(more, "more sequence"))).into_iter().collect(),
    }
}

/// The finding: the pattern, over all ranks, during whose occurrences a device idles most.
fn findings(partials: &[Partial]) -> Vec<Finding> {
    let rows = partials.iter().filter_map(|p| Some((p.rank, p.table(TopRepeats::SPEC)?)));
    let rows = rows.flat_map(|(rank, t)| (0..t.len()).map(move |r| (rank, t, r)));
    let open = rows.filter(|(_, t, r)| {
        let launches = t.float("launch_count", *r);
        launches.is_some_and(|n| n > 1.0) && t.float("graph_pct", *r).is_some_and(|g| g < GRAPH_DONE_PCT)
    });
    let cost = |t: &Batch, r: usize| t.int("step_idle_ns", r).unwrap_or(0);
    let worst = open.max_by_key(|(rank, t, r)| (cost(t, *r), Reverse((*rank, *r))));
    worst.and_then(|(rank, t, r)| finding(rank, t, r, cost(t, r))).into_iter().collect()
}

fn finding(rank: u32, t: &Batch, r: usize, cost: Ns) -> Option<Finding> {
    let share = ratio(cost, t.int("step_ns", r)?)?;
    if share < WORTH_SHARE {
        return None;
    }
    let (length, count) = (t.int("length", r)?, t.uint("count", r)?);
    let launches = t.float("launch_count", r)?;
    let host = t.float("launch_cpu_ns", r)? as Ns;
    let stream = t.int("stream", r).map_or(String::new(), |s| format!(" on stream {s}"));
    Some(Finding {
        analysis: "patterns",
        ranks: vec![rank],
        steps: Vec::new(),
        cost_ns_per_step: cost,
        share_of_step: Some(share),
        certainty: Certainty::Inferred,
        sentence: format!(
            "{} runs the same {} {}{stream}, and the device idles {} a step in the gaps between them ({}); \
             a CUDA graph or fused kernels would close gaps that launching makes: {} of launching {} the host {} each \
             time",
            capital(&format!("rank {rank}")),
            plural(usize::try_from(length).ok()?, "kernel"),
            counted(count, "time"),
            fmt_ns(cost),
            fmt_pct(Some(100.0 * share)),
            counted(launches.round() as u64, "call"),
            if launches.round() as u64 == 1 { "costs" } else { "cost" },
            fmt_ns(host),
        ),
        table: crate::analysis::patterns::tables::Repeats::SPEC.name,
    })
}
