//! The call tree: every host event with its parent, its self time and the GPU work launched below it.

use crate::api::RowEmitter;
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_facts::calls::CallForest;
use hta_facts::calls::forest::{Forest, WorkBelow};
use hta_facts::modules::{around, callers_first};
use hta_trace::category::Class;
use hta_trace::step::StepRule;

table! {
    /// Host events as three trees: operators with API calls, annotations, Python frames.
    pub struct CallTree, CallTreeRow = "call_tree" by "rank, event_id" {
        rank;
        event_id: u32, "", "event, as in `events`";
        kind: Text, "", "operator or runtime_call (one tree), annotation, python";
        name: Text, "", "name";
        parent: Option<u32>, "", "event above it; null for a root";
        depth: u32, "", "events above it";
        step: Option<u32>, "", "index of the step in which it starts";
        ts_ns: i64, "ns", "start";
        dur_ns: i64, "ns", "length";
        self_ns: i64, "ns", "length without the events below, on the same thread";
        gpu_ns: i64, "ns", "sum of the GPU work launched in it and below";
        gpu_busy_ns: i64, "ns", "union of the same";
        activity_count: u32, "", "kernels, copies and sets of the same";
        thread_launches: bool, "",
            "its thread launches GPU work; on a rank without any, its thread runs operators";
    }
}

/// The rows, by event.
pub(crate) fn rows(calls: &CallForest, give: &mut RowEmitter) {
    let trace = calls.trace;
    let annotations: Vec<u32> =
        (0..trace.classes.len() as u32).filter(|&r| trace.classes[r as usize] == Class::Annotation).collect();
    let annotations = tree(calls, &annotations, Class::Annotation);
    let frames = tree(calls, &callers_first(trace), Class::Python);
    let trees = [(&calls.forest, &calls.below), (&annotations.0, &annotations.1), (&frames.0, &frames.1)];
    let launching = launching_threads(calls);
    let mut table = CallTree::default();
    for row in 0..trace.classes.len() as u32 {
        let r = row as usize;
        let (Some(depth), Some(self_ns)) = (trace.stacks.depth(r as u32), trace.stacks.self_ns(r as u32))
        else {
            continue;
        };
        let place = trees.iter().find_map(|(forest, below)| Some(below.at(forest.position(row)?)));
        let Some(gpu) = place else { continue };
        let ts_ns = trace.columns.ts[r];
        table.push(CallTreeRow {
            rank: trace.rank,
            event_id: row,
            kind: trace.classes[r].name(),
            name: trace.name(row),
            parent: trace.stacks.parent(r as u32),
            depth,
            step: if trace.steps.rule == StepRule::Capture { Some(0) } else { trace.steps.at(ts_ns) },
            ts_ns,
            dur_ns: trace.columns.dur[r],
            self_ns,
            gpu_ns: gpu.sum_ns,
            gpu_busy_ns: gpu.busy_ns,
            activity_count: gpu.count,
            thread_launches: launching.get(trace.columns.lane[r] as usize) == Some(&true),
        });
        table.give_piece(give);
    }
    give(table.finish());
}

/// By lane: whether the thread launches GPU work; on a rank without launches, whether it runs operators.
fn launching_threads(calls: &CallForest) -> Vec<bool> {
    let trace = calls.trace;
    let mut launching = vec![false; trace.columns.lanes.len()];
    let mut mark = |row: u32| {
        let lane = trace.columns.lane.get(row as usize).and_then(|lane| launching.get_mut(*lane as usize));
        lane.into_iter().for_each(|launches| *launches = true);
    };
    if trace.launches().is_empty() {
        let is_op = |row: &u32| trace.classes.get(*row as usize) == Some(&Class::HostOp);
        (0..trace.classes.len() as u32).filter(is_op).for_each(&mut mark);
    } else {
        trace.launches().iter().for_each(|(row, _)| mark(row));
    }
    launching
}

/// One of the other trees; a launch belongs to the event that is open on its thread when it starts.
fn tree(calls: &CallForest, rows: &[u32], class: Class) -> (Forest, WorkBelow) {
    let trace = calls.trace;
    let forest = Forest::new(trace.classes.len(), rows, |r| trace.stacks.parent(r));
    let launches: Vec<u32> = trace.launches().iter().map(|l| l.0).collect();
    let around = if rows.is_empty() { Vec::new() } else { around(trace, &launches, class) };
    let launched = trace
        .launches()
        .iter()
        .zip(around)
        .filter_map(|((_, of), event)| Some((of, forest.position(event?)?)));
    let launched = launched.flat_map(|(of, p)| of.iter().map(move |&i| (p, i))).collect();
    let below = WorkBelow::new(&forest, launched, &trace.activities, &calls.alone);
    (forest, below)
}
