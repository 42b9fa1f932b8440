//! The printed table of kernels, and the kernel with most compute time.

use crate::api::{Align, Certainty, Observation, Options, Partial, View, rows};
use crate::kernels::over_ranks::{KernelOverRanksRow, KernelsOverRanks};
use crate::kernels::{BY, KernelsByName, UNKNOWN};
use crate::population::reasons;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::names::clip;
use hta_trace::kernel_name::function_path;
use hta_trace::timeline::WorkClass;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A column that a key of `--by` adds to the printed table: key, heading, alignment and cell of a row.
type KernelKeyColumn = (&'static str, &'static str, Align, fn(&KernelOverRanksRow) -> Option<String>);

const KEY_COLUMNS: [KernelKeyColumn; 8] = [
    ("category", "category", Align::Left, |r| Some(r.category.replace('_', " "))),
    ("op", "operator", Align::Left, |r| r.op.map(str::to_string)),
    ("input", "inputs", Align::Left, |r| r.input_dims.map(str::to_string)),
    ("direction", "direction", Align::Left, |r| r.direction.map(str::to_string)),
    ("layer", "module", Align::Left, |r| r.module.map(str::to_string)),
    ("shape", "grid", Align::Right, |r| r.grid.map(str::to_string)),
    ("shape", "block", Align::Right, |r| r.block.map(str::to_string)),
    ("stream", "stream", Align::Right, |r| r.stream.map(|s| s.to_string())),
];

/// A line of the printed table: names of one class that are short for the same.
struct ShortKernel<'a> {
    class: &'a str,
    short_name: Cow<'a, str>,
    /// Further keys, as printed.
    cells: Vec<String>,
    count: i64,
    sum_ns: Ns,
}

/// The names of a scope, largest first. Those that no rule knows have their namespace, to be sent or named in
/// rules.
fn by_short_name<'a>(
    names: &'a Batch,
    scope: &str,
    keys: &[&KernelKeyColumn],
    is_unknown: bool,
) -> Vec<ShortKernel<'a>> {
    let mut all: BTreeMap<_, (i64, Ns)> = BTreeMap::new();
    for r in KernelsOverRanks::rows(names).filter(|r| r.scope == scope) {
        let short = if is_unknown { Cow::Owned(function_path(r.name)) } else { Cow::Borrowed(r.short_name) };
        let cells: Vec<String> = keys.iter().map(|k| k.3(&r).unwrap_or("-".to_string())).collect();
        let (count, sum_ns) = all.entry((short, r.class, cells)).or_default();
        (*count, *sum_ns) = (*count + r.count as i64, *sum_ns + r.sum_ns);
    }
    let shown = all.into_iter().map(|((short_name, class, cells), (count, sum_ns))| ShortKernel {
        class,
        short_name,
        cells,
        count,
        sum_ns,
    });
    let mut shown: Vec<ShortKernel> = shown.collect();
    // Stable: equal ones stay in order of their keys.
    shown.sort_by_key(|n| Reverse(n.sum_ns));
    shown
}

/// Names by time over all ranks.
pub(crate) fn view(names: &Batch, partials: &[Partial], options: &Options) -> View {
    // The printed rows have the same keys as the table.
    let keys: Vec<&KernelKeyColumn> = KEY_COLUMNS.iter().filter(|k| options.settings.has(&BY, k.0)).collect();
    let (is_unknown, scope) = (options.settings.flag(&UNKNOWN), options.printed_scope("span"));
    let shown = by_short_name(names, scope, &keys, is_unknown);
    let all: Ns = rows::<KernelsByName>(partials).filter(|r| r.scope == scope).map(|r| r.sum_ns).sum();
    let row = |n: &ShortKernel| {
        let mut row = vec![n.short_name.to_string()];
        row.extend(n.cells.iter().map(|cell| dimensions(cell)));
        // Further keys take the place of the class and the share.
        row.extend(keys.is_empty().then(|| n.class.to_string()));
        row.extend([fmt_count(n.count as u64), fmt_ns(n.sum_ns), fmt_ns(n.sum_ns / n.count.max(1))]);
        row.extend(keys.is_empty().then(|| fmt_pct(percent(n.sum_ns, all))));
        row
    };
    let hidden = shown.len().saturating_sub(options.top);
    let noun = if keys.is_empty() { "more name" } else { "more row" };
    View {
        title: format!(
            "Kernels {}by summed time, {}",
            if is_unknown { "that no rule knows " } else { "" },
            plural(partials.len(), "rank")
        ),
        columns: [("kernel", Align::Left)]
            .into_iter()
            .chain(keys.iter().map(|k| (k.1, k.2)))
            .chain(keys.is_empty().then_some(("class", Align::Left)))
            .chain([("count", Align::Right), ("sum", Align::Right), ("mean", Align::Right)])
            .chain(keys.is_empty().then_some(("of GPU time", Align::Right)))
            .collect(),
        rows: shown.iter().take(options.top).map(row).collect(),
        notes: reasons(partials)
            .into_iter()
            .chain((is_unknown && shown.is_empty()).then(|| "none".to_string()))
            .chain((hidden > 0).then(|| format!("{} in the table", plural(hidden, noun))))
            .collect(),
    }
}

/// The kernel with most compute time, if that is a tenth of all or more.
pub(crate) fn observation(names: &Batch, partials: &[Partial], scope: &str) -> Option<Observation> {
    let rows = by_short_name(names, scope, &[], false);
    let all: Ns = rows.iter().map(|n| n.sum_ns).sum();
    let most = rows.iter().find(|n| n.class == WorkClass::Compute.name())?;
    let share = percent(most.sum_ns, all).filter(|s| *s >= 10.0)?;
    let windows = partials.len() as i64 * steps(partials);
    Some(Observation {
        analysis: "kernels",
        ranks: Vec::new(),
        steps: Vec::new(),
        cost_ns_per_step: most.sum_ns / windows.max(1),
        share_of_step: None,
        certainty: Certainty::Measured,
        sentence: format!(
            "`{}` is the kernel with most compute time: {} of all GPU time, {} of {}{}",
            clip(&most.short_name, 60),
            fmt_pct(Some(share)),
            counted(most.count as u64, "call"),
            fmt_ns(most.sum_ns / most.count.max(1)),
            if most.count == 1 { "" } else { " on average" }
        ),
        table: KernelsByName::SPEC.name,
    })
}

/// Largest number of steps of one rank, at least one.
fn steps(partials: &[Partial]) -> i64 {
    let of_rank =
        |p: &Partial| p.rows::<KernelsByName>().filter_map(|r| r.step).collect::<BTreeSet<u32>>().len();
    partials.iter().map(of_rank).max().map_or(1, |n| n.max(1) as i64)
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
