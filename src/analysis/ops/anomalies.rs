//! Calls that make host and GPU wait for each other, which can often be avoided.
//!
//! Nested anomalies count once: a synchronisation inside `aten::item` belongs to the item.

use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::ViewSpec;
use hta_base::units::Ns;
use hta_facts::calls::CallForest;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Calls that make host and GPU wait for each other, over the steps (without marks, over the capture).
    pub struct Anomalies, AnomalyRow = "stack_anomalies" by "rank, host_ns descending, kind, name" {
        rank;
        kind: Text, "", "item, nonzero, pageable_copy, synchronize or allocation";
        name: Text, "", "operator or API call";
        count: u64, "", "calls";
        step_count: u64, "", "steps with such calls";
        host_ns: i64, "ns", "time on the host; for a copy, the length of its launch call";
        gpu_ns: i64, "ns", "sum of the GPU work launched in them";
        first_event_id: u32, "", "first such call, as in `events`";
        first_ts_ns: i64, "ns", "its start";
        first_stack: Text, "", "operators around the first call, joined by ;";
    }
}

table! {
    /// Calls that make host and GPU wait for each other, over all ranks. What one rank has is in
    /// `stack_anomalies`.
    pub struct AnomaliesOverRanks, AnomalyOverRanksRow = "stack_anomalies_over_ranks"
        by "host_ns descending, gpu_ns descending, count descending, step_count descending, kind, name" {
        kind: Text, "", "item, nonzero, pageable_copy, synchronize or allocation";
        name: Text, "", "operator or API call", "call";
        count: u64, "", "calls, on all ranks" => sum(count);
        step_count: u64, "", "steps with such calls, summed over ranks" => sum(step_count);
        host_ns: i64, "ns", "time on the host; for a copy, the length of its launch call", "host time"
            => sum(host_ns);
        gpu_ns: i64, "ns", "sum of the GPU work launched in them" => sum(gpu_ns);
        first_stack: Text, "",
            "operators around the first call of a rank, joined by ; (where ranks differ, the first in the \
             order of the alphabet)" => min(first_stack);
        rank_count: u32, "", "ranks with such calls" => ranks;
        max_rank: u32, "", "rank with the largest host_ns; of several the lowest" => rank_of_max(host_ns);
        max_rank_ns: i64, "ns", "host_ns on that rank" => max_of_rank(host_ns);
    }
}

pub(crate) const OVER_RANKS: Rollup = Rollup::of(Anomalies::SPEC, AnomaliesOverRanks::SPEC);

pub(crate) const VIEW: ViewSpec = ViewSpec {
    title: "Calls that make host and GPU wait for each other",
    columns: &["name", "kind", "count", "step_count", "host_ns"],
    means: &[("host_ns", "count", "mean")],
    ..ViewSpec::of(AnomaliesOverRanks::SPEC)
};

/// Kind of anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Anomaly {
    /// A value is read from the GPU.
    Item,
    /// The size of a result is read from the GPU.
    Nonzero,
    /// A copy to the GPU from memory that is not pinned.
    PageableCopy,
    /// The host waits for a stream or the device.
    Synchronize,
    /// Memory is allocated or freed after the first step.
    Allocation,
}

impl Anomaly {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Anomaly::Item => "item",
            Anomaly::Nonzero => "nonzero",
            Anomaly::PageableCopy => "pageable_copy",
            Anomaly::Synchronize => "synchronize",
            Anomaly::Allocation => "allocation",
        }
    }

    fn of_op(name: &str) -> Option<Anomaly> {
        match name {
            "aten::item" | "aten::_local_scalar_dense" => Some(Anomaly::Item),
            "aten::nonzero" | "aten::unique" | "aten::_unique" | "aten::_unique2" => Some(Anomaly::Nonzero),
            _ => None,
        }
    }

    fn of_call(name: &str) -> Option<Anomaly> {
        match name {
            "cudaStreamSynchronize"
            | "cudaDeviceSynchronize"
            | "hipStreamSynchronize"
            | "hipDeviceSynchronize" => Some(Anomaly::Synchronize),
            "cudaMalloc" | "cudaFree" | "hipMalloc" | "hipFree" => Some(Anomaly::Allocation),
            _ => None,
        }
    }
}

