//! Parts of CUDA graphs that the program named. They stand among the operators, but are none.

use crate::api::{Partial, rows};
use crate::ops::over_ranks::OperatorOverRanksRow;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_facts::graphs::nodes::GraphNodes;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeSet;

table! {
    /// Names that the program gave to parts of CUDA graphs.
    pub(crate) struct GraphParts, GraphPartRow = "graph_parts" by "rank, name" {
        rank;
        name: Text, "", "as in operators";
    }
}

pub(crate) fn table(trace: &RankTrace) -> Batch {
    let names: BTreeSet<&str> = GraphNodes::of(trace).annotations().map(|name| trace.text(name)).collect();
    let mut table = GraphParts::default();
    for name in names {
        table.push(GraphPartRow { rank: trace.rank, name });
    }
    table.finish()
}

/// The named parts of graphs over all ranks.
pub(crate) struct NamedParts(BTreeSet<String>);

impl NamedParts {
    pub(crate) fn of(partials: &[Partial]) -> Self {
        Self(rows::<GraphParts>(partials).map(|r| r.name.to_string()).collect())
    }

    /// Whether a row is about such a part: an operator of the same name would have time on the host.
    pub(crate) fn has(&self, row: &OperatorOverRanksRow) -> bool {
        row.host_ns == 0 && self.0.contains(row.name)
    }
}
