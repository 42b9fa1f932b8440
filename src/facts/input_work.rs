//! The work of an operator by its name and the texts of its inputs, which are parsed once for all calls with
//! the same.

use hashbrown::HashMap;
use hta_trace::flops::{InputsOfCall, Model, Work, model};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// What tells calls of one operator apart: its name, and shapes, types, strides and scalars of its inputs.
pub type CallInputs = (StrId, [Option<StrId>; 4]);

/// The works that were asked for, of one rank.
pub(crate) struct InputWorks<'a> {
    trace: &'a RankTrace,
    models: HashMap<StrId, Option<Model>>,
    works: HashMap<CallInputs, Work>,
}

impl<'a> InputWorks<'a> {
    pub(crate) fn new(trace: &'a RankTrace) -> Self {
        Self { trace, models: HashMap::new(), works: HashMap::new() }
    }

    /// The model of operators of a name.
    pub(crate) fn model(&mut self, name: StrId) -> Option<Model> {
        *self.models.entry(name).or_insert_with(|| model(self.trace.text(name)))
    }

    /// The work of a call; without inputs that can be read, that of unknown ones. `None` without a model.
    pub(crate) fn work(&mut self, call: CallInputs) -> Option<Work> {
        let model = self.model(call.0)?;
        let trace = self.trace;
        Some(*self.works.entry(call).or_insert_with(|| {
            let [dims, types, strides, concrete] = call.1.map(|t| t.map(|t| trace.text(t)));
            let inputs =
                dims.zip(types).and_then(|(dims, types)| InputsOfCall::parse(dims, types, strides, concrete));
            model.work(&inputs.unwrap_or_default())
        }))
    }
}
