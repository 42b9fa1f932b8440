//! The TensorBoard plugin's distributed view as tables.

use crate::tensorboard::shortest::{CommOpTotals, PluginOverlap, PluginWait, PluginWorker, shortest};
use crate::tensorboard::{select, worker};
use hta_analysis::api::{About, Align, Analysis, Options, Output, Partial, RowEmitter, View};
use hta_analysis::job::Job;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{fmt_bytes, fmt_ns, ratio};
use hta_base::wording::counts::counted;
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
        name: Text, "", "operator";
        count: i64, "", "calls";
        size_sum_bytes: i64, "bytes", "bytes of all inputs, summed over the calls";
        size_mean_bytes: f64, "bytes", "mean per call";
        latency_sum_ns: i64, "ns", "length of the union of operators and kernels";
        latency_mean_ns: f64, "ns", "latency_sum_ns per call";
        transfer_sum_ns: i64, "ns", "length of the union of the transfers";
        transfer_mean_ns: f64, "ns", "transfer_sum_ns per call";
    }
}

pub(crate) struct PluginSync;

impl Analysis for PluginSync {
    fn about(&self) -> About {
        About {
            kept_tables: worker::TABLES,
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
    let (mut steps, mut operators) = (StepsTold::default(), OperatorsTold::default());
    let mut notes = Vec::new();
    match shortest(&workers) {
        Err(reason) => notes.push(format!("no answer by this method: {reason}")),
        Ok(found) => {
            if found.names_differ > 0 {
                let n = found.names_differ;
                let operators = counted(n as u64, "operator");
                let have = if n == 1 { "has another name" } else { "have other names" };
                notes.push(format!("{operators} {have} on other ranks: matching by position is wrong"));
            }
            for ((partial, worker), seen) in partials.iter().zip(&workers).zip(&found.workers) {
                let wait = |k: Option<usize>| seen.wait.iter().find(|(s, _)| *s == k).map(|(_, w)| *w);
                for (k, (name, ..)) in worker.steps.iter().enumerate() {
                    steps.push(partial.rank, Some(name), seen.overlap.get(k).copied(), wait(Some(k)));
                }
                if let Some(outside) = wait(None) {
                    steps.push(partial.rank, None, None, Some(outside));
                }
                steps.push(partial.rank, Some("all"), Some(seen.overlap_all), Some(seen.wait_all));
                seen.operators.iter().for_each(|operator| operators.push(partial.rank, operator));
            }
        }
    }
    let views = [steps.view(notes), operators.view()];
    let views = views.into_iter().filter(|v| !v.rows.is_empty() || !v.notes.is_empty()).collect();
    Output { tables: vec![steps.table.finish(), operators.table.finish()], views, ..Output::default() }
}

/// A table and its text.
#[derive(Default)]
struct StepsTold {
    table: PluginSteps,
    rows: Vec<Vec<String>>,
}

impl StepsTold {
    fn push(&mut self, rank: u32, step: Option<&str>, o: Option<PluginOverlap>, w: Option<PluginWait>) {
        let row = PluginStepRow {
            rank,
            step,
            compute_only_ns: o.map(|o| o.compute_only),
            overlap_ns: o.map(|o| o.overlap),
            communication_only_ns: o.map(|o| o.communication_only),
            other_ns: o.map(|o| o.other),
            transfer_ns: w.map(|w| w.transfer),
            synchronizing_ns: w.map(|w| w.synchronizing),
        };
        let times = [row.compute_only_ns, row.overlap_ns, row.communication_only_ns, row.other_ns];
        let times = times.into_iter().chain([row.transfer_ns, row.synchronizing_ns]);
        let head = [rank.to_string(), step.unwrap_or("-").to_string()];
        self.rows.push(head.into_iter().chain(times.map(|t| t.map_or("-".to_string(), fmt_ns))).collect());
        self.table.push(row);
    }

    fn view(&mut self, notes: Vec<String>) -> View {
        let times = ["compute only", "overlap", "comm. only", "other", "transfer", "synchronizing"];
        View {
            title: "Waiting by the shortest duration, as the TensorBoard plugin has it".to_string(),
            columns: columns(&["rank", "step"], &times),
            rows: std::mem::take(&mut self.rows),
            notes,
        }
    }
}

/// A table and its text.
#[derive(Default)]
struct OperatorsTold {
    table: PluginOperators,
    rows: Vec<Vec<String>>,
}

impl OperatorsTold {
    fn push(&mut self, rank: u32, t: &CommOpTotals) {
        let mean = |sum: i64| ratio(sum, t.calls).unwrap_or(0.0);
        self.table.push(PluginOperatorRow {
            rank,
            name: &t.name,
            count: t.calls,
            size_sum_bytes: t.bytes,
            size_mean_bytes: mean(t.bytes),
            latency_sum_ns: t.latency,
            latency_mean_ns: mean(t.latency),
            transfer_sum_ns: t.transfer,
            transfer_mean_ns: mean(t.transfer),
        });
        let size = fmt_bytes(t.bytes.max(0) as u64);
        let (latency, transfer) = (fmt_ns(t.latency), fmt_ns(t.transfer));
        self.rows.push(vec![rank.to_string(), t.name.clone(), t.calls.to_string(), size, latency, transfer]);
    }

    fn view(&mut self) -> View {
        View {
            title: "Collective operators, by the same method".to_string(),
            columns: columns(&["rank", "operator"], &["calls", "bytes", "latency", "transfer"]),
            rows: std::mem::take(&mut self.rows),
            notes: Vec::new(),
        }
    }
}

fn columns(texts: &[&'static str], figures: &[&'static str]) -> Vec<(&'static str, Align)> {
    let texts = texts.iter().map(|heading| (*heading, Align::Left));
    texts.chain(figures.iter().map(|heading| (*heading, Align::Right))).collect()
}
