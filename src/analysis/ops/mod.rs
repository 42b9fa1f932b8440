//! Operators and modules: host and GPU time, FLOPs, bytes and rates against what the device can do. Times in
//! ns.
//!
//! A rank's operators and API calls are one forest ([`hta_facts::calls`]), with the GPU work that each
//! launches directly or below it. Sums of GPU durations count concurrent streams twice, so every GPU time is
//! given as a sum and as a union.

pub mod anomalies;
pub mod call_tree;
pub mod flame;
mod folded;
mod formats;
mod graph_parts;
pub(crate) mod keys;
pub mod mfu;
pub mod modules;
mod operator_sums;
pub mod operators;
pub mod over_ranks;
mod views;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use crate::settings::{Setting, ValueType};
use crate::stacks::{self, StackNodes, StackUnit, Weight};
use anomalies::{Anomalies, AnomaliesOverRanks};
use call_tree::CallTree;
use flame::Flame;
use graph_parts::{GraphParts, NamedParts};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::Ns;
use hta_facts::calls::CallForest;
use hta_facts::graphs::named::NamedNodes;
use hta_facts::modules::InModules;
use hta_facts::operator_work::OperatorWorks;
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use keys::{CallKey, KeyTexts, Keys};
use mfu::{Mfu, MfuByDevice, MfuOverRanks};
use modules::ModulesTable;
use operators::Operators;
use over_ranks::{ModulesOverRanks, OperatorsOverRanks};

table! {
    /// One row per rank: contents of its call trees, and events that could not be placed in them.
    pub(crate) struct CallStacks, CallStackRow = "call_stacks" by "rank" {
        rank;
        scope: Text, "", "capture";
        ts_ns: i64, "ns", "start of the capture";
        dur_ns: i64, "ns", "length of the capture";
        step_count: u64, "", "steps; 1 (the capture) if none are marked";
        steps_ns: i64, "ns", "their length on the host";
        op_count: u64, "", "operators";
        api_count: u64, "", "runtime and driver calls";
        frame_count: u64, "", "Python frames";
        max_depth: u32, "", "operators and calls around the innermost one";
        root_ns: i64, "ns", "sum of the outermost operators and calls, over threads";
        host_self_ns: i64, "ns", "part of root_ns in operators themselves";
        host_api_ns: i64, "ns", "part of root_ns in API calls";
        gpu_ns: i64, "ns", "sum of all GPU work";
        gpu_op_ns: i64, "ns", "part of gpu_ns launched inside operators";
        gpu_top_level_ns: i64, "ns", "part of gpu_ns launched outside any operator";
        gpu_unlinked_ns: i64, "ns", "part of gpu_ns whose launch is unknown";
        graph_activity_count: u64, "", "activities that graphs replay";
        graph_named_count: u64, "", "of these, named by a capture (hta explain graph-ops)";
        graph_ns: i64, "ns", "part of gpu_ns that graphs replay";
        graph_unnamed_ns: i64, "ns", "part of graph_ns without a name, which is in no operator";
        clipped_count: u64, "", "events cut because they extend beyond their parent by less than 1 us";
        sibling_count: u64, "", "events that overlap another one partially";
        has_shapes: bool, "", "shapes of inputs are recorded (record_shapes=True)";
        unknown_work_count: u64, "",
            "calls of operators with a model of their work whose inputs do not say how much it is";
        bwd_rule: Option<Text>, "",
            "how backward operators were joined: flow or sequence; null if nothing was recorded for it";
        bwd_joined_count: u64, "", "backward operators with a forward operator";
        bwd_unmatched_count: u64, "", "backward operators without a forward operator";
    }
}

const BY: Setting = Setting {
    stem: "ops",
    flag: "--by",
    value: "KEYS",
    help: "Additional keys of operators: shape, args, module, direction, thread, stack, step, joined by \
           commas",
    kind: ValueType::Choices(&["shape", "args", "module", "direction", "thread", "stack", "step"]),
};

/// Columns of another tool, which the command sets for `--format torch` and `--format tensorboard`.
pub const COLUMNS: Setting = Setting {
    stem: "ops",
    flag: "--columns",
    value: "TOOL",
    help: "Print one table with the columns of torch.profiler (torch) or the TensorBoard plugin \
           (tensorboard)",
    kind: ValueType::Choice(&["hta", "torch", "tensorboard"]),
};

const FOLDED: Setting = Setting {
    stem: "ops",
    flag: "--folded",
    value: "WEIGHT",
    help: "Print folded stacks for flame graphs: self (host time) or gpu (GPU durations), in ns",
    kind: ValueType::Choice(&["none", "self", "gpu"]),
};

const SPEEDSCOPE: Setting = Setting {
    stem: "ops",
    flag: "--speedscope",
    value: "FILE",
    help: "Write the stacks to a file for speedscope: host time, or GPU durations with --folded gpu",
    kind: ValueType::OutputFile,
};

pub struct Ops;

