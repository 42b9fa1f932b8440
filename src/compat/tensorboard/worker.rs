//! Converts a worker's ranges to tables of its rank's partial, and back.

use crate::tensorboard::shortest::{CollectiveOperator, PluginWorker};
use hta_analysis::api::Partial;
use hta_base::table;
use hta_base::table::checked::{InvalidCell, below};
use hta_base::table::schema::{Batch, TableSpec, Text};

table! {
    /// One row per step.
    struct WorkerSteps, WorkerStepRow = "shortest_steps" by "position" {
        name: Text, "", "number of the step";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    }
}

table! {
    /// One row per collective operator.
    struct WorkerOperators, WorkerOperatorRow = "shortest_operators" by "position" {
        name: Text, "", "recorded name";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
        size_bytes: i64, "bytes", "sum over all inputs";
        step: Option<u32>, "", "position of its step; null: inside no step";
    }
}

table! {
    /// One row per kernel of a collective operator.
    struct ShortestKernels, ShortestKernelRow = "shortest_kernels" by "operator" {
        operator: u32, "", "position of the operator";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    }
}

table! {
    /// One row per range: compute first, then communication.
    struct WorkerRanges, WorkerRangeRow = "shortest_ranges" by "is_compute descending, start_ns" {
        is_compute: bool, "", "true: compute; false: communication";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    }
}

pub(super) const TABLES: &[&TableSpec] =
    &[WorkerSteps::SPEC, WorkerOperators::SPEC, ShortestKernels::SPEC, WorkerRanges::SPEC];

/// The tables of a worker, in the order of [`TABLES`].
pub(super) fn tables(worker: &PluginWorker) -> Vec<Batch> {
    let (mut steps, mut operators) = (WorkerSteps::default(), WorkerOperators::default());
    let (mut kernels, mut ranges) = (ShortestKernels::default(), WorkerRanges::default());
    for (name, start_ns, end_ns) in &worker.steps {
        steps.push(WorkerStepRow { name, start_ns: *start_ns, end_ns: *end_ns });
    }
    for (operator, o) in (0..).zip(&worker.operators) {
        let ((start_ns, end_ns), step) = (o.span, o.step.map(|s| s as u32));
        operators.push(WorkerOperatorRow { name: &o.name, start_ns, end_ns, size_bytes: o.bytes, step });
        for &(start_ns, end_ns) in &o.kernels {
            kernels.push(ShortestKernelRow { operator, start_ns, end_ns });
        }
    }
    for (is_compute, of) in [(true, &worker.compute), (false, &worker.communication)] {
        for &(start_ns, end_ns) in of {
            ranges.push(WorkerRangeRow { is_compute, start_ns, end_ns });
        }
    }
    vec![steps.finish(), operators.finish(), kernels.finish(), ranges.finish()]
}

/// Reads the worker back from a partial.
///
/// # Errors
/// When a kernel belongs to an operator that the tables do not contain.
pub(super) fn worker(partial: &Partial) -> Result<PluginWorker, InvalidCell> {
    let steps = partial.rows::<WorkerSteps>().map(|r| (r.name.to_string(), r.start_ns, r.end_ns)).collect();
    let operator = |r: WorkerOperatorRow| CollectiveOperator {
        name: r.name.to_string(),
        span: (r.start_ns, r.end_ns),
        kernels: Vec::new(),
        bytes: r.size_bytes,
        step: r.step.map(|s| s as usize),
    };
    let mut operators: Vec<CollectiveOperator> = partial.rows::<WorkerOperators>().map(operator).collect();
    for (i, r) in partial.rows::<ShortestKernels>().enumerate() {
        let of = below::<ShortestKernels>(i, "operator", r.operator, operators.len())?;
        operators[of as usize].kernels.push((r.start_ns, r.end_ns));
    }
    let (mut compute, mut communication) = (Vec::new(), Vec::new());
    for r in partial.rows::<WorkerRanges>() {
        let of = if r.is_compute { &mut compute } else { &mut communication };
        of.push((r.start_ns, r.end_ns));
    }
    Ok(PluginWorker { operators, steps, compute, communication })
}
