//! Observations: the operator and the module with most time, and calls that could be avoided.

use crate::api::{Certainty, Observation, Partial, rows};
use crate::ops::anomalies::{Anomalies, Anomaly};
use crate::ops::modules::ModulesTable;
use crate::ops::operators::Operators;
use crate::ops::views::{end_of_path, total};
use crate::sums::sums;
use hta_base::table::schema::TableSpec;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::names::clip;
use hta_trace::category::Class;
use hta_trace::rank_trace::is_host_communication;

/// Smallest share of all GPU (or host) time of an operator for an observation, percent.
const PART_MIN_PCT: f64 = 10.0;
/// Smallest share of the step that the host spends in calls of one kind for an observation, percent.
const ANOMALY_MIN_PCT: f64 = 1.0;

/// All observations. None has a share of the step, because self time and waiting are not losses by themselves.
pub(crate) fn observations(stem: &'static str, partials: &[Partial]) -> Vec<Observation> {
    let observation = |cost: Ns, sentence: String, table: &TableSpec| Observation {
        analysis: stem,
        ranks: Vec::new(),
        steps: Vec::new(),
        cost_ns_per_step: cost / total(partials, |r| r.step_count as i64).max(1),
        share_of_step: None,
        certainty: Certainty::Measured,
        sentence,
        table: table.name,
    };
    let mut all = Vec::new();
    all.extend(operator(partials).map(|(cost, text)| observation(cost, text, Operators::SPEC)));
    all.extend(module(partials).map(|(cost, text)| observation(cost, text, ModulesTable::SPEC)));
    all.extend(anomalies(partials).into_iter().map(|(cost, text)| observation(cost, text, Anomalies::SPEC)));
    all
}

/// The operator with most self time: on the GPU if there is one.
fn operator(partials: &[Partial]) -> Option<(Ns, String)> {
    let of_capture = rows::<Operators>(partials).filter(|r| r.scope == "capture");
    let rows = sums(of_capture.map(|r| ([r.name], [r.gpu_self_ns, r.host_self_ns, r.count as i64])));
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
    let sentence = format!(
        "`{}` is the operator with most {place} time of its own: {} of {of}, {} of {}{}",
        clip(most.key[0], 60),
        fmt_pct(share),
        counted(most.values[2] as u64, "call"),
        fmt_ns(own / most.values[2].max(1)),
        if most.values[2] == 1 { "" } else { " on average" }
    );
    Some((own, sentence))
}

/// The module with most GPU self time, including backward.
fn module(partials: &[Partial]) -> Option<(Ns, String)> {
    let modules = rows::<ModulesTable>(partials);
    let rows = sums(modules.map(|r| ([r.path], [r.gpu_self_ns, r.bwd_gpu_self_ns.unwrap_or(0)])));
    let most = rows.iter().max_by_key(|s| (s.values[0] + s.values[1], std::cmp::Reverse(s.key[0])))?;
    let [forward, backward] = most.values;
    let share = percent(forward + backward, total(partials, |r| r.gpu_ns));
    share.filter(|s| *s >= PART_MIN_PCT)?;
    let shown = end_of_path(most.key[0], 56);
    let sentence = format!(
        "`{shown}` is the module with most GPU time of its own: {} of all, {} forward and {} backward",
        fmt_pct(share),
        fmt_ns(forward),
        fmt_ns(backward)
    );
    Some((forward + backward, sentence))
}

/// One sentence for each kind of call that takes enough of the step.
fn anomalies(partials: &[Partial]) -> Vec<(Ns, String)> {
    let rows = sums(rows::<Anomalies>(partials).map(|r| ([r.kind, r.name], [r.host_ns, r.count as i64])));
    let (steps, steps_ns) = (total(partials, |r| r.step_count as i64).max(1), total(partials, |r| r.steps_ns));
    let mut all = Vec::new();
    for kind in Anomaly::ALL {
        let of_kind: Vec<_> = rows.iter().filter(|s| s.key[0] == kind.name()).collect();
        let [host, count] = [0, 1].map(|i| of_kind.iter().map(|s| s.values[i]).sum::<i64>());
        let share = percent(host, steps_ns);
        if share.is_none_or(|s| s < ANOMALY_MIN_PCT) {
            continue;
        }
        let most = of_kind.iter().max_by_key(|s| (s.values[0], std::cmp::Reverse(s.key)));
        let name = most.map_or("", |s| s.key[1]);
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
