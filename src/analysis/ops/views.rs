//! What is printed of operators and modules, and which operators have most GPU time.

use crate::ops::graph_parts::NamedParts;
use crate::ops::over_ranks::{ModulesOverRanks, OperatorsOverRanks};
use crate::ops::{CallStacks, anomalies, mfu};
use hta_base::table::schema::{Batch, Table};
use hta_base::table::view::{Keep, Note, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, fmt_count, percent};
use hta_base::wording::counts::counted;
use hta_facts::graphs::named::NamedNodes;
use hta_trace::category::Class;
use hta_trace::device::is_host_communication;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What tells rows of one operator apart, with `--by`.
const KEYS: &[&str] = &[
    "input_dims",
    "input_types",
    "input_strides",
    "concrete_inputs",
    "module",
    "direction",
    "thread",
    "stack",
];

pub(crate) const VIEWS: [ViewSpec; 4] = [
    ViewSpec {
        title: "Operators by own time",
        also: &[CallStacks::SPEC],
        columns: &[
            "name",
            "count",
            "gpu_self_ns?",
            "tflops_per_s?",
            "roofline_pct?",
            "gpu_ns?",
            "host_self_ns",
            "host_ns",
            "input_dims?",
            "input_types?",
            "input_strides?",
            "concrete_inputs?",
            "module?",
            "direction?",
            "thread?",
            "stack?",
        ],
        gives_way: &[
            ("tflops_per_s", KEYS),
            ("roofline_pct", KEYS),
            ("gpu_ns", &["tflops_per_s"]),
            ("host_ns", &["tflops_per_s"]),
        ],
        keep: &[Keep::Scope("capture")],
        shares: &[("gpu_self_ns", "of GPU time")],
        notes: &[
            Note::Made(named),
            Note::Made(more_than_attainable),
            Note::Made(without_shapes),
            Note::Made(unmatched),
        ],
        ..ViewSpec::of(OperatorsOverRanks::SPEC)
    },
    mfu::VIEW,
    ViewSpec {
        title: "Modules",
        also: &[CallStacks::SPEC],
        columns: &["path", "count", "gpu_ns?", "bwd_gpu_ns?", "host_self_ns", "host_ns"],
        gives_way: &[("host_self_ns", &["gpu_ns"])],
        notes: &[Note::Made(named)],
        ..ViewSpec::of(ModulesOverRanks::SPEC)
    },
    anomalies::VIEW,
];

/// How much of the GPU time in graphs has a name; `None` without graphs.
fn named(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut all = NamedNodes::default();
    scope.each::<CallStacks>(|r| {
        all.add(NamedNodes {
            activities: r.graph_activity_count,
            named: r.graph_named_count,
            graph_ns: r.graph_ns,
            unnamed_ns: r.graph_unnamed_ns,
            gpu_ns: r.gpu_ns,
        });
    })?;
    Ok(all.sentence())
}

fn without_shapes(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let (mut has_gpu, mut has_shapes) = (false, false);
    scope.each::<CallStacks>(|r| {
        has_gpu |= r.gpu_ns > 0;
        has_shapes |= r.has_shapes;
    })?;
    let note = "FLOPs and bytes are not known: record with record_shapes=True";
    Ok((has_gpu && !has_shapes).then(|| note.to_string()))
}

fn unmatched(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let (mut unmatched, mut joined) = (0, 0);
    scope.each::<CallStacks>(|r| {
        unmatched += r.bwd_unmatched_count;
        joined += r.bwd_joined_count;
    })?;
    let operators = counted(unmatched, "backward operator");
    let note = || format!("{operators} without a forward operator, {} joined", fmt_count(joined));
    Ok((unmatched > 0).then(note))
}

fn more_than_attainable(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let (printed, mut is_impossible) = (scope.scope("capture"), false);
    scope.each::<OperatorsOverRanks>(|r| {
        is_impossible |= r.scope == printed && r.roofline_pct.is_some_and(|pct| pct > 100.0);
    })?;
    let note = "more than 100 % of what is attainable: inputs come from a cache, or not all that the \
                recorded shapes say was computed";
    Ok(is_impossible.then(|| note.to_string()))
}

/// Largest number of operators in a line.
const TOLD: usize = 5;
/// Smallest share of the GPU time of which the operator is known, percent.
const KNOWN_PCT: f64 = 50.0;
/// Smallest share of an operator in a line, percent.
const TOLD_PCT: f64 = 1.0;

/// Names of the operators with the most GPU time of their own, over all scopes and other keys, with their
/// shares of all GPU time but that of collectives, percent, and among them the parts of graphs that the
/// program named, marked as such. None where most of it has no operator.
pub(crate) fn with_most_gpu_time(operators: &Batch, parts: &NamedParts) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<(&str, bool), Ns> = BTreeMap::new();
    for r in OperatorsOverRanks::rows(operators) {
        *sums.entry((r.name, parts.has(&r))).or_default() += r.gpu_self_ns;
    }
    // Communication is told elsewhere.
    sums.retain(|(name, _), _| !is_host_communication(Class::HostOp, name));
    let total: Ns = sums.values().sum();
    let mut all: Vec<((&str, bool), Ns)> =
        sums.into_iter().filter(|((name, _), _)| !name.starts_with('[')).collect();
    if percent(all.iter().map(|(_, ns)| *ns).sum(), total).is_none_or(|known| known < KNOWN_PCT) {
        return Vec::new();
    }
    all.sort_by_key(|(name, ns)| (Reverse(*ns), *name));
    let shown =
        |(name, is_part): (&str, bool)| if is_part { format!("{name} (graph)") } else { name.to_string() };
    let shares = all.into_iter().map(|(of, ns)| (shown(of), percent(ns, total).unwrap_or(0.0)));
    shares.take(TOLD).filter(|(_, share)| *share >= TOLD_PCT).collect()
}
