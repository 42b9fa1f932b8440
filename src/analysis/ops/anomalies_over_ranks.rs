//! Calls that make host and GPU wait for each other, over all ranks.

use crate::api::{Partial, rows};
use crate::ops::anomalies::Anomalies;
use crate::over_ranks::OverRanks;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};

table! {
    /// Calls that make host and GPU wait for each other, over all ranks. What one rank has is in
    /// `stack_anomalies`.
    pub struct AnomaliesOverRanks, AnomalyOverRanksRow = "stack_anomalies_over_ranks"
        by "host_ns descending, gpu_ns descending, count descending, step_count descending, kind, name" {
        kind: Text, "", "item, nonzero, pageable_copy, synchronize or allocation";
        name: Text, "", "operator or API call";
        count: u64, "", "calls, on all ranks";
        step_count: u64, "", "steps with such calls, summed over ranks";
        host_ns: i64, "ns", "time on the host; for a copy, the length of its launch call";
        gpu_ns: i64, "ns", "sum of the GPU work launched in them";
        first_stack: Text, "",
            "operators around the first call of a rank, joined by ; (where ranks differ, the first in the \
             order of the alphabet)";
        rank_count: u32, "", "ranks with such calls";
        max_rank: u32, "", "rank with the largest host_ns; of several the lowest";
        max_rank_ns: i64, "ns", "host_ns on that rank";
    }
}

pub(crate) fn table(partials: &[Partial]) -> Batch {
    let mut all: OverRanks<(&str, &str), 4, Option<&str>> = OverRanks::new();
    for r in rows::<Anomalies>(partials) {
        let sums = [r.host_ns, r.gpu_ns, r.count as i64, r.step_count as i64];
        let stack = all.add("", (r.kind, r.name), r.rank, sums);
        *stack = Some(stack.map_or(r.first_stack, |first| first.min(r.first_stack)));
    }
    let mut table = AnomaliesOverRanks::default();
    for (_, (kind, name), s) in all.rows() {
        let [host_ns, gpu_ns, count, step_count] = s.sums;
        table.push(AnomalyOverRanksRow {
            kind,
            name,
            count: count as u64,
            step_count: step_count as u64,
            host_ns,
            gpu_ns,
            first_stack: s.more.unwrap_or_default(),
            rank_count: s.rank_count,
            max_rank: s.max.1,
            max_rank_ns: s.max.0,
        });
    }
    table.finish()
}
