//! `hta diff`: compares two sets of traces, before and after a change: the time of a step on each side, and
//! what the difference consists of.
//!
//! Two runs are compared by their results, whether these are in a folder, in a store, or in memory because
//! the traces were just analysed: one function for `hta diff`, the page of two runs and the server for
//! assistants. [`Diff`], which declares the tables and options, is no analysis of the registry, because it
//! compares two sets. It maps only what no results hold: GPU time by operator or module.
//!
//! ```text
//!   base/  --analyses-->  Results  --ComparedRun-->  Set  \
//!                                                          RunPair::compare -> tables, sentences, views, thresholds
//!   test/  --analyses-->  Results  --ComparedRun-->  Set  /
//! ```
//!
//! Every figure is per full step, as a mean over the compared ranks. It remains a fraction of integers (see
//! `exact`) until it is written to a row, so that parts sum to the change exactly. A host row includes nested
//! events; the `self` columns exclude them.

pub mod causes;
mod comparability;
pub mod comparable;
pub(crate) mod exact;
pub mod iterations;
mod named_sums;
mod names;
mod notes;
mod owners;
mod pair;
mod population;
mod read_set;
mod report;
mod sentences;
pub(crate) mod set;
mod summary;
pub mod threshold;
mod words;

pub use comparability::Comparability;
pub use owners::KEYS_OF_TRACES;
pub(crate) use pair::ComparedExtent;
pub use pair::RunPair;
pub use population::PopulationError;
pub use read_set::ComparedRun;
pub use report::DiffBasis;

use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use hta_analysis::settings::SHORT_NAMES;
use hta_analysis::settings::{Setting, ValueType};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_diagnosis::registry::find;
use hta_job::Job;
use hta_trace::rank_trace::RankTrace;

table! {
    /// A step's time and what it consists of on both sides, per full step, mean over the ranks compared. The
    /// changes of the parts sum to that of step_time.
    pub struct Summaries, SummaryRow = "diff_summary" by "metric: step_time, its parts, other totals" {
        metric: Text, "",
            "step_time; its parts compute, waiting, transfer, unmatched, copies, idle; totals communication \
             and all_copies, which compute may hide; not_idle; gpu_time: summed durations of the activities \
             launched in the step";
        is_part: bool, "", "one of the parts that sum to step_time";
        scope: Text, "", "step, or capture where a rank has no steps";
        base_rank_count: u32, "", "ranks compared";
        test_rank_count: u32, "", "ranks compared";
        base_step_count: u64, "", "steps counted, over these ranks";
        test_step_count: u64, "", "steps counted, over these ranks";
        base_ns_per_step: f64, "ns", "before";
        test_ns_per_step: f64, "ns", "after";
        delta_ns_per_step: f64, "ns", "test - base";
        delta_pct: Option<f64>, "%", "of base";
        share_of_change_pct: Option<f64>, "%", "of the change of step_time (step_time and its parts); \
             null where it changes by less than 1 %";
        base_std_ns: Option<f64>, "ns", "sample standard deviation over steps, each the mean over its ranks";
        test_std_ns: Option<f64>, "ns", "the same of test";
        std_error_ns: Option<f64>, "ns", "standard error of the change; null below three steps on a side";
        is_significant: Option<bool>, "",
            "the change is more than three standard errors; null where there is none";
    }
}

