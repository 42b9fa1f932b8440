//! What is printed of kernels inside graphs: operators, graphs, captures, and the bandwidth of decode
//! iterations.

use crate::api::{Output, Partial, ViewNote, rows};
use crate::graph_ops::bandwidth::{DecodeBandwidth, DecodeBandwidthByKind, DecodeBandwidthByKindRow};
use crate::graph_ops::tables::{
    CapturedGraphs, GraphOpOverRanksRow, GraphOpRow, GraphOps, GraphOpsOverRanks, GraphSummary,
    GraphSummaryRow, Graphs,
};
use hta_base::table::schema::Batch;
use hta_base::table::view::{Keep, Note, RowTest, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_facts::graphs::named::NamedNodes;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of the GPU time without a name from which captures are asked for, percent.
const UNNAMED_PCT: f64 = 50.0;
/// Share of the peak bandwidth below which weights are read slowly, and (next) the coverage from which that
/// is said, percent.
const SLOW_PCT: f64 = 50.0;
const COVERED_PCT: f64 = 30.0;

const OPERATORS: &str = "Kernels inside graphs by operator";
const BANDWIDTH: &str = "Memory bandwidth of decode iterations";

pub(crate) const VIEWS: [ViewSpec; 4] = [
    ViewSpec {
        title: OPERATORS,
        columns: &["op", "operator_count", "activity_count", "sum_ns", "gpu_pct", "op_source", "op_guess?"],
        notes: &[Note::Made(guesses)],
        ..ViewSpec::of(GraphOpsOverRanks::SPEC)
    },
    ViewSpec {
        title: "Graphs",
        columns: &[
            "rank?",
            "graph",
            "replay_count",
            "activity_count",
            "missing_count?",
            "sum_ns",
            "op_source",
            "capture?",
            "capture_file?",
            "reject?",
            "matched_count",
            "repeat_length?",
        ],
        gives_way: &[("capture_file", &["capture"])],
        joined: &[
            ("matched_count", " of ", "captured_count"),
            ("repeat_length", " x ", "repeat_count"),
            ("repeat_length", ": ", "repeat_median_ns"),
        ],
        by: "sum_ns, rank ascending, graph ascending",
        notes: &[
            Note::Made(missing),
            Note::Made(by_count),
            Note::If("repeat_length", "repeat: nodes of a block x blocks, and the median time of one"),
        ],
        ..ViewSpec::of(Graphs::SPEC)
    },
    ViewSpec {
        title: "Captured graphs",
        also: &[GraphSummary::SPEC],
        columns: &["rank?", "capture", "padded_batch", "call_count", "operator_count"],
        keep: &[Keep::Positive("is_own"), Keep::Made(&["rank"], if_nothing_replays)],
        ..ViewSpec::of(CapturedGraphs::SPEC)
    },
    ViewSpec {
        title: BANDWIDTH,
        columns: &["rank?", "kind", "count", "bytes", "busy_ns", "gb_per_s", "peak_pct", "coverage_pct"],
        is_whole: true,
        notes: &[Note::Text("coverage: share of the GPU time of decode iterations whose bytes these are")],
        ..ViewSpec::of(DecodeBandwidthByKind::SPEC)
    },
];

/// Captures are told of ranks that replay nothing.
fn if_nothing_replays(scope: &ViewScope) -> Result<RowTest, TableError> {
    let mut is_replayed = false;
    scope.each::<GraphSummary>(|r| is_replayed |= r.replay_count > 0)?;
    Ok(Box::new(move |_, _| !is_replayed))
}

fn guesses(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut is_guessed = false;
    scope.each::<GraphOpsOverRanks>(|r| is_guessed |= r.op_guess.is_some())?;
    let note = "guess: the only operator that launches such kernels outside graphs; in no sum";
    Ok(is_guessed.then(|| note.to_string()))
}

fn missing(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let (mut partial, mut lost) = (0, 0);
    scope.each::<Graphs>(|r| {
        partial += if r.missing_count > 0 { r.replay_count } else { 0 };
        lost += r.missing_count * r.replay_count;
    })?;
    let (of, lost) = (launches(partial), fmt_count(lost));
    Ok((partial > 0)
        .then(|| format!("{of} with fewer activities than the graph has: {lost} are not recorded")))
}

fn by_count(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut is_counted = false;
    scope.each::<Graphs>(|r| is_counted |= r.op_source == "by_count")?;
    let note = "by_count: the capture has no names of kernels, so only number and kinds were compared";
    Ok(is_counted.then(|| note.to_string()))
}

pub fn reduce(partials: &[Partial]) -> Output {
    let ranks: Vec<GraphSummaryRow> = rows::<GraphSummary>(partials).collect();
    let mut named = NamedNodes::default();
    for r in &ranks {
        named.add(NamedNodes {
            activities: r.graph_activity_count,
            named: r.named_count,
            graph_ns: r.graph_ns,
            unnamed_ns: r.unnamed_ns,
            gpu_ns: r.gpu_ns,
        });
    }
    let mut notes: Vec<String> = named.sentence().into_iter().chain(recorded(&ranks)).collect();
    if percent(named.unnamed_ns, named.gpu_ns).is_some_and(|pct| pct > UNNAMED_PCT) {
        notes.push(
            "most of the GPU time has no operator: give the trace of the capture with --graph-capture (hta \
             explain serving says how to record it)"
                .to_string(),
        );
    }
    let reordered: u64 = ranks.iter().map(|r| r.reordered_count).sum();
    if reordered > 0 {
        let count = launches(reordered);
        notes.push(format!(
            "in {count} kernels start in another order than that of the graph, which counts here"
        ));
    }
    let note = |view, text| ViewNote { view, text };
    let of_first = notes.into_iter().map(|text| note("", text));
    Output {
        tables: vec![over_ranks(partials, named.gpu_ns)],
        notes: of_first.chain(bandwidth(partials).into_iter().map(|text| note(BANDWIDTH, text))).collect(),
        ..Output::default()
    }
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

/// Operators over all ranks, whose activities took `gpu_ns` together.
fn over_ranks(partials: &[Partial], gpu_ns: Ns) -> Batch {
    /// Name, where it comes from, and a guess.
    type OpKey<'a> = (Option<&'a str>, &'a str, Option<&'a str>);
    let mut sums: BTreeMap<OpKey, (u64, u64, Ns)> = BTreeMap::new();
    for r in rows::<GraphOps>(partials) {
        let GraphOpRow { op, op_source, op_guess, operator_count, activity_count, sum_ns, .. } = r;
        let sum = sums.entry((op, op_source, op_guess)).or_default();
        *sum = (sum.0 + operator_count, sum.1 + activity_count, sum.2 + sum_ns);
    }
    let mut of: Vec<_> = sums.into_iter().collect();
    of.sort_by_key(|(key, s)| (Reverse(s.2), *key));
    let mut table = GraphOpsOverRanks::default();
    for ((op, op_source, op_guess), (calls, activity_count, sum_ns)) in of {
        table.push(GraphOpOverRanksRow {
            op: op.unwrap_or("[unnamed]"),
            op_source,
            op_guess,
            operator_count: op.map(|_| calls),
            activity_count,
            sum_ns,
            gpu_pct: percent(sum_ns, gpu_ns),
        });
    }
    table.finish()
}

/// What is said of the bandwidth of decode iterations.
fn bandwidth(partials: &[Partial]) -> Vec<String> {
    let mut notes = Vec::new();
    let is_slow = |r: &DecodeBandwidthByKindRow| {
        r.kind == "weights"
            && r.peak_pct.is_some_and(|p| p < SLOW_PCT)
            && r.coverage_pct.is_some_and(|c| c >= COVERED_PCT)
    };
    if let Some(r) = rows::<DecodeBandwidthByKind>(partials).find(is_slow) {
        let bound = r.peak_pct.map_or(0, |pct| (r.busy_ns as f64 * (1.0 - pct / 100.0)) as Ns);
        notes.push(format!(
            "rank {}: weights are read at {} of the peak bandwidth; at the peak it would take {} less. \
             Slowest: {}",
            r.rank,
            fmt_pct(r.peak_pct),
            fmt_ns(bound),
            slowest(partials, r.rank).join(", ")
        ));
    }
    let withheld: usize = rows::<DecodeBandwidth>(partials).filter(|r| r.reason.is_some()).count();
    if withheld > 0 {
        notes.push(format!(
            "{} without a rate: more bytes than can be read in the time",
            plural(withheld, "shape")
        ));
    }
    notes
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
