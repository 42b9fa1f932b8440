//! FLOPs and bytes of the operators of a rank, and of the kernels that they launched: themselves, or in the
//! capture of a graph.

use crate::counted_work::CountedWorks;
use crate::graphs::nodes::{GraphNodes, OperatorCall};
use crate::input_work::InputWorks;
use crate::kernel_work::KernelWorks;
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::flops::Work;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::sync::Arc;

/// FLOPs and bytes; of a kernel its share of those of its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    pub flops: Option<u64>,
    pub bytes: Option<u64>,
}

pub struct OperatorWorks {
    counted: Arc<CountedWorks>,
    nodes: Arc<GraphNodes>,
    /// By index of a captured operator: its work, if it counts there.
    captured: Vec<Option<Work>>,
    /// By call of an operator whose work counts: the activity that does it.
    main: HashMap<OperatorCall, u32>,
    /// Calls of operators with a model whose inputs do not say how much they compute.
    pub unknown: u64,
    /// Whether shapes are recorded for any operator with a model.
    pub has_shapes: bool,
}

impl OperatorWorks {
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let (counted, nodes) = (CountedWorks::of(trace), GraphNodes::of(trace));
        let captured: Vec<Option<Work>> = captured_works(trace, &nodes);
        let has_shapes = counted.has_shapes || captured.iter().any(Option::is_some);
        let unknown = counted.unknown;
        let mut all = Self { counted, nodes, captured, main: HashMap::new(), unknown, has_shapes };
        all.main = all.main_activities(trace);
        all
    }

    /// The work of the operator at a row, if it counts there.
    pub fn at(&self, row: u32) -> Option<&Work> {
        self.counted.at(row)
    }

    /// The work of a call, if it counts there.
    pub fn of_call(&self, call: OperatorCall) -> Option<&Work> {
        match call {
            OperatorCall::Row(row) => self.at(row),
            OperatorCall::Captured(_, operator) => self.captured.get(operator as usize)?.as_ref(),
        }
    }

    /// The call that owns an activity, and its work, if it counts there.
    pub fn of_activity(&self, trace: &RankTrace, activity: u32) -> Option<(OperatorCall, &Work)> {
        let call = self.nodes.owner(trace, activity)?;
        Some((call, self.of_call(call)?))
    }

    /// The activity that does the work of a call: the longest that is more than a helper.
    pub(crate) fn main_activity(&self, call: OperatorCall) -> Option<u32> {
        self.main.get(&call).copied()
    }

    /// An activity's share of the work of its operator: all for the one that does it, nothing for helpers.
    pub fn share(&self, trace: &RankTrace, activity: u32) -> Amount {
        let Some((call, work)) = self.of_activity(trace, activity) else { return Amount::default() };
        let is_main = self.main_activity(call) == Some(activity);
        let part = |all: Option<u64>| all.map(|n| if is_main { n } else { 0 });
        Amount { flops: part(work.flops), bytes: part(work.bytes) }
    }

    /// The longest of an operator's own activities that is neither copy, layout change nor the combination of
    /// partial results; of equally long ones the first.
    fn main_activities(&self, trace: &RankTrace) -> HashMap<OperatorCall, u32> {
        let kernels = KernelWorks::of(trace);
        let mut helpers: HashMap<StrId, bool> = HashMap::new();
        let mut chosen: HashMap<OperatorCall, ((bool, Ns), u32)> = HashMap::new();
        for (i, a) in (0..).zip(&trace.activities) {
            let Some((call, _)) = self.of_activity(trace, i) else { continue };
            let moves = matches!(
                kernels.at(i).category,
                Category::Layout | Category::ShardCopy | Category::Memcpy | Category::Memset
            );
            let is_helper = moves || *helpers.entry(a.name).or_insert_with(|| is_helper(trace.text(a.name)));
            let this = (!is_helper, a.span.len());
            let best = chosen.entry(call).or_insert((this, i));
            if this > best.0 {
                *best = (this, i);
            }
        }
        chosen.into_iter().map(|(call, (_, activity))| (call, activity)).collect()
    }
}

/// The work of each captured operator that counts, from the inputs that it had during the capture.
fn captured_works(trace: &RankTrace, nodes: &GraphNodes) -> Vec<Option<Work>> {
    let mut works = InputWorks::new(trace);
    nodes.operators.iter().map(|o| works.work((o.name, o.inputs)).filter(|_| o.counts)).collect()
}

/// Whether a kernel only prepares the work of another one, or combines its partial results.
fn is_helper(name: &str) -> bool {
    const HELPERS: [&str; 6] =
        ["splitkreduce", "reducesplitk", "_combine", "convert_dq", "dot_do_o", "reduce_1block"];
    let name = name.to_ascii_lowercase();
    HELPERS.iter().any(|h| name.contains(h))
}
