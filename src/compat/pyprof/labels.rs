//! The names of operator, module and direction, by one of two rules.
//!
//! ```text
//!   torch.nn.functional.linear [.........................)   PyProf: linear of torch.nn.functional
//!     Tensor.matmul              [..................)
//!       aten::matmul               [..............)
//!         aten::mm                     [.....)               hta: mm of aten, the innermost operator
//! ```
//!
//! PyProf takes the outermost call that it marked. A kernel of the backward pass has the call of the last
//! forward kernel whose operators have the same sequence number; so a forward operator without a kernel is
//! not found. The direction follows from the names around the launch alone, so that gradients which autograd
//! adds up are `fprop`.

use hashbrown::HashMap;
use hta_facts::direction::{Direction, Directions};
use hta_facts::marked_inputs::MarkedInputs;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::flops::{model, python_call};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::sync::Arc;

/// Whose rules name operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labels {
    /// The innermost operator, and the direction from all that is known.
    Hta,
    /// The outermost call that PyProf marked, and the direction from names.
    Pyprof,
}

/// The labels of one kernel; `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KernelLabel<'a> {
    pub(crate) module: Option<&'a str>,
    pub(crate) function: Option<&'a str>,
    pub(crate) direction: Option<&'static str>,
    /// Of PyProf's rules: whether it is about a product or convolution; `None` if no call is known.
    pub(crate) is_matrix: Option<bool>,
}

pub(crate) struct Labeller<'a> {
    trace: &'a RankTrace,
    directions: Arc<Directions>,
    marked: Option<&'a MarkedInputs<'a>>,
    labels: Labels,
    /// The marked call of the last forward kernel by sequence number.
    calls: HashMap<i64, StrId>,
}

impl<'a> Labeller<'a> {
    pub(crate) fn new(trace: &'a RankTrace, marked: Option<&'a MarkedInputs<'a>>, labels: Labels) -> Self {
        Self { trace, directions: Directions::of(trace), marked, labels, calls: HashMap::new() }
    }

    /// The labels of the next kernel in order of start, from its operator and its short name without
    /// parameters.
    pub(crate) fn label(&mut self, op: Option<u32>, kernel: &str) -> KernelLabel<'a> {
        let Some(op) = op else { return KernelLabel::default() };
        match self.labels {
            Labels::Hta => self.innermost(op),
            Labels::Pyprof => self.as_pyprof(op, kernel),
        }
    }

    fn innermost(&self, op: u32) -> KernelLabel<'a> {
        let name = self.trace.name(op);
        let (module, function) = match python_call(name).or_else(|| name.rsplit_once("::")) {
            Some((module, function)) => (Some(module), function),
            None => (None, name),
        };
        let direction = Some(Direction::in_pyprof(self.directions.at(op)));
        KernelLabel { module, function: Some(function), direction, is_matrix: None }
    }

    fn as_pyprof(&mut self, op: u32, kernel: &str) -> KernelLabel<'a> {
        let trace = self.trace;
        let around =
            || trace.stacks.outward(op).filter(|r| trace.classes.get(*r as usize) == Some(&Class::HostOp));
        let names: Vec<&'a str> =
            around().map(|r| trace.name(r)).filter(|n| python_call(n).is_none()).collect();
        let is_backward = names.iter().any(|n| stem(n).ends_with("ackward"));
        let numbers = || around().filter_map(|r| trace.columns.args.int(Arg::SeqNumber, r));
        let own = self.marked.and_then(|m| m.outermost_call(op)).map(|r| trace.columns.name(r as usize));
        let call = match (own, is_backward) {
            (None, true) => numbers().find_map(|n| self.calls.get(&n).copied()),
            (own, _) => own,
        };
        if let Some(call) = call.filter(|_| !is_backward) {
            self.calls.extend(numbers().map(|n| (n, call)));
        }
        let direction = Some(if is_backward { "bprop" } else { "fprop" });
        let Some(name) = call.map(|c| trace.text(c)) else {
            return KernelLabel { direction, function: unmarked(&names), ..KernelLabel::default() };
        };
        let (module, function) = python_call(name).unwrap_or(("", name));
        let function = if function == "linear" && is_bias(kernel) { "bias" } else { function };
        let is_matrix = function != "bias" && model(name).is_some_and(|m| m.family().is_matrix());
        KernelLabel { module: Some(module), function: Some(function), direction, is_matrix: Some(is_matrix) }
    }
}

/// A name without the digits at its end.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The name of an operator without a marked call: that of the innermost backward function, else of the
/// innermost operator.
fn unmarked<'a>(names: &[&'a str]) -> Option<&'a str> {
    let bare = |n: &&'a str| n.rsplit_once("::").map_or(*n, |(_, bare)| bare);
    let backward =
        names.iter().map(bare).find_map(|n| n.strip_suffix("_backward").or(n.strip_suffix("Backward")));
    backward.or_else(|| names.first().map(bare))
}

/// Whether PyProf counts a kernel of `linear` as the addition of the bias.
fn is_bias(kernel: &str) -> bool {
    const KERNELS: [&str; 4] =
        ["kernelReduceContigDim", "kernelReduceNoncontigDim_shared", "elementwise_kernel", "reduce_kernel"];
    KERNELS.contains(&kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_without_a_call_have_their_own_name() {
        assert_eq!(unmarked(&["aten::add_", "torch::autograd::AccumulateGrad"]), Some("add_"));
        assert_eq!(unmarked(&["aten::cat", "SplitBackward"]), Some("Split"));
        assert_eq!(unmarked(&["aten::nll_loss_backward", "NllLossBackward"]), Some("nll_loss"));
        assert_eq!(unmarked(&["aten::mul", "MulBackward0"]), Some("mul"));
        assert_eq!(unmarked(&[]), None);
    }
}
