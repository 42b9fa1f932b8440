//! What is printed of `patterns`.

use crate::patterns::operators::TopSequences;
use crate::patterns::tables::TopRepeats;
use hta_base::table::view::{Keep, Note, RowTest, TableError, ViewScope, ViewSpec};
use hta_base::units::Ns;
use std::cmp::Reverse;

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
