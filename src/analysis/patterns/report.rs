//! What is printed of `patterns`, and the observation on what to fuse or capture as a graph.

use crate::api::{Certainty, Observation, Partial};
use crate::patterns::operators::TopSequences;
use crate::patterns::tables::{GRAPH_DONE_PCT, TopRepeatRow, TopRepeats};
use hta_base::table::view::{Keep, Note, RowTest, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, fmt_ns, fmt_pct, ratio};
use hta_base::wording::counts::{capital, counted, plural};
use std::cmp::Reverse;

/// Smallest share of the step that gaps must have for an observation.
const WORTH_SHARE: f64 = 0.02;

pub(crate) const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Kernel sequences that repeat on a stream",
        also: &[TopSequences::SPEC],
        columns: &[
            "stream",
            "length",
            "count",
            "gpu_ns",
            "covered_pct",
            "idle_ns",
            "launch_cpu_ns",
            "graph_pct?",
            "names",
        ],
        keep: &[Keep::Positive("is_new"), Keep::Made(&["rank"], is_largest)],
        notes: &[
            Note::Text(
                "idle: of the device, inside all occurrences; launch: host time in one occurrence's launch calls",
            ),
            Note::Made(others),
            Note::Sum("hidden_count", "more sequence", "in the table repeats"),
        ],
        ..ViewSpec::of(TopRepeats::SPEC)
    },
    ViewSpec {
        title: "Kernel sequences under operators",
        also: &[TopRepeats::SPEC],
        columns: &["operator", "length", "count", "gpu_dur_sum_ns", "op_dur_sum_ns", "names"],
        keep: &[Keep::Made(&["rank"], is_largest)],
        most: 8,
        notes: &[
            Note::Made(others),
            Note::Sum("hidden_count", "more sequence", "in the table operator_sequences"),
        ],
        ..ViewSpec::of(TopSequences::SPEC)
    },
];

/// The rank with the largest sequence.
fn largest(scope: &ViewScope) -> Result<Option<u32>, TableError> {
    let mut most: Option<(Ns, Reverse<u32>)> = None;
    scope.each::<TopRepeats>(|r| most = most.max(Some((r.gpu_ns, Reverse(r.rank)))))?;
    scope.each::<TopSequences>(|r| most = most.max(Some((r.gpu_dur_sum_ns, Reverse(r.rank)))))?;
    Ok(most.map(|(_, rank)| rank.0))
}

fn is_largest(scope: &ViewScope) -> Result<RowTest, TableError> {
    let rank = largest(scope)?.map(i64::from);
    Ok(Box::new(move |columns, row| columns.iter().all(|c| c.int(row) == rank)))
}

fn others(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let rank = largest(scope)?.filter(|_| !scope.is_one_rank);
    Ok(rank.map(|rank| format!("rank {rank}, which has the largest; the others are in the table")))
}

/// The observation: the pattern, over all ranks, during whose occurrences a device idles most.
pub(crate) fn observations(partials: &[Partial]) -> Vec<Observation> {
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