table! {
    /// What GPU activities and host events of one name cost on both sides, per full step, mean over the ranks
    /// compared.
    pub(crate) struct DiffNames, DiffNameRow = "diff_by_name"
        by "absolute delta_ns_per_step descending, side, class, name" {
        side: Text, "", "gpu: activities, by the step of their launch; host: events that start in the step";
        class: Text, "",
            "compute, communication, memory; operator, runtime_call, annotation, python, collective";
        name: Text, "",
            "full name (--short-names: short names, as in kernels_by_name); gpu with --by: category, \
             operator or module";
        change: Text, "", "of the count: added, deleted, increased, decreased, unchanged";
        trend: Text, "",
            "of the time: slower, faster; same; within_noise; unknown: fewer than three steps on a side";
        base_count_per_step: f64, "", "before";
        test_count_per_step: f64, "", "after";
        delta_count_per_step: f64, "", "test - base";
        base_ns_per_step: f64, "ns", "summed durations; a host event includes what it encloses";
        test_ns_per_step: f64, "ns", "the same of test";
        delta_ns_per_step: f64, "ns", "test - base";
        delta_pct: Option<f64>, "%", "of base";
        base_self_ns_per_step: f64, "ns", "without enclosed events of the same call tree";
        test_self_ns_per_step: f64, "ns", "the same of test";
        delta_self_ns_per_step: f64, "ns", "test - base";
        share_of_change_pct: Option<f64>, "%",
            "of the change of all self time on the GPU, or in the host's call tree (operators and runtime \
             calls; annotations; python; collectives); null where it or step_time changes by less than 1 %";
        step_pct: Option<f64>, "%", "delta_ns_per_step as a share of base's step time";
        base_std_ns: Option<f64>, "ns",
            "sample standard deviation of ns over steps, each the mean over its ranks";
        test_std_ns: Option<f64>, "ns", "the same of test";
        std_error_ns: Option<f64>, "ns", "standard error of the change; null below three steps on a side";
        is_significant: Option<bool>, "",
            "the change is more than three standard errors; null where there is none";
    }
}

table! {
    /// Every step of both sides, also those that do not count.
    pub(crate) struct DiffSteps, DiffStepRow = "diff_steps" by "set, rank, device, step" {
        set: Text, "", "base or test";
        rank; device;
        scope: Text, "", "step; capture: the whole recording, for sets without steps";
        step; step_label;
        is_partial: bool, "", "the step is cut by the capture, or has far less work than the others";
        is_counted: bool, "", "the step counts in the means";
        basis: Text, "", "gpu: device activities; cpu: host work; none: the rank did neither";
        ts_ns; dur_ns;
        compute_ns: i64, "ns", "|C|: compute runs";
        fused_ns: i64, "ns", "|F \\ C|: fused kernels (exchange and product in one) run and no compute";
        waiting_ns: i64, "ns", "communication without compute, in which a rank waits for another";
        transfer_ns: i64, "ns", "communication without compute, in which data moves";
        unmatched_ns: i64, "ns",
            "communication without compute, of which a side does not know whether it is waiting or transfer";
        copies_ns: i64, "ns", "|M \\ (C u F u K)|: only copies or sets run";
        idle_ns: i64, "ns", "nothing runs";
        communication_ns: i64, "ns", "|K|";
        all_copies_ns: i64, "ns", "|M|";
        not_idle_ns: i64, "ns", "|C u F u K u M|";
    }
}

const STEM: &str = "diff";

/// Key of GPU rows.
pub const BY: Setting = Setting {
    stem: STEM,
    flag: "--by",
    value: "KEY",
    help: "Key of GPU rows: name, category, op (owning operator), op,shape (with the shapes of its inputs) \
           or module (path of nn.Module frames around the launch)",
    kind: ValueType::Choice(&["name", "category", "op", "op,shape", "module"]),
};

pub const PAGE: &str = include_str!("page.md");

/// The mapper of `hta diff`, which also declares its tables and options.
pub(crate) struct Diff;

/// The analyses whose tables are compared.
const NEEDED: [&str; 5] = ["breakdown", "steps", "kernels", "diagnosis", "iterations"];

/// What is to be run on traces that are compared. The rows of `host_by_name` are to be kept.
pub fn analyses() -> Vec<&'static dyn Analysis> {
    std::iter::once(DIFF).chain(NEEDED.into_iter().filter_map(find)).collect()
}

/// The instance that the pipeline runs.
pub static DIFF: &dyn Analysis = &Diff;

impl Analysis for Diff {
    fn about(&self) -> About {
        About {
            stem: STEM,
            title: "two sets of traces, before and after: what became slower or faster",
            explain: PAGE,
            tables: &[
                Summaries::SPEC,
                DiffNames::SPEC,
                DiffSteps::SPEC,
                Comparability::SPEC,
                causes::DiffCauses::SPEC,
                iterations::DiffIterations::SPEC,
            ],
            settings: &[BY, SHORT_NAMES],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        Partial { rank: trace.rank, tables: owners::map(trace, options).into_iter().collect(), reason: None }
    }

    /// Passes the partials on unchanged, because only two sets together can be reduced.
    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        let tables = partials.iter().flat_map(|p| p.tables.iter().cloned()).collect();
        Output { tables, ..Output::default() }
    }
}
