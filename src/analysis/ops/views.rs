//! The printed tables.

use crate::api::{Align, Options, Partial, View, rows};
use crate::facts::graphs::named::NamedNodes;
use crate::ops::anomalies_over_ranks::{AnomaliesOverRanks, AnomalyOverRanksRow};
use crate::ops::graph_parts::NamedParts;
use crate::ops::over_ranks::{
    ModuleOverRanksRow, ModulesOverRanks, OperatorOverRanksRow, OperatorsOverRanks,
};
use crate::ops::{CallStackRow, CallStacks, OperatorTables, mfu};
use crate::population::reasons;
use crate::sums::more;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_number, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_trace::category::Class;
use hta_trace::device::is_host_communication;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A column of `call_stacks`, summed over ranks.
pub(crate) fn total(partials: &[Partial], column: fn(&CallStackRow) -> i64) -> i64 {
    rows::<CallStacks>(partials).map(|r| column(&r)).sum()
}

/// All printed tables.
pub(crate) fn views(partials: &[Partial], all: &OperatorTables, options: &Options) -> Vec<View> {
    let mut views = vec![operator_view(partials, &all.operators, options)];
    views.extend(mfu::view(partials));
    views.extend(module_view(partials, &all.modules, options));
    views.extend(anomaly_view(&all.anomalies, options));
    views
}

/// How much of the GPU time in graphs has a name; `None` without graphs.
pub(crate) fn named(partials: &[Partial]) -> Option<String> {
    let mut all = NamedNodes::default();
    for r in rows::<CallStacks>(partials) {
        all.add(NamedNodes {
            activities: r.graph_activity_count,
            named: r.graph_named_count,
            graph_ns: r.graph_ns,
            unnamed_ns: r.graph_unnamed_ns,
            gpu_ns: r.gpu_ns,
        });
    }
    all.sentence()
}

/// Largest width of a text key in print, characters.
const KEY_WIDTH: usize = 36;

/// The end of a path, which identifies the layer: as many inner modules as fit, at least one.
pub(crate) fn end_of_path(path: &str, width: usize) -> String {
    if path.chars().count() <= width {
        return path.to_string();
    }
    let fits = |(at, _): &(usize, &str)| path[*at..].chars().count() + 3 <= width;
    let at = path.match_indices('/').find(fits).or(path.rmatch_indices('/').next());
    at.map_or_else(|| path.to_string(), |(at, _)| format!("...{}", &path[at..]))
}

