//! The printed tables.

use crate::api::{Align, Options, Partial, View, rows};
use crate::facts::graphs::named::NamedNodes;
use crate::ops::anomalies::Anomalies;
use crate::ops::modules::ModulesTable;
use crate::ops::operators::{OperatorRow, Operators};
use crate::ops::{CallStackRow, CallStacks, mfu};
use crate::population::reasons;
use crate::sums::{KeyedSums, more, sums};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct};
use hta_base::wording::counts::plural;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A column of `call_stacks`, summed over ranks.
pub(crate) fn total(partials: &[Partial], column: fn(&CallStackRow) -> i64) -> i64 {
    rows::<CallStacks>(partials).map(|r| column(&r)).sum()
}

/// All printed tables.
pub(crate) fn views(partials: &[Partial], options: &Options) -> Vec<View> {
    let mut views = vec![operators(partials, options)];
    views.extend(mfu::view(partials));
    views.extend(modules(partials, options));
    views.extend(anomalies(partials, options));
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
type OperatorKeyColumn = (&'static str, bool, fn(&OperatorRow) -> Option<String>);

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

#[derive(Default)]
struct Printed {
    gpu_self: Ns,
    host_self: Ns,
    gpu: Ns,
    host: Ns,
    count: u64,
    work_busy: Ns,
    flops: Option<u64>,
    /// Sums of work_busy_ns times the percentage, to average over ranks.
    roofline: Option<f64>,
}

fn operators(partials: &[Partial], options: &Options) -> View {
    let scope = if options.model.steps.is_some() { "step" } else { "capture" };
    let mut by_key: BTreeMap<(&str, Vec<Option<String>>), Printed> = BTreeMap::new();
    for r in rows::<Operators>(partials).filter(|r| r.scope == scope) {
        let sum = by_key.entry((r.name, KEYS.iter().map(|k| k.2(&r)).collect())).or_default();
        sum.gpu_self += r.gpu_self_ns;
        sum.host_self += r.host_self_ns;
        sum.gpu += r.gpu_ns;
        sum.host += r.host_ns;
        sum.count += r.count;
        if let Some(flops) = r.flops.filter(|f| *f > 0) {
            sum.flops = Some(sum.flops.unwrap_or(0).saturating_add(flops));
            sum.work_busy += r.work_busy_ns;
        }
        if let Some(pct) = r.roofline_pct {
            sum.roofline = Some(sum.roofline.unwrap_or(0.0) + pct * r.work_busy_ns as f64);
        }
    }
    let mut rows: Vec<_> = by_key.into_iter().collect();
    // Stable sort: equal rows stay in order of their names.
    rows.sort_by_key(|(_, s)| (Reverse(s.gpu_self), Reverse(s.host_self)));
    let has_gpu = rows.iter().any(|(_, s)| s.gpu > 0);
    let all: Ns = rows.iter().map(|(_, s)| if has_gpu { s.gpu_self } else { s.host_self }).sum();
    let used: Vec<usize> = (0..KEYS.len()).filter(|i| rows.iter().any(|((_, k), _)| k[*i].is_some())).collect();
    // Further keys take the place of the columns of work.
    let has_rates = has_gpu && used.is_empty() && rows.iter().any(|(_, s)| s.flops.is_some());
    let mut view = View {
        title: format!("Operators by own time, {}", plural(partials.len(), "rank")),
        columns: vec![("operator", Align::Left), ("count", Align::Right)],
        rows: Vec::new(),
        notes: reasons(partials).into_iter().chain(named(partials)).collect(),
    };
    if has_gpu {
        view.columns.extend([("GPU self", Align::Right), ("share", Align::Right)]);
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
    for ((name, keys), s) in rows.iter().take(options.top) {
        let mut cells = vec![name.to_string(), fmt_count(s.count)];
        if has_gpu {
            cells.extend([fmt_ns(s.gpu_self), fmt_pct(hta_base::units::percent(s.gpu_self, all))]);
        }
        match has_rates {
            true => {
                let rate = s.flops.filter(|_| s.work_busy > 0).map(|f| f as f64 / s.work_busy as f64 / 1e3);
                let busy = s.work_busy.max(1) as f64;
                cells.push(rate.map_or_else(|| "-".to_string(), |r| format!("{r:.2}")));
                let attained = s.roofline.filter(|_| s.work_busy > 0).map(|r| r / busy);
                let mark = if attained.is_some_and(|pct| pct > 100.0) { " !" } else { "" };
                has_impossible |= !mark.is_empty();
                cells.push(format!("{}{mark}", fmt_pct(attained)));
            }
            false if has_gpu => cells.push(fmt_ns(s.gpu)),
            false => {}
        }
        cells.push(fmt_ns(s.host_self));
        if !has_rates {
            cells.push(fmt_ns(s.host));
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
            "! more than is attainable: inputs come from a cache, or not all that the recorded shapes say was computed"
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

fn modules(partials: &[Partial], options: &Options) -> Option<View> {
    let mut rows = sums(
        rows::<ModulesTable>(partials)
            .map(|r| ([r.path], [r.host_self_ns, r.count as i64, r.gpu_ns, r.bwd_gpu_ns.unwrap_or(0), r.host_ns])),
    );
    if rows.is_empty() {
        return None;
    }
    let gpu = |s: &KeyedSums<1, 5>| -> Ns { s.values[2] + s.values[3] };
    let has_gpu = rows.iter().any(|s| gpu(s) > 0);
    // Modules with most time first; a module precedes its parts.
    rows.sort_by_key(|s| (Reverse(gpu(s)), Reverse(s.values[4])));
    let mut view = View {
        title: "Modules".to_string(),
        columns: vec![("module", Align::Left), ("calls", Align::Right)],
        rows: Vec::new(),
        notes: named(partials).into_iter().chain(more(rows.len().saturating_sub(options.top), "module")).collect(),
    };
    match has_gpu {
        true => view.columns.extend([("GPU forward", Align::Right), ("GPU backward", Align::Right)]),
        false => view.columns.push(("host self", Align::Right)),
    }
    view.columns.push(("host forward", Align::Right));
    for s in rows.iter().take(options.top) {
        let [host_self, count, forward, backward, host] = s.values;
        let mut cells = vec![end_of_path(s.key[0], KEY_WIDTH), fmt_count(count as u64)];
        match has_gpu {
            true => cells.extend([fmt_ns(forward), fmt_ns(backward)]),
            false => cells.push(fmt_ns(host_self)),
        }
        cells.push(fmt_ns(host));
        view.rows.push(cells);
    }
    Some(view)
}

fn anomalies(partials: &[Partial], options: &Options) -> Option<View> {
    let calls = rows::<Anomalies>(partials);
    let mut rows = sums(calls.map(|r| ([r.kind, r.name], [r.host_ns, r.count as i64, r.step_count as i64])));
    rows.sort_by_key(|s| Reverse(s.values[0]));
    if rows.is_empty() {
        return None;
    }
    let cells = |s: &KeyedSums<2, 3>| {
        let [host, count, steps] = s.values;
        let mean = fmt_ns(host / count.max(1));
        let [kind, name] = s.key.map(str::to_string);
        vec![name, kind, fmt_count(count as u64), fmt_count(steps as u64), fmt_ns(host), mean]
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
