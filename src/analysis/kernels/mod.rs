//! Kernel breakdown: time by set of classes that run concurrently, and by kernel name.

mod by_name;
mod callers;
mod categories;
pub mod totals;

pub use by_name::{KernelsByName, KernelsByNameRow};
pub use categories::KernelCategories;

use crate::api::{About, Align, Analysis, Certainty, Observation, Options, Output, Partial, RowEmitter, View};
use crate::facts::by_owner::ByOwner;
use crate::facts::step_scopes::StepScopes;
use crate::facts::windows::WindowAccounts;
use crate::job::Job;
use crate::population::reasons;
use crate::recording::capability::Capability;
use crate::settings::{Setting, ValueType};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::names::clip;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::{WorkClass, WorkClassSet};
use hta_trace::window::{Scope, Window};
use std::hash::Hash;
use totals::{NameTotal, top_names};

table! {
    /// Time in which exactly this set of classes runs; the rows of a window sum to its busy time.
    pub(crate) struct KernelClasses, KernelClassRow = "kernel_classes" by "rank, device, scope, step, classes" {
        rank; device; scope; step; step_label; ts_ns; dur_ns;
        classes: Text, "", "compute, communication, memory, or several joined by +";
        time_ns: i64, "ns", "time in which exactly these classes run";
        busy_pct: Option<f64>, "%", "of the window's busy time";
    }
}

const BY: Setting = Setting {
    stem: "kernels",
    flag: "--by",
    value: "KEYS",
    help: "Additional keys of kernels_by_name: category, op, input, direction, layer, shape, stream, joined by commas",
    kind: ValueType::Choices(&["category", "op", "input", "direction", "layer", "shape", "stream"]),
};

/// A column that a key of `--by` adds to the printed table: key, heading, alignment and cell of a row.
type KernelKeyColumn = (&'static str, &'static str, Align, fn(&KernelsByNameRow) -> Option<String>);

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

pub(crate) struct Kernels;

impl Analysis for Kernels {
    fn about(&self) -> About {
        About {
            stem: "kernels",
            title: "GPU time by what kernels do, by class, and by kernel name",
            explain: include_str!("page.md"),
            tables: &[KernelsByName::SPEC, KernelCategories::SPEC, KernelClasses::SPEC],
            settings: &[BY],
            observes_serving: false,
            needs: &[Capability::DeviceTime],
            ..About::DEFAULT
        }
    }

    fn reads_event_args(&self, options: &Options) -> bool {
        options.settings.has(&BY, "input")
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        let reason = trace.is_cpu_only().then_some("no GPU activity");
        let scopes = StepScopes::every(trace);
        let tables = vec![
            classes(trace, options),
            categories::table(trace, &scopes, options),
            by_name::table(trace, options, &scopes),
        ];
        Partial { rank: trace.rank, tables, reason }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let scope = options.printed_scope("span");
        let names = top_names(partials, scope, |_| Vec::new());
        let all: Ns = names.iter().map(|n| n.sum_ns).sum();
        // The printed rows have the same keys as the table.
        let keys: Vec<&KernelKeyColumn> = KEY_COLUMNS.iter().filter(|k| options.settings.has(&BY, k.0)).collect();
        let cells = |row: &KernelsByNameRow| keys.iter().map(|k| k.3(row).unwrap_or("-".to_string())).collect();
        let rows = top_names(partials, scope, cells);
        let row = |n: &NameTotal| {
            let mut row = vec![n.short_name.clone()];
            row.extend(n.cells.iter().map(|cell| dimensions(cell)));
            // Further keys take the place of the class and the share.
            row.extend(keys.is_empty().then(|| n.class.clone()));
            row.extend([fmt_count(n.count as u64), fmt_ns(n.sum_ns), fmt_ns(n.sum_ns / n.count.max(1))]);
            row.extend(keys.is_empty().then(|| fmt_pct(percent(n.sum_ns, all))));
            row
        };
        let view = View {
            title: format!("Kernels by summed time, {}", plural(partials.len(), "rank")),
            columns: [("kernel", Align::Left)]
                .into_iter()
                .chain(keys.iter().map(|k| (k.1, k.2)))
                .chain(keys.is_empty().then_some(("class", Align::Left)))
                .chain([("count", Align::Right), ("sum", Align::Right), ("mean", Align::Right)])
                .chain(keys.is_empty().then_some(("share", Align::Right)))
                .collect(),
            rows: rows.iter().take(options.top).map(row).collect(),
            notes: reasons(partials)
                .into_iter()
                .chain((rows.len() > options.top).then(|| {
                    let noun = if keys.is_empty() { "more name" } else { "more row" };
                    format!("{} in the table", plural(rows.len() - options.top, noun))
                }))
                .collect(),
        };
        let mut observations = Vec::new();
        if let Some(n) = names.iter().find(|n| n.class == WorkClass::Compute.name()) {
            let share = percent(n.sum_ns, all);
            if share.is_some_and(|s| s >= 10.0) {
                let ranks = partials.len() as i64;
                observations.push(Observation {
                    analysis: self.about().stem,
                    ranks: Vec::new(),
                    steps: Vec::new(),
                    cost_ns_per_step: n.sum_ns / (ranks * n.steps.max(1)).max(1),
                    share_of_step: None,
                    certainty: Certainty::Measured,
                    sentence: format!(
                        "`{}` is the kernel with most compute time: {} of all GPU time, {} of {}{}",
                        clip(&n.short_name, 60),
                        fmt_pct(share),
                        counted(n.count as u64, "call"),
                        fmt_ns(n.sum_ns / n.count.max(1)),
                        if n.count == 1 { "" } else { " on average" }
                    ),
                    table: KernelsByName::SPEC.name,
                });
            }
        }
        let tables = [KernelsByName::SPEC, KernelCategories::SPEC, KernelClasses::SPEC]
            .iter()
            .flat_map(|spec| partials.iter().filter_map(|p| p.table(spec).cloned()))
            .collect();
        let views = vec![categories::view(partials, scope), view];
        Output { tables, observations, views, ..Output::default() }
    }
}