/// A text key: heading, whether a path's end identifies it, and its value.
type OperatorKeyColumn = (&'static str, bool, fn(&OperatorOverRanksRow) -> Option<String>);

const KEYS: [OperatorKeyColumn; 8] = [
    ("shapes", false, |r| r.input_dims.map(str::to_string)),
    ("types", false, |r| r.input_types.map(str::to_string)),
    ("strides", false, |r| r.input_strides.map(str::to_string)),
    ("scalars", false, |r| r.concrete_inputs.map(str::to_string)),
    ("module", true, |r| r.module.map(str::to_string)),
    ("direction", false, |r| r.direction.map(str::to_string)),
    ("thread", false, |r| r.thread.map(str::to_string)),
    ("stack", false, |r| r.stack.map(|s| s.split(';').next().unwrap_or_default().to_string())),
];

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

fn operator_view(partials: &[Partial], operators: &Batch, options: &Options) -> View {
    let scope = if options.model.steps.is_some() { "step" } else { "capture" };
    let of_scope = OperatorsOverRanks::rows(operators).filter(|r| r.scope == scope);
    let mut rows: Vec<_> = of_scope.map(|r| (KEYS.iter().map(|k| k.2(&r)).collect::<Vec<_>>(), r)).collect();
    rows.sort_by(|(a_keys, a), (b_keys, b)| {
        (b.gpu_self_ns, b.host_self_ns, a.name, a_keys).cmp(&(a.gpu_self_ns, a.host_self_ns, b.name, b_keys))
    });
    let has_gpu = rows.iter().any(|(_, r)| r.gpu_ns > 0);
    let all: Ns = rows.iter().map(|(_, r)| if has_gpu { r.gpu_self_ns } else { r.host_self_ns }).sum();
    let used: Vec<usize> = (0..KEYS.len()).filter(|i| rows.iter().any(|(k, _)| k[*i].is_some())).collect();
    // Further keys take the place of the columns of work.
    let has_rates = has_gpu && used.is_empty() && rows.iter().any(|(_, r)| r.flops.is_some());
    let mut view = View {
        title: format!("Operators by own time, {}", plural(partials.len(), "rank")),
        columns: vec![("operator", Align::Left), ("count", Align::Right)],
        rows: Vec::new(),
        notes: reasons(partials).into_iter().chain(named(partials)).collect(),
    };
    if has_gpu {
        view.columns.extend([("GPU self", Align::Right), ("of GPU time", Align::Right)]);
    }
    match has_rates {
        true => view.columns.extend([("TFLOP/s", Align::Right), ("of attainable", Align::Right)]),
        false if has_gpu => view.columns.push(("GPU total", Align::Right)),
        false => {}
    }
    view.columns.push(("host self", Align::Right));
    if !has_rates {
        view.columns.push(("host total", Align::Right));
    }
    view.columns.extend(used.iter().map(|i| (KEYS[*i].0, Align::Left)));
    let mut has_impossible = false;
    for (keys, r) in rows.iter().take(options.top) {
        let mut cells = vec![r.name.to_string(), fmt_count(r.count)];
        if has_gpu {
            cells.extend([fmt_ns(r.gpu_self_ns), fmt_pct(hta_base::units::percent(r.gpu_self_ns, all))]);
        }
        match has_rates {
            true => {
                cells.push(r.tflops_per_s.map_or_else(|| "-".to_string(), fmt_number));
                let mark = if r.roofline_pct.is_some_and(|pct| pct > 100.0) { " !" } else { "" };
                has_impossible |= !mark.is_empty();
                cells.push(format!("{}{mark}", fmt_pct(r.roofline_pct)));
            }
            false if has_gpu => cells.push(fmt_ns(r.gpu_ns)),
            false => {}
        }
        cells.push(fmt_ns(r.host_self_ns));
        if !has_rates {
            cells.push(fmt_ns(r.host_ns));
        }
        for i in &used {
            let text = keys[*i].clone().unwrap_or_default();
            cells.push(if KEYS[*i].1 { end_of_path(&text, KEY_WIDTH) } else { text });
        }
        view.rows.push(cells);
    }
    view.notes.extend(more(rows.len().saturating_sub(options.top), "row"));
    if has_impossible {
        view.notes.push(
            "! more than is attainable: inputs come from a cache, or not all that the recorded shapes say \
             was computed"
                .to_string(),
        );
    }
    if has_gpu && total(partials, |r| i64::from(r.has_shapes)) == 0 {
        view.notes.push("FLOPs and bytes are not known: record with record_shapes=True".to_string());
    }
    let unmatched = total(partials, |r| r.bwd_unmatched_count as i64);
    if unmatched > 0 {
        view.notes.push(format!(
            "{} without a forward operator, {} joined",
            plural(unmatched as usize, "backward operator"),
            fmt_count(total(partials, |r| r.bwd_joined_count as i64) as u64)
        ));
    }
    view
}

fn module_view(partials: &[Partial], modules: &Batch, options: &Options) -> Option<View> {
    let mut rows: Vec<_> = ModulesOverRanks::rows(modules).collect();
    if rows.is_empty() {
        return None;
    }
    let gpu = |r: &ModuleOverRanksRow| -> Ns { r.gpu_ns + r.bwd_gpu_ns.unwrap_or(0) };
    let has_gpu = rows.iter().any(|r| gpu(r) > 0);
    // Modules with most time first; a module precedes its parts.
    rows.sort_by(|a, b| (gpu(b), b.host_ns, a.path).cmp(&(gpu(a), a.host_ns, b.path)));
    let mut view = View {
        title: "Modules".to_string(),
        columns: vec![("module", Align::Left), ("calls", Align::Right)],
        rows: Vec::new(),
        notes: named(partials)
            .into_iter()
            .chain(more(rows.len().saturating_sub(options.top), "module"))
            .collect(),
    };
    match has_gpu {
        true => view.columns.extend([("GPU forward", Align::Right), ("GPU backward", Align::Right)]),
        false => view.columns.push(("host self", Align::Right)),
    }
    view.columns.push(("host forward", Align::Right));
    for r in rows.iter().take(options.top) {
        let mut cells = vec![end_of_path(r.path, KEY_WIDTH), fmt_count(r.count)];
        match has_gpu {
            true => cells.extend([fmt_ns(r.gpu_ns), fmt_ns(r.bwd_gpu_ns.unwrap_or(0))]),
            false => cells.push(fmt_ns(r.host_self_ns)),
        }
        cells.push(fmt_ns(r.host_ns));
        view.rows.push(cells);
    }
    Some(view)
}

fn anomaly_view(anomalies: &Batch, options: &Options) -> Option<View> {
    let mut rows: Vec<_> = AnomaliesOverRanks::rows(anomalies).collect();
    rows.sort_by_key(|r| (Reverse(r.host_ns), r.kind, r.name));
    if rows.is_empty() {
        return None;
    }
    let cells = |r: &AnomalyOverRanksRow| {
        let mean = fmt_ns(r.host_ns / (r.count as i64).max(1));
        let [kind, name] = [r.kind, r.name].map(str::to_string);
        vec![name, kind, fmt_count(r.count), fmt_count(r.step_count), fmt_ns(r.host_ns), mean]
    };
    Some(View {
        title: "Calls that make host and GPU wait for each other".to_string(),
        columns: vec![
            ("call", Align::Left),
            ("kind", Align::Left),
            ("count", Align::Right),
            ("steps", Align::Right),
            ("host time", Align::Right),
            ("mean", Align::Right),
        ],
        rows: rows.iter().take(options.top).map(cells).collect(),
        notes: more(rows.len().saturating_sub(options.top), "row").into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_path_the_inner_modules_are_shown() {
        assert_eq!(end_of_path("A_0/B_1", 10), "A_0/B_1");
        assert_eq!(end_of_path("Model_0/Block_1/Linear_2", 20), ".../Block_1/Linear_2");
        assert_eq!(end_of_path("Model_0/ALinearOfALongName_2", 10), ".../ALinearOfALongName_2");
    }
}
