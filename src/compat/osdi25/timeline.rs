//! Reads the timeline format of the published what-if analysis into operations.
//!
//! A timeline is one Chrome trace for the whole job: the process is the data-parallel rank, the name of a
//! thread is like `PP rank 0, TP rank 0, compute`, an event's name is its type, and its argument `step` is
//! its step. Communication is already cut to its transfer. The operations are stored as a table of the rank's
//! partial.

use crate::osdi25::graph::{Op, OpKind, Worker};
use hashbrown::HashMap;
use hta_analysis::api::Partial;
use hta_base::table;
use hta_base::table::checked::InvalidCell;
use hta_base::table::schema::{Batch, Text};
use hta_trace::args::Arg;
use hta_trace::rank_trace::{RankTrace, StepFilter};
use std::collections::BTreeSet;

table! {
    /// One row per operation of the timeline.
    pub(super) struct PublishedOperations, OperationRow = "what_if_operations" by "position" {
        dp_rank: u32, "", "data-parallel rank";
        pp_rank: u32, "", "pipeline rank";
        tp_rank: u32, "", "tensor-parallel rank";
        kind: Text, "", "type of the operation";
        step: i64, "", "step";
        ts_ns: i64, "ns", "start";
        dur_ns: i64, "ns", "length";
    }
}

/// All events that are operations of a known kind with a step and a worker.
pub(super) fn operations(trace: &RankTrace) -> Vec<Op> {
    let c = &trace.columns;
    let kinds = c.strings.each(OpKind::parse);
    let mut places: HashMap<u32, (u32, u32)> = HashMap::new();
    for name in &c.lane_names {
        if let Some(place) = place(c.strings.get(name.text)) {
            places.insert(name.lane, place);
        }
    }
    let steps = c.args.column(Arg::TimelineStep);
    let mut steps = steps.cursor();
    (0..c.len())
        .filter_map(|row| {
            let step = steps.get(row as u32);
            let kind = kinds.get(c.name(row)).copied().flatten()?;
            let (pp, tp) = places.get(&c.lane[row]).copied()?;
            let dp = u32::try_from(c.lanes.get(c.lane[row] as usize)?.pid_num?).ok()?;
            Some(Op {
                worker: Worker { dp, pp, tp },
                kind,
                step: step? as i64,
                ts: c.ts[row],
                dur: c.dur[row],
            })
        })
        .collect()
}

/// Index and label of the steps of some operations.
pub(super) fn steps(ops: &[Op]) -> Vec<(u32, Option<i64>)> {
    let labels: BTreeSet<i64> = ops.iter().map(|op| op.step).collect();
    labels.into_iter().zip(0..).map(|(label, index)| (index, Some(label))).collect()
}

/// The operations in the chosen steps, as a table.
pub(super) fn table(ops: &[Op], filter: Option<&StepFilter>) -> Batch {
    let keeps = |(index, label): &(u32, Option<i64>)| filter.is_none_or(|f| f.keeps(*index, *label));
    let chosen: BTreeSet<Option<i64>> = steps(ops).into_iter().filter(keeps).map(|s| s.1).collect();
    let mut table = PublishedOperations::default();
    for op in ops.iter().filter(|op| chosen.contains(&Some(op.step))) {
        let Op { worker: Worker { dp, pp, tp }, kind, step, ts, dur } = *op;
        let (dp_rank, pp_rank, tp_rank, kind) = (dp, pp, tp, kind.name());
        table.push(OperationRow { dp_rank, pp_rank, tp_rank, kind, step, ts_ns: ts, dur_ns: dur });
    }
    table.finish()
}

/// Reads the operations back from a partial.
///
/// # Errors
/// When the table was not made by [`table`].
pub(super) fn read(partial: &Partial) -> Result<Vec<Op>, InvalidCell> {
    let op = |(i, r): (usize, OperationRow)| {
        let kind = OpKind::parse(r.kind)
            .ok_or_else(|| InvalidCell::unknown::<PublishedOperations>(i, "kind", r.kind))?;
        let worker = Worker { dp: r.dp_rank, pp: r.pp_rank, tp: r.tp_rank };
        Ok(Op { worker, kind, step: r.step, ts: r.ts_ns, dur: r.dur_ns })
    };
    partial.rows::<PublishedOperations>().enumerate().map(op).collect()
}

/// Pipeline and tensor-parallel rank from a thread name like `PP rank 0, TP rank 1, compute`.
fn place(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.split(", ");
    let pp = parts.next()?.strip_prefix("PP rank ")?.trim().parse().ok()?;
    let tp = parts.next()?.strip_prefix("TP rank ")?.trim().parse().ok()?;
    Some((pp, tp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_by_its_place() {
        assert_eq!(place("PP rank 3, TP rank 0, pp-comm"), Some((3, 0)));
        assert_eq!(place("thread 17 (python)"), None);
    }
}
