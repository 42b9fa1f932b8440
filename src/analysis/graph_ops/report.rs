//! The report on kernels inside graphs: operators, graphs, captures, and the bandwidth of decode iterations.

use crate::api::{Align, Options, Output, Partial, View, rows};
use crate::facts::graphs::named::NamedNodes;
use crate::graph_ops::bandwidth::{DecodeBandwidth, DecodeBandwidthByKind, DecodeBandwidthByKindRow};
use crate::graph_ops::tables::{
    CapturedGraphs, GraphOpRow, GraphOps, GraphRow, GraphSummary, GraphSummaryRow, Graphs,
};
use crate::population::reasons;
use crate::sums::more;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_number, fmt_pct, percent};
use hta_base::wording::counts::plural;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of the GPU time without a name from which captures are asked for, percent.
const UNNAMED_PCT: f64 = 50.0;
/// Share of the peak bandwidth below which weights are read slowly, and (next) the coverage from which that
/// is said, percent.
const SLOW_PCT: f64 = 50.0;
const COVERED_PCT: f64 = 30.0;

pub fn reduce(partials: &[Partial], options: &Options) -> Output {
    let specs = [
        GraphOps::SPEC,
        Graphs::SPEC,
        CapturedGraphs::SPEC,
        GraphSummary::SPEC,
        DecodeBandwidth::SPEC,
        DecodeBandwidthByKind::SPEC,
    ];
    let tables: Vec<_> =
        specs.into_iter().flat_map(|s| partials.iter().filter_map(|p| p.table(s).cloned())).collect();
    let ranks: Vec<GraphSummaryRow> = rows::<GraphSummary>(partials).collect();
    let mut views = Vec::new();
    if ranks.iter().any(|r| r.replay_count > 0) {
        views.push(operators(partials, &ranks, options));
        views.push(graphs(partials, options));
    } else if !ranks.is_empty() {
        views.push(captures(partials, options));
    }
    views.extend(bandwidth(partials));
    if views.is_empty() {
        // Most traces have no graphs, so a report on all analyses does not mention them.
        return Output {
            tables,
            raw: Some(format!("{}\n", reasons(partials).join("\n"))),
            ..Output::default()
        };
    }
    Output { tables, views, ..Output::default() }
}

/// `1 launch`, `5 launches`.
fn launches(n: u64) -> String {
    format!("{} {}", fmt_count(n), if n == 1 { "launch" } else { "launches" })
}

/// What a trace of captures is, in a sentence; `None` if no rank captured without replaying.
fn recorded(ranks: &[GraphSummaryRow]) -> Option<String> {
    let only = || ranks.iter().filter(|r| r.own_graph_count > 0 && r.replay_count == 0);
    let [graphs, calls] =
        [only().map(|r| r.own_graph_count).sum::<u64>(), only().map(|r| r.own_call_count).sum()];
    (graphs > 0).then(|| {
        format!(
            "a capture trace: {} recorded into {}; give it with --graph-capture to the run that replays them",
            launches(calls),
            plural(graphs as usize, "graph")
        )
    })
}

/// Operator, how it was found, and the guess where it was not.
type OperatorKey<'a> = (Option<&'a str>, &'a str, Option<&'a str>);

/// Calls, activities, and their summed duration.
type ReportedSums = (u64, u64, Ns);

