//! Kernel breakdown: time by set of classes that run concurrently, and by kernel name.

mod categories;
pub mod totals;

pub use categories::KernelCategories;

use crate::analysis::api::{
    About, Align, Analysis, Certainty, Observation, Options, Output, Partial, RowEmitter, View,
};
use crate::analysis::population::reasons;
use crate::analysis::settings::{Setting, ValueType};
use crate::analysis::summary::Summary;
use crate::facts::collectives::collectives;
use crate::facts::kernel_work::{KernelWork, KernelWorks};
use crate::job::Job;
use crate::kernel::{kernel_id, short_name};
use crate::table;
use crate::table::schema::{Batch, Text};
use crate::trace::activity::Activity;
use crate::trace::args::Arg;
use crate::trace::device::DeviceWork;
use crate::trace::rank_trace::RankTrace;
use crate::trace::rules::copy_kind;
use crate::trace::step::Step;
use crate::trace::strings::StrId;
use crate::trace::timeline::{WorkClass, WorkClassSet};
use crate::trace::window::Scope;
use crate::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use crate::wording::counts::{counted, plural};
use crate::wording::names::clip;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use totals::{NameTotal, top_names};

table! {
    /// Time in which exactly this set of classes runs; the rows of a window sum to its busy time.
    pub struct KernelClasses, KernelClassRow = "kernel_classes" by "rank, device, scope, step, classes" {
        rank; device; scope; step; step_label; ts_ns; dur_ns;
        classes: Text, "", "compute, communication, memory, or several joined by +";
        time_ns: i64, "ns", "time in which exactly these classes run";
        busy_pct: Option<f64>, "%", "of the window's busy time";
    }
}

table! {
    /// Summed durations by class and kernel name. Concurrent kernels count twice here; busy shares are in `kernel_classes`.
    pub struct KernelsByName, KernelsByNameRow = "kernels_by_name" by "rank, device, scope, step, sum_ns descending, name" {
        rank; device;
        scope: Text, "", "span: all activities; step: those launched in it; outside: the rest";
        step: Option<u32>, "", "index of the step of the launch";
        step_label;
        class: Text, "", "compute, communication or memory";
        class_reason: Text, "", "name of the kernel rule that set the class";
        kind: Option<Text>, "", "kind of collective or direction of copy";
        name: Text, "", "full name";
        short_name: Text, "", "what tells it apart: last part of the path, functors, types, tile sizes; without parameters";
        kernel_id: Text, "", "first 4 hexadecimal digits of the FNV-1a hash of the full name";
        category: Text, "", "what it does, as in kernel_categories";
        category_reason: Text, "", "what the category follows from: row, args, name, name+op, name+range, op or none";
        op: Option<Text>, "", "owning operator, or `[unlinked]` (with --by op)";
        grid: Option<Text>, "", "blocks (with --by shape)";
        block: Option<Text>, "", "threads per block (with --by shape)";
        stream: Option<i64>, "", "stream (with --by stream)";
        count: u64, "", "activities";
        sum_ns: i64, "ns", "sum of durations";
        mean_ns: f64, "ns", "mean duration";
        min_ns: i64, "ns", "shortest";
        max_ns: i64, "ns", "longest";
        std_ns: Option<f64>, "ns", "sample standard deviation; null for one";
        p50_ns: i64, "ns", "median, nearest rank";
        p95_ns: i64, "ns", "95th percentile, nearest rank";
        time_pct: Option<f64>, "%", "of the summed durations of the scope";
        cum_pct: Option<f64>, "%", "running sum of time_pct down the table";
        stream_count: u32, "", "distinct streams";
        first_ts_ns: i64, "ns", "first start";
    }
}

const BY: Setting = Setting {
    stem: "kernels",
    flag: "--by",
    value: "KEYS",
    help: "Additional keys of kernels_by_name: category, op, shape, stream, joined by commas",
    kind: ValueType::Choices(&["category", "op", "shape", "stream"]),
};

