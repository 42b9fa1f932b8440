//! Inputs of operators that only a call around them recorded: PyProf marks calls of Python with shapes, and
//! the operators of PyTorch inside have none.
//!
//! ```text
//!   Tensor.matmul  [.................)  shapes
//!     aten::mm        [........)        none: its work is that of the call, because both are products
//!
//!   MmBackward     [.......)            belongs to aten::mm by its sequence number, and so to Tensor.matmul
//!     aten::mm       [...)
//! ```

use crate::calls::CallForest;
use hashbrown::HashMap;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::flops::{InputsOfCall, Model, Work, python_call, work_behind, work_inside};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::ByText;

pub struct MarkedInputs<'a> {
    trace: &'a RankTrace,
    /// Whether a text is the name of a marked call.
    is_call: ByText<bool>,
    /// Forward operators by row of the backward operator.
    forward: HashMap<u32, u32>,
}

impl<'a> MarkedInputs<'a> {
    /// `None` if the trace has no marked calls.
    pub fn new(trace: &'a RankTrace) -> Option<Self> {
        let c = &trace.columns;
        let is_call = c.strings.each(|text| python_call(text).is_some());
        if !is_call.holds_any() {
            return None;
        }
        let forward = CallForest::new(trace).backward.pairs.iter().map(|(f, b)| (*b, *f)).collect();
        Some(Self { trace, is_call, forward })
    }

    /// The innermost marked call at or around a row.
    pub fn call(&self, row: u32) -> Option<u32> {
        let c = &self.trace.columns;
        self.trace.stacks.outward(row).find(|r| {
            let is_call = self.is_call.holds(c.name(*r as usize));
            is_call && self.trace.classes.get(*r as usize) == Some(&Class::HostOp)
        })
    }

    /// The outermost marked call at or around a row.
    pub fn outermost_call(&self, row: u32) -> Option<u32> {
        let mut found = self.call(row);
        while let Some(outer) = found.and_then(|r| self.trace.stacks.parent(r)).and_then(|r| self.call(r)) {
            found = Some(outer);
        }
        found
    }

    /// The forward operator of the innermost backward operator at or around a row.
    pub fn forward(&self, row: u32) -> Option<u32> {
        self.trace.stacks.outward(row).find_map(|r| self.forward.get(&r)).copied()
    }

    /// The work of an operator without inputs of its own; `own` is its model.
    pub(crate) fn work(&self, row: u32, own: Model) -> Option<Work> {
        let args = &self.trace.columns.args;
        let inputs = |call: u32| {
            let text = |arg| args.text(arg, call).map(|t| self.trace.text(t));
            let concrete = text(Arg::ConcreteInputs);
            InputsOfCall::parse(text(Arg::InputDims)?, text(Arg::InputType)?, None, concrete)
        };
        if let Some(call) = self.call(row) {
            return work_inside(own, self.trace.name(call), &inputs(call)?);
        }
        let call = self.call(self.forward(row)?)?;
        let is_backward_function = self.trace.name(row).ends_with("_backward");
        work_behind(own, is_backward_function, self.trace.name(call), &inputs(call)?)
    }
}
