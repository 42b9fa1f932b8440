//! The printed tables of `patterns`, and the observation on what to fuse or capture as a graph.

use crate::api::{Align, Certainty, Observation, Options, Output, Partial, View};
use crate::patterns::operators::{TopSequenceRow, TopSequences};
use crate::patterns::tables::{GRAPH_DONE_PCT, TopRepeatRow, TopRepeats};
use crate::population::reasons;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, ratio};
use hta_base::wording::counts::capital;
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::names::clip;
use std::cmp::Reverse;

/// Smallest share of the step that gaps must have for an observation.
const WORTH_SHARE: f64 = 0.02;

/// Views and the observation. The tables were already written rank by rank.
pub fn reduce(partials: &[Partial], options: &Options) -> Output {
    let mut notes = reasons(partials);
    let most = partials.iter().max_by_key(|p| (gpu_ns(p), Reverse(p.rank)));
    let mut views = Vec::new();
    if let Some(p) = most.filter(|p| gpu_ns(p) > 0) {
        views.push(repeats(p, partials.len(), options));
        views.push(sequences(p, options));
        views.retain(|v| !v.rows.is_empty());
    }
    match views.first_mut() {
        Some(view) => view.notes.append(&mut notes),
        None => views.push(View { title: REPEATS.to_string(), columns: Vec::new(), rows: Vec::new(), notes }),
    }
    Output { tables: Vec::new(), observations: observations(partials), views, ..Output::default() }
}

const REPEATS: &str = "Kernel sequences that repeat on a stream";

/// GPU time of the rank's largest printed pattern, ns; the rank with most is printed.
fn gpu_ns(p: &Partial) -> Ns {
    let repeats = p.rows::<TopRepeats>().map(|r| r.gpu_ns);
    repeats.chain(p.rows::<TopSequences>().map(|r| r.gpu_dur_sum_ns)).max().unwrap_or(0)
}

fn repeats(p: &Partial, ranks: usize, options: &Options) -> View {
    let rank = p.rank;
    let shown: Vec<TopRepeatRow> = p.rows::<TopRepeats>().filter(|r| r.is_shown).take(options.top).collect();
    let row = |r: &TopRepeatRow| {
        vec![
            r.stream.map_or("-".to_string(), |s| s.to_string()),
            fmt_count(u64::from(r.length)),
            fmt_count(r.count),
            fmt_ns(r.gpu_ns),
            fmt_pct(r.covered_pct),
            fmt_ns(r.idle_ns),
            launch(r),
            r.names.to_string(),
        ]
    };
    let mut notes = vec![
        "idle: of the device, inside all occurrences; launch: host time in one occurrence's launch calls"
            .to_string(),
    ];
    if ranks > 1 {
        notes.push(format!("rank {rank}, which has the largest; the others are in the table"));
    }
    match shown.first().map(|r| r.hidden) {
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
fn launch(r: &TopRepeatRow) -> String {
    match (r.launch_cpu_ns, r.graph_pct) {
        (_, Some(graph)) if graph >= GRAPH_DONE_PCT => "graph".to_string(),
        (Some(ns), _) => fmt_ns(ns as Ns),
        (None, _) => "-".to_string(),
    }
}

fn sequences(p: &Partial, options: &Options) -> View {
    const ROWS: usize = 8;
    let all: Vec<TopSequenceRow> = p.rows::<TopSequences>().collect();
    let shown = all.len().min(options.top).min(ROWS);
    let row = |r: &TopSequenceRow| {
        vec![
            clip(r.operator, 36),
            fmt_count(u64::from(r.length)),
            fmt_count(r.count),
            fmt_ns(r.gpu_dur_sum_ns),
            fmt_ns(r.op_dur_sum_ns),
            r.names.to_string(),
        ]
    };
    let more = all.first().map_or(0, |r| r.hidden) + (all.len() - shown) as u64;
    View {
        title: format!("Kernel sequences under operators, rank {}", p.rank),
        columns: vec![
            ("operator", Align::Left),
            ("kernels", Align::Right),
            ("times", Align::Right),
            ("GPU", Align::Right),
            ("host", Align::Right),
            ("begins with", Align::Left),
        ],
        rows: all[..shown].iter().map(row).collect(),
        notes: (more > 0)
            .then(|| format!("{} in the table", counted(more, "more sequence")))
            .into_iter()
            .collect(),
    }
}

/// The observation: the pattern, over all ranks, during whose occurrences a device idles most.
fn observations(partials: &[Partial]) -> Vec<Observation> {
    let rows =
        partials.iter().flat_map(|p| p.rows::<TopRepeats>().enumerate().map(|(at, r)| (p.rank, at, r)));
    let is_open = |r: &TopRepeatRow| {
        r.launch_count.is_some_and(|n| n > 1.0) && r.graph_pct.is_some_and(|g| g < GRAPH_DONE_PCT)
    };
    let cost = |r: &TopRepeatRow| r.step_idle_ns.unwrap_or(0);
    let worst =
        rows.filter(|(.., r)| is_open(r)).max_by_key(|(rank, at, r)| (cost(r), Reverse((*rank, *at))));
    worst.and_then(|(rank, _, r)| observation(rank, &r, cost(&r))).into_iter().collect()
}

fn observation(rank: u32, r: &TopRepeatRow, cost: Ns) -> Option<Observation> {
    let share = ratio(cost, r.step_ns?)?;
    if share < WORTH_SHARE {
        return None;
    }
    let launches = r.launch_count?;
    let host = r.launch_cpu_ns? as Ns;
    let stream = r.stream.map_or(String::new(), |s| format!(" on stream {s}"));
    Some(Observation {
        analysis: "patterns",
        ranks: vec![rank],
        steps: Vec::new(),
        cost_ns_per_step: cost,
        share_of_step: Some(share),
        certainty: Certainty::Inferred,
        sentence: format!(
            "{} runs the same {} {}{stream}, and the device idles {} a step in the gaps between them ({}); a \
             CUDA graph or fused kernels would close gaps that launching makes: {} of launching {} the host \
             {} each time",
            capital(&format!("rank {rank}")),
            plural(r.length as usize, "kernel"),
            counted(r.count, "time"),
            fmt_ns(cost),
            fmt_pct(Some(100.0 * share)),
            counted(launches.round() as u64, "call"),
            if launches.round() as u64 == 1 { "costs" } else { "cost" },
            fmt_ns(host),
        ),
        table: crate::patterns::tables::RepeatsTable::SPEC.name,
    })
}