fn classes(trace: &RankTrace, options: &Options) -> Batch {
    let mut table = KernelClasses::default();
    for (work, windows) in WindowAccounts::of(trace).by_device(trace, &options.model) {
        for w in windows {
            let s = w.shares;
            for set in WorkClassSet::SETS {
                table.push(KernelClassRow {
                    rank: trace.rank,
                    device: work.device,
                    scope: w.scope.name(),
                    step: w.step,
                    step_label: w.label,
                    ts_ns: w.start(),
                    dur_ns: w.len(),
                    classes: &set.name(),
                    time_ns: s.exactly(set),
                    busy_pct: percent(s.exactly(set), s.busy()),
                });
            }
        }
    }
    table.finish()
}

/// Formats a grid or block: `32x256` for `[32,256,1]`; other texts are unchanged.
fn dimensions(text: &str) -> String {
    let Some(inside) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) else { return text.to_string() };
    let all: Vec<&str> = inside.split(',').map(str::trim).collect();
    if !all.iter().all(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit())) {
        return text.to_string();
    }
    let last = all.iter().rposition(|d| *d != "1").unwrap_or(0);
    all.get(..=last).map_or_else(|| text.to_string(), |shown| shown.join("x"))
}

/// The activities of a device by window and key, without steps that were not asked for. The first window has all.
fn by_key<K: Copy + Eq + Hash>(
    trace: &RankTrace,
    work: &DeviceWork,
    (scopes, options): (&StepScopes, &Options),
    mut key: impl FnMut(u32) -> K,
) -> Vec<(usize, K, Vec<u32>)> {
    let mut groups: ByOwner<K, Vec<u32>> = ByOwner::default();
    for &i in &work.activities {
        groups.charge(scopes.of(trace.activities[i as usize].step()), key(i), |of| of.push(i));
    }
    let step = |window: usize| scopes.windows().get(window).and_then(|w| scopes.step(w));
    groups.into_rows().filter(|(window, ..)| step(*window).is_none_or(|s| options.model.selects(s))).collect()
}

/// The name of a window: of the first that of the span of the device.
fn scope_name(window: &Window) -> &'static str {
    if window.scope == Scope::Capture { Scope::Span.name() } else { window.scope.name() }
}

/// The durations of the activities of each window, ns.
fn sums<K>(trace: &RankTrace, scopes: &StepScopes, groups: &[(usize, K, Vec<u32>)]) -> Vec<Ns> {
    let mut sums = vec![0; scopes.windows().len()];
    for (window, _, of) in groups {
        sums[*window] += of.iter().map(|i| trace.activities[*i as usize].span.len()).sum::<Ns>();
    }
    sums
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
