//! The computing of a rank in the order in which it was submitted: kernels of a device, or operators where
//! there is none. Messages and other collectives are left out.

use crate::chunks::chunk::ChunkKind;
use crate::direction::{Direction, Directions};
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::device::is_host_communication;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;

/// One kernel, or one operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComputeItem {
    pub(super) submit: Ns,
    pub(super) start: Ns,
    pub(super) end: Ns,
    /// The pass that it belongs to.
    pub(super) pass: ComputePass,
    /// Of the kernel or operator.
    pub(super) name: StrId,
}

/// The pass to which computing belongs, by the operator that submits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ComputePass {
    Of(ChunkKind),
    /// Of an optimizer.
    Outside,
    Unknown,
}

/// All computing of a rank, by submission; and whether autograd shows which of it is backward.
pub(super) fn compute_items(trace: &RankTrace) -> (Vec<ComputeItem>, bool) {
    let directions = Directions::of(trace);
    let mut out =
        if trace.is_cpu_only() { on_host(trace, &directions) } else { on_devices(trace, &directions) };
    out.sort_unstable();
    let is_shown = out.iter().any(|i| i.pass == ComputePass::Of(ChunkKind::Backward));
    if !is_shown {
        // Without autograd, forward is only what is left.
        for item in out.iter_mut().filter(|i| i.pass != ComputePass::Outside) {
            item.pass = ComputePass::Unknown;
        }
    }
    (out, is_shown)
}

fn pass(directions: &Directions, op: u32) -> ComputePass {
    match directions.at(op) {
        Direction::Forward => ComputePass::Of(ChunkKind::Forward),
        Direction::Backward | Direction::Recompute => ComputePass::Of(ChunkKind::Backward),
        Direction::Optimizer => ComputePass::Outside,
    }
}

fn on_devices(trace: &RankTrace, directions: &Directions) -> Vec<ComputeItem> {
    let computes = trace.activities.iter().filter(|a| a.work == WorkClass::Compute);
    let item = |a: &hta_trace::activity::Activity| ComputeItem {
        submit: a.launch().map_or(a.span.start, |row| trace.span(row).start),
        start: a.span.start,
        end: a.span.end,
        pass: a.op().map_or(ComputePass::Unknown, |op| pass(directions, op)),
        name: a.name,
    };
    computes.map(item).collect()
}

fn on_host(trace: &RankTrace, directions: &Directions) -> Vec<ComputeItem> {
    let c = &trace.columns;
    let computes = c.strings.each(|text| !is_host_communication(Class::HostOp, text));
    let is_compute = |row: u32| {
        trace.classes.get(row as usize) == Some(&Class::HostOp) && computes.holds(c.name(row as usize))
    };
    // Outer operators stand for those inside.
    let is_outer = |row: &u32| trace.stacks.parent(*row).is_none_or(|p| !is_compute(p));
    let item = |row: u32| {
        let span = trace.span(row);
        let (submit, pass, name) = (span.start, pass(directions, row), c.name(row as usize));
        ComputeItem { submit, start: span.start, end: span.end, pass, name }
    };
    (0..c.len() as u32).filter(|row| is_compute(*row)).filter(is_outer).map(item).collect()
}