fn operators(partials: &[Partial], ranks: &[GraphSummaryRow], options: &Options) -> View {
    let mut sums: BTreeMap<OperatorKey, ReportedSums> = BTreeMap::new();
    for r in rows::<GraphOps>(partials) {
        let GraphOpRow { op, op_source, op_guess, operator_count, activity_count, sum_ns, .. } = r;
        let sum = sums.entry((op, op_source, op_guess)).or_default();
        *sum = (sum.0 + operator_count, sum.1 + activity_count, sum.2 + sum_ns);
    }
    let mut of: Vec<_> = sums.into_iter().collect();
    of.sort_by_key(|(key, s)| (Reverse(s.2), *key));
    let mut named = NamedNodes::default();
    for r in ranks {
        named.add(NamedNodes {
            activities: r.graph_activity_count,
            named: r.named_count,
            graph_ns: r.graph_ns,
            unnamed_ns: r.unnamed_ns,
            gpu_ns: r.gpu_ns,
        });
    }
    let cells = |((op, source, guess), (calls, activities, ns)): &(OperatorKey, ReportedSums)| {
        vec![
            op.unwrap_or("[unnamed]").to_string(),
            if op.is_some() { fmt_count(*calls) } else { "-".to_string() },
            fmt_count(*activities),
            fmt_ns(*ns),
            fmt_pct(percent(*ns, named.gpu_ns)),
            source.to_string(),
            guess.unwrap_or("-").to_string(),
        ]
    };
    let has_guess = of.iter().any(|((_, _, guess), _)| guess.is_some());
    let mut notes: Vec<String> = named.sentence().into_iter().collect();
    notes.extend(recorded(ranks));
    if percent(named.unnamed_ns, named.gpu_ns).is_some_and(|pct| pct > UNNAMED_PCT) {
        notes.push(
            "most of the GPU time has no operator: give the trace of the capture with --graph-capture (hta \
             explain serving says how to record it)"
                .to_string(),
        );
    }
    if has_guess {
        notes.push(
            "guess: the only operator that launches such kernels outside graphs; in no sum".to_string(),
        );
    }
    let reordered: u64 = ranks.iter().map(|r| r.reordered_count).sum();
    if reordered > 0 {
        let count = launches(reordered);
        notes.push(format!(
            "in {count} kernels start in another order than that of the graph, which counts here"
        ));
    }
    notes.extend(more(of.len().saturating_sub(options.top), "row"));
    let mut view = View {
        title: format!("Kernels inside graphs by operator, {}", plural(partials.len(), "rank")),
        columns: vec![
            ("operator", Align::Left),
            ("calls", Align::Right),
            ("activities", Align::Right),
            ("GPU time", Align::Right),
            ("of all", Align::Right),
            ("named by", Align::Left),
            ("guess", Align::Left),
        ],
        rows: of.iter().take(options.top).map(cells).collect(),
        notes,
    };
    if !has_guess {
        leave_out(&mut view, "guess");
    }
    view
}

