//! What every GPU activity of a rank does: its category, by its row, its name, and the operators around its
//! launch.

use crate::graphs::nodes::{GraphNodes, OperatorCall};
use crate::optimizer_steps::OptimizerSteps;
use hashbrown::{HashMap, HashSet};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::kernel::category::{Category, NameCategory, Reason, by_name, by_op};
use hta_trace::kernel::tensor_cores::{self, TensorCores};
use hta_trace::rank_trace::RankTrace;
use hta_trace::rules::collective_kind;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelWork {
    pub category: Category,
    pub reason: Reason,
    /// Sub-category; empty for most.
    pub sub: &'static str,
    /// Whether matrix units compute.
    pub tensor_cores: TensorCores,
}

/// By activity, in their order.
pub struct KernelWorks(Vec<KernelWork>);

impl KernelWorks {
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(|trace| {
            let (names, ops, of_experts) = (HashMap::new(), HashMap::new(), HashMap::new());
            let tensor_cores = HashMap::new();
            let mut finder = Finder {
                trace,
                nodes: GraphNodes::of(trace),
                names,
                ops,
                of_experts,
                of_shards: HashMap::new(),
                gathers: None,
                tensor_cores,
                optimizers: OptimizerSteps::of(trace),
            };
            Self((0..).zip(&trace.activities).map(|(i, a)| finder.find(i, a)).collect())
        })
    }

    /// The work of the activity at an index.
    pub fn at(&self, activity: u32) -> KernelWork {
        let tensor_cores = TensorCores::Unknown;
        let none = KernelWork { category: Category::Unknown, reason: Reason::None, sub: "", tensor_cores };
        self.0.get(activity as usize).copied().unwrap_or(none)
    }
}

struct Finder<'a> {
    trace: &'a RankTrace,
    nodes: Arc<GraphNodes>,
    names: HashMap<StrId, NameCategory>,
    ops: HashMap<StrId, Option<Category>>,
    /// Whether the name of an operator is that of a mixture of experts.
    of_experts: HashMap<StrId, bool>,
    /// The same for operators that copy sharded parameters and gradients.
    of_shards: HashMap<StrId, bool>,
    /// Whether the rank gathers or scatters what is sharded, once it was asked.
    gathers: Option<bool>,
    /// By name and device.
    tensor_cores: HashMap<(StrId, Option<i64>), TensorCores>,
    optimizers: Arc<OptimizerSteps>,
}

impl Finder<'_> {
    fn find(&mut self, activity: u32, a: &Activity) -> KernelWork {
        let trace = self.trace;
        let call = self.nodes.owner(trace, activity);
        let tensor_cores = match a.class {
            Class::Kernel => *self.tensor_cores.entry((a.name, a.device())).or_insert_with(|| {
                let device = trace.device_properties(a.device()).filter(|d| d.warp_size == Some(32));
                let capability =
                    device.and_then(|d| tensor_cores::capability(d.compute_capability.as_deref()?));
                tensor_cores::by_name(trace.text(a.name), capability)
            }),
            _ => TensorCores::No,
        };
        let work = |category, reason| KernelWork { category, reason, sub: "", tensor_cores };
        match a.class {
            Class::Memcpy if a.work == WorkClass::Communication => {
                return work(Category::Communication, Reason::Op);
            }
            Class::Memcpy => return work(Category::Memcpy, Reason::Row),
            Class::Memset => return work(Category::Memset, Reason::Row),
            _ => {}
        }
        let op = call.map(|call| self.nodes.name(trace, call));
        if a.work == WorkClass::Communication {
            let has_args = self.trace.columns.args.text(Arg::CollectiveName, a.row).is_some();
            let text = op.map_or("", |op| self.trace.text(op));
            let by_op = text == "record_param_comms" || text.starts_with("symm_mem::");
            let reason = if has_args {
                Reason::Args
            } else if by_op {
                Reason::Op
            } else {
                Reason::Name
            };
            return work(Category::Communication, reason);
        }
        let named = *self.names.entry(a.name).or_insert_with(|| by_name(trace.text(a.name)));
        let Some(category) = named.category else {
            return self.of_op(op).map_or(work(Category::Unknown, Reason::None), |c| work(c, Reason::Op));
        };
        if named.is_matrix {
            if self.is_of_experts(call) {
                return work(Category::Moe, Reason::NameAndOp);
            }
            if let Some(c @ (Category::Convolution | Category::Attention)) = self.of_op(op) {
                return work(c, Reason::NameAndOp);
            }
        }
        if category == Category::Layout && self.is_of_shards(call) {
            return work(Category::ShardCopy, Reason::NameAndOp);
        }
        if named.is_multi_tensor && category != Category::Optimizer && self.is_in_optimizer(a) {
            return work(Category::Optimizer, Reason::NameAndRange);
        }
        KernelWork { category, reason: Reason::Name, sub: named.sub, tensor_cores }
    }

    /// The category by the operator that launched a kernel.
    fn of_op(&mut self, op: Option<StrId>) -> Option<Category> {
        op.and_then(|op| *self.ops.entry(op).or_insert_with(|| by_op(self.trace.text(op))))
    }

    /// Whether an operator at or around a call is that of a mixture of experts.
    fn is_of_experts(&mut self, call: Option<OperatorCall>) -> bool {
        let trace = self.trace;
        is_around(trace, &self.nodes, call, |name| {
            *self.of_experts.entry(name).or_insert_with(|| {
                let text = trace.text(name).to_ascii_lowercase();
                text.contains("moe") || text.contains("grouped_mm")
            })
        })
    }

    /// Whether one is of FSDP, which copies parameters and gradients into and out of the buffers of its
    /// collectives. A compiler writes these copies without its operators.
    fn is_of_shards(&mut self, call: Option<OperatorCall>) -> bool {
        let trace = self.trace;
        is_around(trace, &self.nodes, call, |name| {
            *self.of_shards.entry(name).or_insert_with(|| {
                let text = trace.text(name);
                let is_copy = || {
                    ["aten::split_with_sizes_copy", "aten::_chunk_cat"].iter().any(|op| text.starts_with(op))
                };
                text.starts_with("fsdp::")
                    || (is_copy() && *self.gathers.get_or_insert_with(|| gathers(trace)))
            })
        })
    }

    /// Whether the launch lies in the range of an optimizer's step.
    fn is_in_optimizer(&self, a: &Activity) -> bool {
        a.launch().is_some_and(|launch| self.optimizers.is_in(self.trace, launch))
    }
}

/// Whether a rank gathers or scatters what is sharded.
fn gathers(trace: &RankTrace) -> bool {
    let mut seen = HashSet::new();
    let mut calls = trace.activities.iter().filter(|a| a.work == WorkClass::Communication);
    let is = |name| matches!(collective_kind(trace.text(name)), Some("all_gather" | "reduce_scatter"));
    calls.any(|a| seen.insert(a.name) && is(a.name))
}

/// Whether the operator of a call, or one around it, has a name that is asked for.
fn is_around(
    trace: &RankTrace,
    nodes: &GraphNodes,
    call: Option<OperatorCall>,
    mut is: impl FnMut(StrId) -> bool,
) -> bool {
    match call {
        None => false,
        Some(OperatorCall::Row(op)) => {
            let mut around = trace.stacks.outward(op).filter(|r| trace.classes[*r as usize] == Class::HostOp);
            around.any(|r| is(trace.columns.name(r as usize)))
        }
        Some(OperatorCall::Captured(_, operator)) => {
            nodes.outward(operator).filter_map(|o| nodes.operator(o)).any(|o| is(o.name))
        }
    }
}