impl Analysis for Ops {
    fn about(&self) -> About {
        About {
            stem: "ops",
            title: "operators and modules: host and GPU time, FLOPs, bytes, utilization (MFU)",
            explain: include_str!("page.md"),
            tables: &[
                Operators::SPEC,
                ModulesTable::SPEC,
                Mfu::SPEC,
                MfuByDevice::SPEC,
                MfuOverRanks::SPEC,
                Anomalies::SPEC,
                CallStacks::SPEC,
                Flame::SPEC,
                CallTree::SPEC,
                OperatorsOverRanks::SPEC,
                ModulesOverRanks::SPEC,
                AnomaliesOverRanks::SPEC,
            ],
            views: &views::VIEWS,
            rollups: &[over_ranks::MODULES, anomalies::OVER_RANKS, mfu::BY_DEVICE],
            kept_tables: &[StackNodes::SPEC, GraphParts::SPEC, mfu::NamelessDevices::SPEC],
            settings: &[BY, FOLDED, SPEEDSCOPE],
            is_long: true,
            needs: &[Capability::DeviceTime],
            ..About::DEFAULT
        }
    }

    fn reads_event_args(&self, options: &Options) -> bool {
        ["shape", "args", "stack"].into_iter().any(|key| options.settings.has(&BY, key))
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let mut partial = Partial { rank: trace.rank, tables: Vec::new(), reason: None };
        if trace.stacks.is_empty() {
            partial.reason = Some("no host events");
            return partial;
        }
        let calls = CallForest::new(trace);
        let keys = Keys::new(|name| options.settings.has(&BY, name));
        let texts = KeyTexts::new(&calls, &keys);
        partial.tables = vec![
            operators::table(&calls, &keys, &texts, options),
            modules::table(&calls, &InModules::shared(&calls)),
            mfu::table(trace, options),
            anomalies::table(&calls),
            summary(&calls),
            graph_parts::table(trace),
            mfu::nameless(trace),
        ];
        if options.wants(Flame::SPEC) {
            partial.tables.push(flame::table(&calls));
        }
        if let Some(weight) = weight(options) {
            partial.tables.push(folded::fold(&calls, weight));
        }
        if options.wants_per_event(CallTree::SPEC) {
            call_tree::rows(&calls, give);
        }
        partial
    }

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let operators = over_ranks::operators(partials);
        let (mfu, notes) = mfu::over_ranks(partials);
        let folded = Weight::named(options.settings.text(&FOLDED));
        let title = weight(options).map_or("", Weight::title);
        Output {
            operators: views::with_most_gpu_time(&operators, &NamedParts::of(partials)),
            tables: vec![operators, mfu],
            notes: notes.into_iter().map(|text| ViewNote { view: mfu::VIEW.title, text }).collect(),
            headline: mfu::headline(partials),
            raw: folded.map(|_| stacks::folded(partials)).or_else(|| formats::text(partials, options)),
            files: options
                .settings
                .text(&SPEEDSCOPE)
                .map(|path| stacks::speedscope_file(path, title, StackUnit::Nanoseconds, partials))
                .into_iter()
                .collect(),
            ..Output::default()
        }
    }
}

/// The values of the stacks, if any are asked for.
fn weight(options: &Options) -> Option<Weight> {
    let of_file = options.settings.is_given(&SPEEDSCOPE).then_some(Weight::Host);
    Weight::named(options.settings.text(&FOLDED)).or(of_file)
}

fn summary(calls: &CallForest) -> Batch {
    let trace = calls.trace;
    let count = |class: Class| trace.classes.iter().filter(|c| **c == class).count() as u64;
    let (works, named) = (OperatorWorks::of(trace), NamedNodes::of(trace));
    let gpu = |of: &dyn Fn(u32) -> bool| -> Ns {
        calls.own.iter().filter(|o| of(o.0)).map(|o| trace.activities[o.1 as usize].span.len()).sum()
    };
    let roots = (0..calls.forest.call_count() as u32).filter(|&p| calls.forest.parent(p).is_none());
    let depth = calls.forest.rows.iter().filter_map(|&r| trace.stacks.depth(r)).max();
    let mut table = CallStacks::default();
    table.push(CallStackRow {
        rank: trace.rank,
        scope: "capture",
        ts_ns: trace.capture.start,
        dur_ns: trace.capture.len(),
        step_count: trace.steps.steps.len().max(1) as u64,
        steps_ns: match trace.steps.rule {
            StepRule::Capture => trace.capture.len(),
            _ => trace.steps.steps.iter().map(|s| s.host.len()).sum(),
        },
        op_count: count(Class::HostOp),
        api_count: count(Class::Runtime),
        frame_count: count(Class::Python),
        max_depth: depth.unwrap_or(0),
        root_ns: roots.map(|p| calls.host_ns[p as usize]).sum(),
        host_self_ns: (0..calls.forest.call_count() as u32).map(|p| calls.host_self_ns(p)).sum(),
        host_api_ns: calls.host_api_ns.iter().sum(),
        gpu_ns: trace.gpu_ns(),
        gpu_op_ns: gpu(&|p| calls.is_op(p)),
        gpu_top_level_ns: gpu(&|p| !calls.is_op(p)),
        graph_activity_count: named.activities,
        graph_named_count: named.named,
        graph_ns: named.graph_ns,
        graph_unnamed_ns: named.unnamed_ns,
        gpu_unlinked_ns: trace.unlinked_ns(),
        clipped_count: trace.stacks.clipped,
        sibling_count: trace.stacks.siblings,
        has_shapes: works.has_shapes,
        unknown_work_count: works.unknown,
        bwd_rule: calls.backward.rule,
        bwd_joined_count: calls.backward.pairs.len() as u64,
        bwd_unmatched_count: calls.backward.unmatched,
    });
    table.finish()
}

/// Whether a key was chosen that the columns of other tools have.
fn by_shape(options: &Options) -> bool {
    options.settings.has(&BY, CallKey::Shape.name())
}
