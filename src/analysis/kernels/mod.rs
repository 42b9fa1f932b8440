//! Kernel breakdown: time by set of classes that run concurrently, and by kernel name.

mod by_name;
mod callers;
mod categories;
mod occupied;
mod over_ranks;
mod report;

pub use by_name::{KernelsByName, KernelsByNameRow};
pub use categories::{CategoriesOverRanks, KernelCategories};
pub use over_ranks::KernelsOverRanks;
pub use report::ShortNames;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use crate::settings::{Setting, ValueType};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, percent};
use hta_facts::by_owner::ByOwner;
use hta_facts::step_scopes::StepScopes;
use hta_facts::windows::WindowAccounts;
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::{WorkClass, WorkClassSet};
use hta_trace::window::{Scope, Window};
use std::hash::Hash;

table! {
    /// Time in which exactly this set of classes runs; the rows of a window sum to its busy time.
    pub(crate) struct KernelClasses, KernelClassRow = "kernel_classes"
        by "rank, device, scope, step, classes" {
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
    help: "Additional keys of kernels_by_name: category, op, input, direction, layer, shape, stream, joined \
           by commas",
    kind: ValueType::Choices(&["category", "op", "input", "direction", "layer", "shape", "stream"]),
};

const UNKNOWN: Setting = Setting {
    stem: "kernels",
    flag: "--unknown",
    value: "",
    help: "List the kernels that no rule knows by time: class compute by default, and no category or role",
    kind: ValueType::Flag,
};

pub struct Kernels;

impl Analysis for Kernels {
    fn about(&self) -> About {
        About {
            stem: "kernels",
            title: "GPU time by what kernels do, by class, and by kernel name",
            explain: include_str!("page.md"),
            tables: &[
                KernelsByName::SPEC,
                KernelCategories::SPEC,
                KernelClasses::SPEC,
                KernelsOverRanks::SPEC,
                ShortNames::SPEC,
                CategoriesOverRanks::SPEC,
            ],
            views: &[categories::VIEW, report::VIEW],
            rollups: &[categories::OVER_RANKS],
            settings: &[BY, UNKNOWN],
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
        let names = report::table(partials, options);
        let mut out = Output::default();
        if options.settings.flag(&UNKNOWN) {
            let is_none = names.is_empty() && partials.iter().any(|p| p.reason.is_none());
            out.notes
                .extend(is_none.then(|| ViewNote { view: "", text: "no kernel without a rule".to_string() }));
            let of_names = partials.iter().filter_map(|p| p.table(KernelsByName::SPEC));
            out.tables.extend(of_names.map(over_ranks::unknown_of));
        }
        out.tables.extend([over_ranks::table(partials, options.settings.flag(&UNKNOWN)), names]);
        out
    }
}

fn classes(trace: &RankTrace, options: &Options) -> Batch {
    let mut table = KernelClasses::default();
    for (work, windows) in WindowAccounts::of(trace).by_device(trace, &options.model) {
        let sets = if work.timeline.has(WorkClass::Fused) { 15 } else { 7 };
        for w in windows {
            let s = w.shares;
            for set in WorkClassSet::SETS.into_iter().take(sets) {
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

/// The activities of a device by window and key, without steps that were not asked for. The first window has
/// all.
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
    groups
        .into_rows()
        .filter(|(window, ..)| scopes.is_asked(&scopes.windows()[*window], &options.model))
        .collect()
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
