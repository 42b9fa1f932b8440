//! The timeline format of the published what-if analysis, read into operations.
//!
//! One Chrome trace for the whole job: the process is the data-parallel rank, the thread's name says
//! `PP rank 0, TP rank 0, compute`, an event's name is its type and its argument `step` its step. Communication
//! is cut to its transfer already.

use crate::analysis::what_if::published::{Kind, Op, Worker};
use crate::trace::args::Arg;
use crate::trace::rank_trace::RankTrace;
use std::collections::HashMap;

/// All operations with a step and a worker.
pub fn operations(trace: &RankTrace) -> Vec<Op> {
    let c = &trace.columns;
    let kinds: Vec<Option<Kind>> = c.strings.iter().map(|(_, t)| Kind::parse(t)).collect();
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
            let kind = kinds.get(c.name[row].0 as usize).copied().flatten()?;
            let (pp, tp) = places.get(&c.lane[row]).copied()?;
            let dp = u32::try_from(c.lanes.get(c.lane[row] as usize)?.pid_num?).ok()?;
            Some(Op { worker: Worker { dp, pp, tp }, kind, step: step? as i64, ts: c.ts[row], dur: c.dur.at(row) })
        })
        .collect()
}

/// `PP rank 0, TP rank 1, compute`: pipeline and tensor-parallel rank.
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
