//! The text report: operators, modules and calls that wait, summed over ranks.

use crate::analysis::api::{Align, Options, Partial, View, rows};
use crate::analysis::population::reasons;
use crate::analysis::stacks::anomalies::Anomalies;
use crate::analysis::stacks::modules::ModulesTable;
use crate::analysis::stacks::operators::Operators;
use crate::analysis::stacks::{CallStackRow, CallStacks};
use crate::units::{Ns, fmt_count, fmt_ns};
use crate::wording::counts::plural;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Rows of one table, summed over ranks (and steps) by text keys.
pub struct KeyedSums<'a, const K: usize, const N: usize> {
    pub key: [&'a str; K],
    pub values: [i64; N],
}

/// Adds up the values of equal keys; in order of the keys.
pub fn sums<'a, const K: usize, const N: usize>(
    rows: impl Iterator<Item = ([&'a str; K], [i64; N])>,
) -> Vec<KeyedSums<'a, K, N>> {
    let mut all: BTreeMap<[&str; K], [i64; N]> = BTreeMap::new();
    for (key, values) in rows {
        let sum = all.entry(key).or_insert([0; N]);
        sum.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
    }
    all.into_iter().map(|(key, values)| KeyedSums { key, values }).collect()
}

/// A column of `call_stacks`, summed over ranks.
pub fn total(partials: &[Partial], column: fn(&CallStackRow) -> i64) -> i64 {
    rows::<CallStacks>(partials).map(|r| column(&r)).sum()
}

/// All printed tables.
pub fn views(partials: &[Partial], options: &Options) -> Vec<View> {
    let mut views = vec![operators(partials, options)];
    views.extend(modules(partials, options));
    views.extend(anomalies(partials, options));
    views
}

/// Largest width of a module's path in print, characters.
const PATH_WIDTH: usize = 36;

/// The end of a path, which identifies the layer: as many inner modules as fit, at least one.
pub fn end_of_path(path: &str, width: usize) -> String {
    if path.chars().count() <= width {
        return path.to_string();
    }
    let fits = |(at, _): &(usize, &str)| path[*at..].chars().count() + 3 <= width;
    let at = path.match_indices('/').find(fits).or(path.rmatch_indices('/').next());
    at.map_or_else(|| path.to_string(), |(at, _)| format!("...{}", &path[at..]))
}

fn more(hidden: usize, what: &str) -> Option<String> {
    (hidden > 0).then(|| format!("{} in the table", plural(hidden, &format!("more {what}"))))
}

fn operators(partials: &[Partial], options: &Options) -> View {
    let scope = if options.model.steps.is_some() { "step" } else { "capture" };
    let of_scope = rows::<Operators>(partials).filter(|r| r.scope == scope);
    let mut rows = sums(of_scope.map(|r| {
        let key = [r.name, r.input_dims.unwrap_or_default(), r.module.unwrap_or_default()];
        (key, [r.gpu_self_ns, r.host_self_ns, r.count as i64, r.gpu_ns, r.host_ns])
    }));
    // Stable sort: equal rows stay in order of their names.
    rows.sort_by_key(|s| (Reverse(s.values[0]), Reverse(s.values[1])));
    let has_gpu = rows.iter().any(|s| s.values[3] > 0);
    let mut view = View {
        title: format!("Operators by own time, {}", plural(partials.len(), "rank")),
        columns: vec![("operator", Align::Left), ("count", Align::Right)],
        rows: Vec::new(),
        notes: reasons(partials),
    };
    if has_gpu {
        view.columns.extend([("GPU self", Align::Right), ("GPU total", Align::Right)]);
    }
    view.columns.extend([("host self", Align::Right), ("host total", Align::Right)]);
    for (key, name) in [(1, "shapes"), (2, "module")] {
        if rows.iter().any(|s| !s.key[key].is_empty()) {
            view.columns.push((name, Align::Left));
        }
    }
    for s in rows.iter().take(options.top) {
        let [gpu_self, host_self, count, gpu, host] = s.values;
        let mut cells = vec![s.key[0].to_string(), fmt_count(count as u64)];
        if has_gpu {
            cells.extend([fmt_ns(gpu_self), fmt_ns(gpu)]);
        }
        cells.extend([fmt_ns(host_self), fmt_ns(host)]);
        for (key, name) in [(1, "shapes"), (2, "module")] {
            if view.columns.iter().any(|c| c.0 == name) {
                cells.push(if key == 2 { end_of_path(s.key[key], PATH_WIDTH) } else { s.key[key].to_string() });
            }
        }
        view.rows.push(cells);
    }
    view.notes.extend(more(rows.len().saturating_sub(options.top), "row"));
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
        notes: more(rows.len().saturating_sub(options.top), "module").into_iter().collect(),
    };
    match has_gpu {
        true => view.columns.extend([("GPU forward", Align::Right), ("GPU backward", Align::Right)]),
        false => view.columns.push(("host self", Align::Right)),
    }
    view.columns.push(("host forward", Align::Right));
    for s in rows.iter().take(options.top) {
        let [host_self, count, forward, backward, host] = s.values;
        let mut cells = vec![end_of_path(s.key[0], PATH_WIDTH), fmt_count(count as u64)];
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
