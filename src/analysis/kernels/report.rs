//! Kernels by short name, as they are printed.

use crate::api::{Options, Partial, rows};
use crate::kernels::over_ranks::is_unknown;
use crate::kernels::{BY, KernelsByName, UNKNOWN};
use crate::over_ranks::OverRanks;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::{Keep, ViewSpec};
use hta_base::units::{Ns, percent};
use hta_trace::kernel_name::function_path;
use std::borrow::Cow;
use std::collections::BTreeMap;

table! {
    /// Kernels, copies and sets over all ranks and devices, by the short name that many full names share.
    /// What these are is in `kernels_over_ranks`.
    pub struct ShortNames, ShortNameRow = "kernels_by_short_name"
        by "scope, sum_ns descending, count descending, short_name, class" {
        scope: Text, "", "span: all activities; step: those launched in a step; outside: the rest";
        short_name: Text, "", "what tells it apart, without parameters; with --unknown its namespace, too",
            "kernel";
        category: Option<Text>, "", "what it does (with --by category)";
        op: Option<Text>, "", "owning operator (with --by op)", "operator";
        input_dims: Option<Text>, "", "shapes of the operator's inputs (with --by input)", "inputs";
        direction: Option<Text>, "", "forward, backward, recompute or optimizer (with --by direction)";
        module: Option<Text>, "", "path of nn.Modules around the operator (with --by layer)";
        grid: Option<Text>, "", "blocks, as 32x256 (with --by shape)";
        block: Option<Text>, "", "threads per block, as 32x4 (with --by shape)";
        stream: Option<i64>, "", "stream (with --by stream)";
        class: Text, "", "compute, communication, memory or fused_communication";
        count: u64, "", "activities, on all ranks";
        sum_ns: i64, "ns", "sum of their durations";
        mean_ns: f64, "ns", "mean duration";
        time_pct: Option<f64>, "%", "of the summed durations of all activities of the scope", "of GPU time";
        rank_count: u32, "", "ranks that have it";
    }
}

/// What tells rows of one name apart, with `--by`.
const KEYS: &[&str] = &["category", "op", "input_dims", "direction", "module", "grid", "block", "stream"];

pub(crate) const VIEW: ViewSpec = ViewSpec {
    title: "Kernels by summed time",
    columns: &[
        "short_name",
        "category?",
        "op?",
        "input_dims?",
        "direction?",
        "module?",
        "grid?",
        "block?",
        "stream?",
        "class",
        "count",
        "sum_ns",
        "mean_ns",
        "time_pct",
    ],
    gives_way: &[("class", KEYS), ("time_pct", KEYS)],
    keep: &[Keep::Scope("span")],
    ..ViewSpec::of(ShortNames::SPEC)
};

/// Kernels that no rule knows have their namespace, to be sent or named in rules.
pub(crate) fn table(partials: &[Partial], options: &Options) -> Batch {
    let (by_category, only_unknown) =
        (options.settings.has(&BY, "category"), options.settings.flag(&UNKNOWN));
    let mut whole: BTreeMap<&str, Ns> = BTreeMap::new();
    /// Short name, class, what kernels of a category have in common, and a number.
    type KernelKey<'a> = (Cow<'a, str>, &'a str, [Option<&'a str>; 7], Option<i64>);
    let mut all: OverRanks<KernelKey, 2> = OverRanks::new();
    for r in rows::<KernelsByName>(partials) {
        *whole.entry(r.scope).or_default() += r.sum_ns;
        if only_unknown && !is_unknown(&r) {
            continue;
        }
        let short =
            if only_unknown { Cow::Owned(function_path(r.name)) } else { Cow::Borrowed(r.short_name) };
        let category = by_category.then_some(r.category);
        let keys = [category, r.op, r.input_dims, r.direction, r.module, r.grid, r.block];
        all.add(r.scope, (short, r.class, keys, r.stream), r.rank, [r.sum_ns, r.count as i64]);
    }
    let mut table = ShortNames::default();
    for (scope, (short_name, class, keys, stream), s) in all.rows() {
        let ([sum_ns, count], [category, op, input_dims, direction, module, grid, block]) = (s.sums, keys);
        table.push(ShortNameRow {
            scope,
            short_name: &short_name,
            category,
            op,
            input_dims,
            direction,
            module,
            grid: grid.map(dimensions).as_deref(),
            block: block.map(dimensions).as_deref(),
            stream,
            class,
            count: count as u64,
            sum_ns,
            mean_ns: sum_ns as f64 / count.max(1) as f64,
            time_pct: whole.get(scope).and_then(|all| percent(sum_ns, *all)),
            rank_count: s.rank_count,
        });
    }
    table.finish()
}

/// Formats a grid or block: `32x256` for `[32,256,1]`; other texts are unchanged.
fn dimensions(text: &str) -> String {
    let Some(inside) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) else {
        return text.to_string();
    };
    let all: Vec<&str> = inside.split(',').map(str::trim).collect();
    if !all.iter().all(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit())) {
        return text.to_string();
    }
    let last = all.iter().rposition(|d| *d != "1").unwrap_or(0);
    all.get(..=last).map_or_else(|| text.to_string(), |shown| shown.join("x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_shown_without_trailing_ones() {
        assert_eq!(dimensions("[32,256,1]"), "32x256");
        assert_eq!(dimensions("[1, 1, 1]"), "1");
        assert_eq!(dimensions("[1,1,4]"), "1x1x4");
        assert_eq!(dimensions("aten::mm"), "aten::mm");
        assert_eq!(dimensions("[unlinked]"), "[unlinked]");
    }
}
