//! The operators of a job without devices, by their own time.

use hta_analysis::api::{Partial, rows};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, percent};
use hta_trace::category::Class;
use hta_trace::rank_trace::{RankTrace, is_host_communication};
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Largest number of operators of a rank that are kept by name.
const KEPT: usize = 64;

table! {
    /// Own time of operators on the host, of ranks without a device.
    pub(crate) struct HostOperators, HostOperatorRow = "host_operators" by "rank, self_ns descending, name" {
        rank;
        name: Text, "", "operator; empty: all others";
        self_ns: i64, "ns", "sum over its calls and all threads, without the events below";
    }
}

/// The row of each operator with the most time; none where a device has work.
pub(crate) fn of_rank(trace: &RankTrace) -> Batch {
    let mut table = HostOperators::default();
    if !trace.is_cpu_only() {
        return table.finish();
    }
    let mut sums: BTreeMap<StrId, Ns> = BTreeMap::new();
    for (row, _) in (0u32..).zip(&trace.classes).filter(|(_, class)| **class == Class::HostOp) {
        *sums.entry(trace.columns.name(row as usize)).or_default() += trace.stacks.self_ns(row).unwrap_or(0);
    }
    let named = sums.into_iter().map(|(id, ns)| (trace.text(id), ns));
    let mut all: Vec<(&str, Ns)> =
        named.filter(|(name, _)| !is_host_communication(Class::HostOp, name)).collect();
    all.sort_by_key(|(name, ns)| (Reverse(*ns), *name));
    let others = all.split_off(all.len().min(KEPT)).iter().map(|(_, ns)| ns).sum::<Ns>();
    for (name, self_ns) in all.into_iter().chain((others > 0).then_some(("", others))) {
        table.push(HostOperatorRow { rank: trace.rank, name, self_ns });
    }
    table.finish()
}

/// Own time by name, of all ranks.
pub(crate) fn sums(partials: &[Partial]) -> BTreeMap<String, Ns> {
    let mut out: BTreeMap<String, Ns> = BTreeMap::new();
    for row in rows::<HostOperators>(partials) {
        *out.entry(row.name.to_string()).or_default() += row.self_ns;
    }
    out
}

/// Operators of a job without a device that are told.
const TOLD: usize = 5;

/// Operators of a CPU job with the most time of their own, as shares of all of that, percent.
pub(crate) fn largest(operators: &BTreeMap<String, Ns>) -> Vec<(String, f64)> {
    let total: Ns = operators.values().sum();
    let mut all: Vec<(&String, &Ns)> = operators.iter().filter(|(name, _)| !name.is_empty()).collect();
    all.sort_by_key(|(name, ns)| (Reverse(**ns), *name));
    let share = |ns: Ns| percent(ns, total).unwrap_or(0.0);
    all.into_iter().take(TOLD).map(|(name, ns)| (name.clone(), share(*ns))).collect()
}