/// A column that a key of `--by` adds to the printed table: key, heading, alignment and cell of a row.
type KeyColumn = (&'static str, &'static str, Align, fn(&KernelsByNameRow) -> Option<String>);

const KEY_COLUMNS: [KeyColumn; 5] = [
    ("category", "category", Align::Left, |r| Some(r.category.replace('_', " "))),
    ("op", "operator", Align::Left, |r| r.op.map(str::to_string)),
    ("shape", "grid", Align::Right, |r| r.grid.map(str::to_string)),
    ("shape", "block", Align::Right, |r| r.block.map(str::to_string)),
    ("stream", "stream", Align::Right, |r| r.stream.map(|s| s.to_string())),
];

pub struct Kernels;

impl Analysis for Kernels {
    fn about(&self) -> About {
        About {
            stem: "kernels",
            title: "GPU time by what kernels do, by class, and by kernel name",
            explain: include_str!("page.md"),
            tables: &[KernelsByName::SPEC, KernelCategories::SPEC, KernelClasses::SPEC],
            settings: &[BY],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        let reason = trace.is_cpu_only().then_some("no GPU activity");
        let scopes = scopes(trace, options);
        let tables = vec![classes(trace, options), categories::table(trace, &scopes), by_name(trace, options, &scopes)];
        Partial { rank: trace.rank, tables, reason }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let scope = options.printed_scope("span");
        let names = top_names(partials, scope, |_| Vec::new());
        let all: Ns = names.iter().map(|n| n.sum_ns).sum();
        // The printed rows have the same keys as the table.
        let keys: Vec<&KeyColumn> = KEY_COLUMNS.iter().filter(|k| options.settings.has(&BY, k.0)).collect();
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
    for work in &trace.devices {
        for w in trace.windows(work, &options.model) {
            let s = work.timeline.shares_in_all(&w.parts);
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

/// Selected keys of `kernels_by_name`.
#[derive(Debug, Clone, Copy)]
struct SelectedKeys {
    op: bool,
    shape: bool,
    stream: bool,
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

/// Identifies a row of `kernels_by_name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct KernelKey {
    work: WorkClass,
    name: StrId,
    rule: u16,
    does: KernelWork,
    kind: Option<&'static str>,
    /// The owning operator; `Unlinked` if the launch is unknown.
    op: Option<Owner>,
    grid: Option<StrId>,
    block: Option<StrId>,
    stream: Option<i64>,
}

/// The operator that launched an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Op(StrId),
    Unlinked,
}

/// Display name for activities without a launch record.
const UNLINKED: &str = "[unlinked]";

fn key(trace: &RankTrace, a: &Activity, does: KernelWork, keys: SelectedKeys) -> KernelKey {
    let args = &trace.columns.args;
    let kind = match a.work {
        WorkClass::Communication => Some(collectives(trace).kind_of(a.row).name()),
        WorkClass::Memory => Some(copy_kind(a.class, trace.text(a.name))),
        WorkClass::Compute => None,
    };
    KernelKey {
        work: a.work,
        name: a.name,
        rule: a.rule,
        does,
        kind,
        op: match (keys.op, a.launch(), a.op()) {
            (false, _, _) | (true, Some(_), None) => None,
            (true, None, _) => Some(Owner::Unlinked),
            (true, Some(_), Some(o)) => Some(Owner::Op(trace.columns.name(o as usize))),
        },
        grid: keys.shape.then(|| args.text(Arg::Grid, a.row)).flatten(),
        block: keys.shape.then(|| args.text(Arg::Block, a.row)).flatten(),
        stream: keys.stream.then_some(a.stream()).flatten(),
    }
}

fn by_name(trace: &RankTrace, options: &Options, scopes: &[ScopeActivities]) -> Batch {
    let mut table = KernelsByName::default();
    let mut short = HashMap::new();
    for (work, scope, step, activities) in scopes {
        push_names(&mut table, trace, options, work.device, *scope, *step, activities, &mut short);
    }
    table.finish()
}

/// Activities of a device in a scope: all, those launched in a step, or the rest.
type ScopeActivities<'a> = (&'a DeviceWork, Scope, Option<&'a Step>, Vec<u32>);

/// The activities of the devices by scope, without steps that were not asked for.
fn scopes<'a>(trace: &'a RankTrace, options: &Options) -> Vec<ScopeActivities<'a>> {
    let mut out = Vec::new();
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        let mut scopes: BTreeMap<(Scope, Option<u32>), Vec<u32>> = BTreeMap::new();
        scopes.insert((Scope::Span, None), work.activities.clone());
        if !trace.steps.steps.is_empty() {
            for &i in &work.activities {
                let step = trace.activities[i as usize].step();
                let scope = if step.is_some() { Scope::Step } else { Scope::Outside };
                scopes.entry((scope, step)).or_default().push(i);
            }
        }
        for ((scope, step), activities) in scopes {
            let step = step.and_then(|s| trace.steps.steps.get(s as usize));
            if step.is_none_or(|s| options.model.steps.as_ref().is_none_or(|f| f.keeps(s.index, s.label))) {
                out.push((work, scope, step, activities));
            }
        }
    }
    out
}

#[expect(clippy::too_many_arguments, reason = "one row group of one table")]
fn push_names(
    table: &mut KernelsByName,
    trace: &RankTrace,
    options: &Options,
    device: Option<i64>,
    scope: Scope,
    step: Option<&Step>,
    activities: &[u32],
    short: &mut HashMap<StrId, String>,
) {
    let asked = |key| options.settings.has(&BY, key);
    let keys = SelectedKeys { op: asked("op"), shape: asked("shape"), stream: asked("stream") };
    let works = KernelWorks::of(trace);
    let mut groups: HashMap<KernelKey, Vec<u32>> = HashMap::new();
    for &i in activities {
        groups.entry(key(trace, &trace.activities[i as usize], works.at(i), keys)).or_default().push(i);
    }
    let all: Ns = activities.iter().map(|&i| trace.activities[i as usize].span.len()).sum();
    let mut rows: Vec<(KernelKey, Summary, Vec<u32>)> = groups
        .into_iter()
        .map(|(k, rows)| {
            (k, Summary::new(rows.iter().map(|&i| trace.activities[i as usize].span.len()).collect()), rows)
        })
        .collect();
    // Sort by the text of names, so that ids (the order of the file) do not affect the output.
    rows.sort_by(|a, b| {
        (b.1.sum, trace.text(a.0.name), a.0.kind).cmp(&(a.1.sum, trace.text(b.0.name), b.0.kind)).then(a.2.cmp(&b.2))
    });
    let mut cumulated = 0;
    for (k, s, members) in rows {
        cumulated += s.sum;
        let name = trace.text(k.name);
        let streams: std::collections::BTreeSet<_> =
            members.iter().map(|&i| trace.activities[i as usize].stream()).collect();
        table.push(KernelsByNameRow {
            rank: trace.rank,
            device,
            scope: scope.name(),
            step: step.map(|s| s.index),
            step_label: step.and_then(|s| s.label),
            class: k.work.name(),
            class_reason: options.model.rules.reason(k.rule),
            kind: k.kind,
            name,
            short_name: short.entry(k.name).or_insert_with(|| short_name(name)),
            kernel_id: &kernel_id(name),
            category: k.does.category.name(),
            category_reason: k.does.reason.name(),
            op: k.op.map(|o| match o {
                Owner::Op(name) => trace.text(name),
                Owner::Unlinked => UNLINKED,
            }),
            grid: k.grid.map(|o| trace.text(o)),
            block: k.block.map(|o| trace.text(o)),
            stream: k.stream,
            count: s.count,
            sum_ns: s.sum,
            mean_ns: s.mean,
            min_ns: s.min,
            max_ns: s.max,
            std_ns: s.std,
            p50_ns: s.p50,
            p95_ns: s.p95,
            time_pct: percent(s.sum, all),
            cum_pct: percent(cumulated, all),
            stream_count: streams.len() as u32,
            first_ts_ns: members.iter().map(|&i| trace.activities[i as usize].span.start).min().unwrap_or(0),
        });
    }
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
