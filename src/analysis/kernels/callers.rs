//! The operator that launched most of the time of some activities, and the shapes of its inputs there.
//!
//! ```text
//!   gemm   aten::mm  [8,16]  30 ns          main operator  aten::mm, 55 ns
//!   gemm   aten::mm  [8,8]   25 ns          its inputs     [8,16], 30 ns
//!   gemm   aten::bmm         40 ns
//! ```
//!
//! As in `kernels`, shapes are those of operators with a model of their work: those of all others may not
//! have been read.

use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_facts::graphs::nodes::{GraphNodes, OperatorCall};
use hta_facts::operator_work::OperatorWorks;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::sync::Arc;

/// What launched some activities, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MainCaller<'a> {
    /// The operator, and the durations of what it launched.
    pub(crate) op: Option<(&'a str, Ns)>,
    /// Shapes of its inputs in most of that time, and the durations of what it launched with them.
    pub(crate) inputs: Option<(&'a str, Ns)>,
}

/// Finds the main callers of groups of activities of a rank.
pub(crate) struct Callers<'a> {
    trace: &'a RankTrace,
    nodes: Arc<GraphNodes>,
    works: Arc<OperatorWorks>,
}

impl<'a> Callers<'a> {
    pub(crate) fn new(trace: &'a RankTrace) -> Self {
        Self { trace, nodes: GraphNodes::of(trace), works: OperatorWorks::of(trace) }
    }

    /// The main caller of the activities at some indices.
    pub(crate) fn main(&self, activities: &[u32]) -> MainCaller<'a> {
        let trace = self.trace;
        let of_activity = |i: &u32| {
            let ns = trace.activities.get(*i as usize)?.span.len();
            let call = self.nodes.owner(trace, *i)?;
            Some((call, self.nodes.name(trace, call), ns))
        };
        let calls: Vec<(OperatorCall, StrId, Ns)> = activities.iter().filter_map(of_activity).collect();
        let Some((op, ns)) = self.largest(calls.iter().map(|(_, op, ns)| (*op, *ns))) else {
            return MainCaller::default();
        };
        let inputs = calls.iter().filter(|(call, of, _)| *of == op && self.works.of_call(*call).is_some());
        let inputs = inputs.filter_map(|(call, _, ns)| Some((self.nodes.inputs(trace, *call)[0]?, *ns)));
        let inputs = self.largest(inputs).map(|(text, ns)| (trace.text(text), ns));
        MainCaller { op: Some((trace.text(op), ns)), inputs }
    }

    /// The text with the largest sum; of equal ones the first in the order of the alphabet.
    fn largest(&self, all: impl Iterator<Item = (StrId, Ns)>) -> Option<(StrId, Ns)> {
        let mut sums: HashMap<StrId, Ns> = HashMap::new();
        all.for_each(|(text, ns)| *sums.entry(text).or_default() += ns);
        sums.into_iter().max_by_key(|(text, ns)| (*ns, Reverse(self.trace.text(*text))))
    }
}
