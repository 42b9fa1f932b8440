//! The TensorBoard plugin's distributed view as tables.

use crate::tensorboard::shortest::{CommOpTotals, PluginOverlap, PluginWait, PluginWorker, shortest};
use crate::tensorboard::{select, worker};
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::table::view::ViewSpec;
use hta_base::units::ratio;
use hta_base::wording::counts::counted;
use hta_job::Job;
use hta_trace::rank_trace::RankTrace;

table! {
    /// The plugin's view of one step. compute_only + overlap + communication_only + other = length of the
    /// step. transfer + synchronizing is a separate sum, the latency. The transfer of a range is the length
    /// of the shortest of the matched ranges of all ranks.
    pub(crate) struct PluginSteps, PluginStepRow = "sync_shortest" by "rank, step in time; `all` last" {
        rank;
        step: Option<Text>, "",
            "number of the step; all: truncated mean over steps; null: outside every step";
        compute_only_ns: Option<i64>, "ns", "compute without communication";
        overlap_ns: Option<i64>, "ns", "compute and communication at the same time";
        communication_only_ns: Option<i64>, "ns", "communication without compute";
        other_ns: Option<i64>, "ns", "neither compute nor communication";
        transfer_ns: Option<i64>, "ns", "data transfer; null: no operator in the step";
        synchronizing_ns: Option<i64>, "ns", "latency minus transfer";
    }
}

table! {
    /// The plugin's collective operators of one rank by name.
    pub struct PluginOperators, PluginOperatorRow = "collective_shortest" by "rank, first appearance" {
        rank;
        name: Text, "", "operator", "operator";
        count: i64, "", "calls", "calls";
        size_sum_bytes: i64, "bytes", "bytes of all inputs, summed over the calls", "bytes";
        size_mean_bytes: f64, "bytes", "mean per call";
        latency_sum_ns: i64, "ns", "length of the union of operators and kernels", "latency";
        latency_mean_ns: f64, "ns", "latency_sum_ns per call";
        transfer_sum_ns: i64, "ns", "length of the union of the transfers", "transfer";
        transfer_mean_ns: f64, "ns", "transfer_sum_ns per call";
    }
}

const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Waiting by the shortest duration, as the TensorBoard plugin has it",
        columns: &[
            "rank",
            "step",
            "compute_only_ns",
            "overlap_ns",
            "communication_only_ns",
            "other_ns",
            "transfer_ns",
            "synchronizing_ns",
        ],
        ..ViewSpec::of(PluginSteps::SPEC)
    },
    ViewSpec {
        title: "Collective operators, by the same method",
        columns: &["rank", "name", "count", "size_sum_bytes", "latency_sum_ns", "transfer_sum_ns"],
        ..ViewSpec::of(PluginOperators::SPEC)
    },
];

pub(crate) struct PluginSync;

impl Analysis for PluginSync {
    fn about(&self) -> About {
        About {
            kept_tables: worker::TABLES,
            views: &VIEWS,
            takes_steps: false,
            ..head!(
                None,
                "sync",
                "waiting by the shortest duration, as the TensorBoard plugin has it",
                [PluginSteps, PluginOperators]
            )
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial { rank: trace.rank, tables: worker::tables(&select::worker(trace)), reason: None }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        reduce(partials)
    }
}

fn reduce(partials: &[Partial]) -> Output {
    // Partials hold the tables that `map` made. An invalid one counts as a worker without operators.
    let workers: Vec<PluginWorker> = partials.iter().map(|p| worker::worker(p).unwrap_or_default()).collect();
    let (mut steps, mut operators) = (PluginSteps::default(), PluginOperators::default());
    let mut note = None;
    match shortest(&workers) {
        Err(reason) => note = Some(format!("no answer by this method: {reason}")),
        Ok(found) => {
            if found.names_differ > 0 {
                let n = found.names_differ;
                let operators = counted(n as u64, "operator");
                let have = if n == 1 { "has another name" } else { "have other names" };
                note = Some(format!("{operators} {have} on other ranks: matching by position is wrong"));
            }
            for ((partial, worker), seen) in partials.iter().zip(&workers).zip(&found.workers) {
                let wait = |k: Option<usize>| seen.wait.iter().find(|(s, _)| *s == k).map(|(_, w)| *w);
                for (k, (name, ..)) in worker.steps.iter().enumerate() {
                    let overlap = seen.overlap.get(k).copied();
                    steps.push(step_row(partial.rank, Some(name), overlap, wait(Some(k))));
                }
                if let Some(outside) = wait(None) {
                    steps.push(step_row(partial.rank, None, None, Some(outside)));
                }
                let (overlap, wait) = (Some(seen.overlap_all), Some(seen.wait_all));
                steps.push(step_row(partial.rank, Some("all"), overlap, wait));
                seen.operators.iter().for_each(|of| operators.push(operator_row(partial.rank, of)));
            }
        }
    }
    let notes = note.map(|text| ViewNote { view: "", text }).into_iter().collect();
    Output { tables: vec![steps.finish(), operators.finish()], notes, ..Output::default() }
}

fn step_row<'a>(
    rank: u32,
    step: Option<&'a str>,
    o: Option<PluginOverlap>,
    w: Option<PluginWait>,
) -> PluginStepRow<'a> {
    PluginStepRow {
        rank,
        step,
        compute_only_ns: o.map(|o| o.compute_only),
        overlap_ns: o.map(|o| o.overlap),
        communication_only_ns: o.map(|o| o.communication_only),
        other_ns: o.map(|o| o.other),
        transfer_ns: w.map(|w| w.transfer),
        synchronizing_ns: w.map(|w| w.synchronizing),
    }
}

fn operator_row(rank: u32, t: &CommOpTotals) -> PluginOperatorRow<'_> {
    let mean = |sum: i64| ratio(sum, t.calls).unwrap_or(0.0);
    PluginOperatorRow {
        rank,
        name: &t.name,
        count: t.calls,
        size_sum_bytes: t.bytes,
        size_mean_bytes: mean(t.bytes),
        latency_sum_ns: t.latency,
        latency_mean_ns: mean(t.latency),
        transfer_sum_ns: t.transfer,
        transfer_mean_ns: mean(t.transfer),
    }
}
