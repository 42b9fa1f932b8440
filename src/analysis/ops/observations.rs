//! Observations: the operator and the module with most time, and calls that could be avoided.

use crate::api::{Certainty, Observation, Partial};
use crate::ops::OperatorTables;
use crate::ops::anomalies::{Anomalies, AnomaliesOverRanks, Anomaly};
use crate::ops::graph_parts::NamedParts;
use crate::ops::modules::ModulesTable;
use crate::ops::operators::Operators;
use crate::ops::over_ranks::{
    ModuleOverRanksRow, ModulesOverRanks, OperatorOverRanksRow, OperatorsOverRanks,
};
use crate::ops::views::{end_of_path, total};
use crate::sums::sums;
use hta_base::table::schema::{Batch, Table, TableSpec};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::names::clip;
use hta_trace::category::Class;
use hta_trace::rank_trace::is_host_communication;

/// Smallest share of all GPU (or host) time of an operator for an observation, percent.
const PART_MIN_PCT: f64 = 10.0;
/// Smallest share of the step that the host spends in calls of one kind for an observation, percent.
const ANOMALY_MIN_PCT: f64 = 1.0;

/// Mark of what is no operator.
const PART: &str = "part of a graph";

/// All observations. None has a share of the step, because self time and waiting are not losses by
/// themselves.
pub(crate) fn observations(partials: &[Partial], all_ranks: &OperatorTables) -> Vec<Observation> {
    let observation = |cost: Ns, sentence: String, table: &TableSpec| Observation {
        analysis: "ops",
        ranks: Vec::new(),
        steps: Vec::new(),
        cost_ns_per_step: cost / total(partials, |r| r.step_count as i64).max(1),
        share_of_step: None,
        certainty: Certainty::Measured,
        sentence,
        table: table.name,
    };
    let mut all = Vec::new();
    let parts = NamedParts::of(partials);
    all.extend(
        operator(&all_ranks.operators, &parts).map(|(cost, text)| observation(cost, text, Operators::SPEC)),
    );
    all.extend(
        module(&all_ranks.modules, partials).map(|(cost, text)| observation(cost, text, ModulesTable::SPEC)),
    );
    all.extend(
        anomalies(&all_ranks.anomalies, partials)
            .into_iter()
            .map(|(cost, text)| observation(cost, text, Anomalies::SPEC)),
    );
    all
}

/// The operator, or part of a graph that the program named, with most self time: on the GPU if there is one.
fn operator(operators: &Batch, parts: &NamedParts) -> Option<(Ns, String)> {
    let of_capture = OperatorsOverRanks::rows(operators).filter(|r| r.scope == "capture");
    let mark = |r: &OperatorOverRanksRow| if parts.has(r) { PART } else { "" };
    let rows =
        sums(of_capture.map(|r| ([r.name, mark(&r)], [r.gpu_self_ns, r.host_self_ns, r.count as i64])));
    let on_gpu = rows.iter().any(|s| s.values[0] > 0);
    let value = |v: &[i64; 3]| if on_gpu { v[0] } else { v[1] };
    let all: Ns = rows.iter().map(|s| value(&s.values)).sum();
    // Communication is left to other analyses, which know its waiting time.
    let is_work = |name: &str| !name.starts_with('[') && !is_host_communication(Class::HostOp, name);
    let named = rows.iter().filter(|s| is_work(s.key[0]));
    let most = named.max_by_key(|s| (value(&s.values), std::cmp::Reverse(s.key[0])))?;
    let (own, share) = (value(&most.values), percent(value(&most.values), all));
    share.filter(|s| *s >= PART_MIN_PCT)?;
    let (place, of) = if on_gpu { ("GPU", "all GPU time") } else { ("host", "the operators' time") };
    let name = clip(most.key[0], 60);
    let (subject, time) = match most.key[1] {
        PART => (format!("The part of a CUDA graph that the program calls `{name}` has"), "replay"),
        _ => (format!("`{name}` is the operator with"), "call"),
    };
    let sentence = format!(
        "{subject} most {place} time of its own: {} of {of}, {} of {}{}",
        fmt_pct(share),
        counted(most.values[2] as u64, time),
        fmt_ns(own / most.values[2].max(1)),
        if most.values[2] == 1 { "" } else { " on average" }
    );
    Some((own, sentence))
}

/// The module with most GPU self time, including backward.
fn module(modules: &Batch, partials: &[Partial]) -> Option<(Ns, String)> {
    let backward = |r: &ModuleOverRanksRow| r.bwd_gpu_self_ns.unwrap_or(0);
    let all = ModulesOverRanks::rows(modules);
    let most = all.max_by_key(|r| (r.gpu_self_ns + backward(r), std::cmp::Reverse(r.path)))?;
    let (forward, backward) = (most.gpu_self_ns, backward(&most));
    let share = percent(forward + backward, total(partials, |r| r.gpu_ns));
    share.filter(|s| *s >= PART_MIN_PCT)?;
    let shown = end_of_path(most.path, 56);
    let sentence = format!(
        "`{shown}` is the module with most GPU time of its own: {} of all, {} forward and {} backward",
        fmt_pct(share),
        fmt_ns(forward),
        fmt_ns(backward)
    );
    Some((forward + backward, sentence))
}

/// One sentence for each kind of call that takes enough of the step.
fn anomalies(anomalies: &Batch, partials: &[Partial]) -> Vec<(Ns, String)> {
    let (steps, steps_ns) =
        (total(partials, |r| r.step_count as i64).max(1), total(partials, |r| r.steps_ns));
    let mut all = Vec::new();
    for kind in Anomaly::ALL {
        let of_kind: Vec<_> = AnomaliesOverRanks::rows(anomalies).filter(|r| r.kind == kind.name()).collect();
        let host: Ns = of_kind.iter().map(|r| r.host_ns).sum();
        let count = of_kind.iter().map(|r| r.count as i64).sum();
        let share = percent(host, steps_ns);
        if share.is_none_or(|s| s < ANOMALY_MIN_PCT) {
            continue;
        }
        let most = of_kind.iter().max_by_key(|r| (r.host_ns, std::cmp::Reverse(r.name)));
        let name = most.map_or("", |r| r.name);
        let part = if of_kind.len() == 1 { "" } else { "the largest part " };
        let sentence = format!(
            "{}: {}, {part}`{name}`; {} of a step on the host ({})",
            kind.what(),
            per_step(count, steps),
            fmt_ns(host / steps),
            fmt_pct(share)
        );
        all.push((host, sentence));
    }
    all
}

fn per_step(count: i64, steps: i64) -> String {
    match count / steps {
        0 => format!("{} in {}", plural(count as usize, "call"), plural(steps as usize, "step")),
        n => format!("{} a step", plural(n as usize, "call")),
    }
}