/// Removes a column that would say nothing.
fn leave_out(view: &mut View, heading: &str) {
    if let Some(at) = view.columns.iter().position(|(name, _)| *name == heading) {
        view.columns.remove(at);
        view.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
}

fn graphs(partials: &[Partial], options: &Options) -> View {
    let mut all: Vec<GraphRow> = rows::<Graphs>(partials).collect();
    all.sort_by_key(|r| (Reverse(r.sum_ns), r.rank, r.graph));
    let cells = |r: &GraphRow| {
        let repeat = r.repeat_length.zip(r.repeat_count).map(|(length, count)| {
            format!("{length} x {count}: {}", r.repeat_median_ns.map_or("-".to_string(), fmt_ns))
        });
        let capture = match (r.capture, r.captured_count, r.reject) {
            (_, _, Some("no capture")) => "no capture".to_string(),
            (name, count, Some(why)) => format!(
                "{why}; closest: {}, {} of {}",
                name.unwrap_or("a capture"),
                fmt_count(r.matched_count),
                fmt_count(count.unwrap_or(0))
            ),
            (name, _, None) => name.or(r.capture_file).unwrap_or("-").to_string(),
        };
        vec![
            r.rank.to_string(),
            r.graph.to_string(),
            fmt_count(r.replay_count),
            fmt_count(r.activity_count),
            if r.missing_count > 0 { fmt_count(r.missing_count) } else { "-".to_string() },
            fmt_ns(r.sum_ns),
            r.op_source.to_string(),
            capture,
            repeat.unwrap_or("-".to_string()),
        ]
    };
    let mut notes: Vec<String> = Vec::new();
    let partial: u64 = all.iter().filter(|r| r.missing_count > 0).map(|r| r.replay_count).sum();
    if partial > 0 {
        let lost: u64 = all.iter().map(|r| r.missing_count * r.replay_count).sum();
        let (of, activities) = (launches(partial), fmt_count(lost));
        notes.push(format!("{of} with fewer activities than the graph has: {activities} are not recorded"));
    }
    if all.iter().any(|r| r.op_source == "by_count") {
        notes.push(
            "by_count: the capture has no names of kernels, so only number and kinds were compared"
                .to_string(),
        );
    }
    if all.iter().any(|r| r.repeat_length.is_some()) {
        notes.push("repeat: nodes of a block x blocks, and the median time of one".to_string());
    }
    notes.extend(more(all.len().saturating_sub(options.top), "graph"));
    let mut view = View {
        title: "Graphs".to_string(),
        columns: vec![
            ("rank", Align::Right),
            ("graph", Align::Right),
            ("launches", Align::Right),
            ("nodes", Align::Right),
            ("missing", Align::Right),
            ("GPU time", Align::Right),
            ("named by", Align::Left),
            ("capture", Align::Left),
            ("repeat", Align::Left),
        ],
        rows: all.iter().take(options.top).map(cells).collect(),
        notes,
    };
    if partials.len() < 2 {
        leave_out(&mut view, "rank");
    }
    if partial == 0 {
        leave_out(&mut view, "missing");
    }
    view
}

/// The captures of ranks that replay nothing.
fn captures(partials: &[Partial], options: &Options) -> View {
    let ranks: Vec<GraphSummaryRow> = rows::<GraphSummary>(partials).collect();
    let own: Vec<_> = rows::<CapturedGraphs>(partials).filter(|r| r.is_own).collect();
    let mut notes: Vec<String> = recorded(&ranks).into_iter().collect();
    notes.extend(more(own.len().saturating_sub(options.top), "capture"));
    View {
        title: "Captured graphs".to_string(),
        columns: vec![
            ("rank", Align::Right),
            ("capture", Align::Left),
            ("batch", Align::Right),
            ("launches", Align::Right),
            ("operators", Align::Right),
        ],
        rows: own
            .iter()
            .take(options.top)
            .map(|r| {
                vec![
                    r.rank.to_string(),
                    r.capture.unwrap_or("-").to_string(),
                    r.padded_batch.map_or("-".to_string(), fmt_count),
                    fmt_count(r.call_count),
                    fmt_count(r.operator_count),
                ]
            })
            .collect(),
        notes,
    }
}

fn bandwidth(partials: &[Partial]) -> Option<View> {
    let all: Vec<DecodeBandwidthByKindRow> = rows::<DecodeBandwidthByKind>(partials).collect();
    if all.is_empty() {
        return None;
    }
    let cells = |r: &DecodeBandwidthByKindRow| {
        vec![
            r.rank.to_string(),
            r.kind.to_string(),
            fmt_count(r.count),
            fmt_count(r.bytes),
            fmt_ns(r.busy_ns),
            r.gb_per_s.map_or("-".to_string(), fmt_number),
            fmt_pct(r.peak_pct),
            fmt_pct(r.coverage_pct),
        ]
    };
    let mut notes =
        vec!["coverage: share of the GPU time of decode iterations whose bytes these are".to_string()];
    if let Some(r) = all.iter().find(|r: &&DecodeBandwidthByKindRow| {
        r.kind == "weights"
            && r.peak_pct.is_some_and(|p| p < SLOW_PCT)
            && r.coverage_pct.is_some_and(|c| c >= COVERED_PCT)
    }) {
        let bound = r.peak_pct.map_or(0, |pct| (r.busy_ns as f64 * (1.0 - pct / 100.0)) as Ns);
        let shapes: Vec<String> = slowest(partials, r.rank);
        notes.push(format!(
            "rank {}: weights are read at {} of the peak bandwidth; at the peak it would take {} less. \
             Slowest: {}",
            r.rank,
            fmt_pct(r.peak_pct),
            fmt_ns(bound),
            shapes.join(", ")
        ));
    }
    let withheld: usize = rows::<DecodeBandwidth>(partials).filter(|r| r.reason.is_some()).count();
    if withheld > 0 {
        notes.push(format!(
            "{} without a rate: more bytes than can be read in the time",
            plural(withheld, "shape")
        ));
    }
    Some(View {
        title: "Memory bandwidth of decode iterations".to_string(),
        columns: vec![
            ("rank", Align::Right),
            ("reads", Align::Left),
            ("calls", Align::Right),
            ("bytes", Align::Right),
            ("GPU time", Align::Right),
            ("GB/s", Align::Right),
            ("of peak", Align::Right),
            ("coverage", Align::Right),
        ],
        rows: all.iter().map(cells).collect(),
        notes,
    })
}

/// The shapes of weights of a rank that cost most time above that at the peak.
fn slowest(partials: &[Partial], rank: u32) -> Vec<String> {
    let of_rank = rows::<DecodeBandwidth>(partials).filter(|r| r.rank == rank && r.kind == "weights");
    let mut shapes: Vec<(Ns, String)> = of_rank
        .filter_map(|r| {
            let pct = r.peak_pct?;
            let lost = (r.busy_ns as f64 * (1.0 - pct / 100.0)) as Ns;
            Some((lost, format!("{} {} ({})", r.op, r.shape, fmt_pct(Some(pct)))))
        })
        .collect();
    shapes.sort_by_key(|(lost, text)| (Reverse(*lost), text.clone()));
    shapes.into_iter().take(3).map(|(_, text)| text).collect()
}
