//! Events whose name `torch.autograd.profiler.emit_nvtx` wrote: operators with numbers and sizes in their
//! name.

use crate::marked_operator::{FORWARD_THREAD, MarkedOperator, is_backward_node, operator};
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::events::ColumnsBuilder;
use hta_trace::flops::has_model;
use memchr::memmem;

/// Category of operators.
pub(crate) const OPERATORS: &str = "cpu_op";

/// The operator that `emit_nvtx` marked by the name of an annotation or operator, with a number or with
/// sizes.
pub(crate) fn marked_by_emit_nvtx(class: Class, name: &[u8]) -> Option<MarkedOperator<'_>> {
    let can_be = matches!(class, Class::HostOp | Class::Annotation)
        && name.last().is_some_and(|b| b"0123456789]".contains(b));
    // Names of operators themselves have no blanks behind a comma.
    if !can_be || memmem::find(name, b", ").is_none() {
        return None;
    }
    let marked = operator(std::str::from_utf8(name).ok()?)?;
    (marked.sequence.is_some() || marked.record.is_some() || marked.sizes.is_some()).then_some(marked)
}

/// Adds what the name says and no argument does. `given`: the arguments that the event has.
pub(crate) fn add_arguments(
    columns: &mut ColumnsBuilder,
    row: u32,
    marked: &MarkedOperator,
    given: impl Fn(Arg) -> bool,
    event_args: bool,
) {
    let needs_sizes = event_args || has_model(marked.full_name().as_bytes());
    if let Some(sizes) = marked.sizes.filter(|_| needs_sizes && !given(Arg::InputDims)) {
        let sizes: String = sizes.chars().filter(|c| !c.is_whitespace()).collect();
        let sizes = columns.strings.intern(&sizes);
        columns.args.column_mut(Arg::InputDims).push(row, u64::from(sizes.0));
    }
    if is_backward_node(marked.name) && !given(Arg::FwdThread) {
        columns.args.column_mut(Arg::FwdThread).push(row, FORWARD_THREAD as u64);
    }
    if let Some(sequence) = marked.sequence.filter(|_| !given(Arg::SeqNumber)) {
        columns.args.column_mut(Arg::SeqNumber).push(row, sequence as u64);
    }
}
