//! A worker's ranges as tables of its rank's partial, and back.

use crate::analysis::api::Partial;
use crate::compat::tensorboard::shortest::{Operator, Range, Worker};
use crate::table;
use crate::table::checked::{Cells, Flaw};
use crate::table::schema::{Batch, TableSpec, Text};

table! {
    /// One row per step.
    struct Steps, StepRow = "shortest_steps" by "position" {
        name: Text, "", "number of the step";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    }
}

table! {
    /// One row per collective operator.
    struct Operators, OperatorRow = "shortest_operators" by "position" {
        name: Text, "", "name, as recorded";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
        size_bytes: i64, "bytes", "over all inputs";
        step: Option<u32>, "", "position of its step";
    }
}

table! {
    /// One row per kernel of a collective operator.
    struct Kernels, KernelRow = "shortest_kernels" by "operator" {
        operator: u32, "", "position of the operator";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    }
}

table! {
    /// One row per range of compute, then of communication.
    struct Ranges, RangeRow = "shortest_ranges" by "is_compute descending, start_ns" {
        is_compute: bool, "", "compute, else communication";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    }
}

pub(super) const TABLES: &[&TableSpec] = &[Steps::SPEC, Operators::SPEC, Kernels::SPEC, Ranges::SPEC];

/// The tables of a worker, in the order of [`TABLES`].
pub(super) fn tables(worker: &Worker) -> Vec<Batch> {
    let (mut steps, mut operators) = (Steps::default(), Operators::default());
    let (mut kernels, mut ranges) = (Kernels::default(), Ranges::default());
    for (name, start_ns, end_ns) in &worker.steps {
        steps.push(StepRow { name, start_ns: *start_ns, end_ns: *end_ns });
    }
    for (operator, o) in (0..).zip(&worker.operators) {
        let ((start_ns, end_ns), step) = (o.span, o.step.map(|s| s as u32));
        operators.push(OperatorRow { name: &o.name, start_ns, end_ns, size_bytes: o.bytes, step });
        for &(start_ns, end_ns) in &o.kernels {
            kernels.push(KernelRow { operator, start_ns, end_ns });
        }
    }
    for (is_compute, of) in [(true, &worker.compute), (false, &worker.communication)] {
        for &(start_ns, end_ns) in of {
            ranges.push(RangeRow { is_compute, start_ns, end_ns });
        }
    }
    vec![steps.finish(), operators.finish(), kernels.finish(), ranges.finish()]
}

/// The worker whose tables a partial holds.
///
/// # Errors
/// A table that is not one of [`tables`].
pub(super) fn worker(partial: &Partial) -> Result<Worker, Flaw> {
    let [Some(steps), Some(operators), Some(kernels), Some(ranges)] =
        [Steps::SPEC, Operators::SPEC, Kernels::SPEC, Ranges::SPEC].map(|spec| partial.table(spec))
    else {
        return Ok(Worker::default());
    };
    let names: Vec<String> = Cells(steps).texts("name")?.into_iter().map(str::to_string).collect();
    let steps = names.into_iter().zip(spans(steps)?).map(|(name, (start, end))| (name, start, end)).collect();
    let cells = Cells(operators);
    let (name, bytes, step) = (cells.texts("name")?, cells.i64s("size_bytes")?, cells.opt_u32s("step")?);
    let operator = |(i, span): (usize, Range)| Operator {
        name: name[i].to_string(),
        span,
        kernels: Vec::new(),
        bytes: bytes[i],
        step: step[i].map(|s| s as usize),
    };
    let mut operators: Vec<Operator> = spans(operators)?.into_iter().enumerate().map(operator).collect();
    let of = Cells(kernels).indices("operator", operators.len())?;
    for (operator, kernel) in of.into_iter().zip(spans(kernels)?) {
        operators[operator as usize].kernels.push(kernel);
    }
    let (mut compute, mut communication) = (Vec::new(), Vec::new());
    for (is_compute, range) in Cells(ranges).flags("is_compute")?.into_iter().zip(spans(ranges)?) {
        if is_compute { compute.push(range) } else { communication.push(range) }
    }
    Ok(Worker { operators, steps, compute, communication })
}

fn spans(batch: &Batch) -> Result<Vec<Range>, Flaw> {
    Ok(Cells(batch).i64s("start_ns")?.into_iter().zip(Cells(batch).i64s("end_ns")?).collect())
}