/// Number of operators listed around the first instance.
const STACK: usize = 32;

struct AnomalySums {
    count: u64,
    steps: BTreeSet<u32>,
    host: Ns,
    gpu: Ns,
    first: u32,
}

pub(crate) fn table(calls: &CallForest) -> Batch {
    let trace = calls.trace;
    let texts = &trace.columns.strings;
    let (ops, api) = (texts.each(Anomaly::of_op), texts.each(Anomaly::of_call));
    let mut found: BTreeMap<(Anomaly, &str), AnomalySums> = BTreeMap::new();
    let mut until = 0;
    for p in 0..calls.forest.call_count() as u32 {
        let at = p as usize;
        let name = trace.columns.name(calls.row(p) as usize);
        let kind = if calls.is_op(p) { &ops } else { &api }.get(name).copied().flatten();
        let kind = match kind {
            Some(k @ (Anomaly::Item | Anomaly::Nonzero)) if calls.below.at(p).count > 0 => Some(k),
            Some(Anomaly::Item | Anomaly::Nonzero) => None,
            None if copies_pageable_memory(calls, p) => Some(Anomaly::PageableCopy),
            other => other,
        };
        let Some(kind) = kind.filter(|_| p >= until) else { continue };
        let Some(step) = step(trace, kind, calls.start(p)) else { continue };
        until = calls.forest.end[at];
        let name = trace.text(match calls.op(p).filter(|_| kind == Anomaly::PageableCopy) {
            Some(op) => trace.columns.name(calls.row(op) as usize),
            None => name,
        });
        let new = || AnomalySums { count: 0, steps: BTreeSet::new(), host: 0, gpu: 0, first: p };
        let f = found.entry((kind, name)).or_insert_with(new);
        f.count += 1;
        f.steps.insert(step);
        f.host += calls.host_ns[at];
        f.gpu += calls.below.at(p).sum_ns;
        let place = |p: u32| (calls.start(p), calls.row(p));
        if place(p) < place(f.first) {
            f.first = p;
        }
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|(key, f)| (std::cmp::Reverse(f.host), *key));
    let mut table = Anomalies::default();
    for ((kind, name), f) in rows {
        table.push(AnomalyRow {
            rank: trace.rank,
            kind: kind.name(),
            name,
            count: f.count,
            step_count: f.steps.len() as u64,
            host_ns: f.host,
            gpu_ns: f.gpu,
            first_event_id: calls.row(f.first),
            first_ts_ns: calls.start(f.first),
            first_stack: &stack(calls, f.first),
        });
    }
    table.finish()
}

/// The step in which an instance counts. Allocations in the first step are normal; without marked steps the
/// first step is unknown.
fn step(trace: &RankTrace, kind: Anomaly, start: Ns) -> Option<u32> {
    let marked = trace.steps.rule != StepRule::Capture;
    match (marked, kind) {
        (true, Anomaly::Allocation) => trace.steps.at(start).filter(|s| *s > 0),
        (true, _) => trace.steps.at(start),
        (false, Anomaly::Allocation) => None,
        (false, _) => Some(0),
    }
}

/// Whether a call inside an operator launches a copy to the device from pageable memory.
fn copies_pageable_memory(calls: &CallForest, p: u32) -> bool {
    let trace = calls.trace;
    if calls.is_op(p) || calls.op(p).is_none() || calls.below.at(p).count == 0 {
        return false;
    }
    trace.launches().of(calls.row(p)).iter().any(|&i| {
        let a = &trace.activities[i as usize];
        let name = trace.text(a.name);
        a.class == Class::Memcpy && name.contains("HtoD") && name.contains("Pageable")
    })
}

/// Names from the outermost inwards; of a deeper stack only the innermost.
fn stack(calls: &CallForest, position: u32) -> String {
    let mut names = Vec::new();
    let mut at = Some(position);
    while let Some(p) = at.filter(|_| names.len() < STACK) {
        names.push(calls.trace.name(calls.row(p)));
        at = calls.forest.parent(p);
    }
    names.reverse();
    names.join(";")
}
