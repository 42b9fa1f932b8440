//! Names of expert layers, and what names say of an exchange.
//!
//! ```text
//!   module        Model_0/Block_3/MoE_1          the whole path
//!   annotation    layer0.dispatch                layer0, dispatch
//!                 layers.3.moe                   layers.3.moe
//!                 dispatch(F)                    no name, dispatch
//! ```

use crate::direction::Direction;
use crate::modules::{RowModules, around_of};
use hta_trace::category::Class;
use hta_trace::collective::KernelRole;
use hta_trace::no_step::is_backend_range;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::is_profiler_step;
use std::sync::Arc;

/// The two exchanges of a layer: tokens go to their experts, and results come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerRole {
    Dispatch,
    Combine,
    /// One of the two: the library has one kernel for both.
    Either,
    /// Both, with the experts between them: a fused kernel.
    Whole,
}

impl LayerRole {
    /// What the kernel of a library for experts does; `None` for others. Where no rule says its part in an
    /// exchange, as with rules of the user, its name does.
    pub(super) fn of_kernel(role: Option<KernelRole>, name: &str) -> Option<Self> {
        match role {
            Some(KernelRole::Dispatch | KernelRole::DispatchGemm) => Some(LayerRole::Dispatch),
            Some(KernelRole::Combine | KernelRole::GemmCombine) => Some(LayerRole::Combine),
            Some(KernelRole::DispatchGemmCombine) => Some(LayerRole::Whole),
            Some(KernelRole::AllToAll) if is_of_experts(name) => Some(LayerRole::Either),
            Some(_) => None,
            None => {
                let head = name.split(['<', '(']).find(|part| Self::at_end(part).is_some()).unwrap_or(name);
                Self::at_end(head).filter(|_| !name.starts_with("nccl"))
            }
        }
    }

    fn at_end(text: &str) -> Option<Self> {
        let last = text.trim().rsplit("::").next().unwrap_or(text).to_ascii_lowercase();
        let has = |word: &str| last.contains(word);
        match (has("notify") || has("layout") || has("combinesync"), has("dispatch"), has("combine")) {
            (true, ..) => None,
            (_, true, false) => Some(LayerRole::Dispatch),
            (_, false, true) => Some(LayerRole::Combine),
            _ => None,
        }
    }
}

/// Whether the name of a module, range or exchange says that it is of experts.
pub(super) fn is_of_experts(name: &str) -> bool {
    const WORDS: [&str; 6] = ["expert", "moe", "grouped", "group_gemm", "groupgemm", "m_grouped"];
    let lower = name.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

/// The names around the operators of exchanges.
pub(super) struct LayerNames<'a> {
    trace: &'a RankTrace,
    /// By exchange: its operator's module, and (next field) the innermost annotation around it.
    modules: Vec<Option<Arc<str>>>,
    annotations: Vec<Option<u32>>,
}

impl<'a> LayerNames<'a> {
    pub(super) fn new(trace: &'a RankTrace, ops: Vec<Option<u32>>) -> Self {
        let modules = RowModules::new(trace);
        let of_module = |op: &Option<u32>| op.and_then(|row| modules.path(row)).map(Arc::from);
        let is_layer = trace.columns.strings.each(can_be_layer);
        let rows: Vec<u32> = ops.iter().copied().flatten().collect();
        let is_range = |row: u32| {
            trace.classes[row as usize] == Class::Annotation
                && is_layer.holds(trace.columns.name(row as usize))
        };
        let mut found = around_of(trace, &rows, is_range).into_iter();
        let annotations = ops.iter().map(|op| op.and_then(|_| found.next().flatten())).collect();
        Self { trace, modules: ops.iter().map(of_module).collect(), annotations }
    }

    /// The name of the layer of an exchange, and its role in it.
    pub(super) fn of(&self, exchange: usize) -> (Arc<str>, Option<LayerRole>) {
        let annotation = self.annotation(exchange);
        let (layer, role) = annotation.map_or(("", None), parts_of);
        let module = self.modules.get(exchange).cloned().flatten();
        (module.unwrap_or_else(|| Arc::from(layer)), role)
    }

    /// The part of the step that an annotation names: `dispatch(F)`, `combine(B)`.
    pub(super) fn direction(&self, exchange: usize) -> Option<Direction> {
        let name = self.annotation(exchange)?;
        let has = |mark: &str| name.ends_with(mark);
        [("(F)", Direction::Forward), ("(B)", Direction::Backward)]
            .into_iter()
            .find(|(mark, _)| has(mark))
            .map(|(_, d)| d)
    }

    /// Whether a name around an exchange says that it is of experts.
    pub(super) fn says_experts(&self, exchange: usize) -> bool {
        let module = self.modules.get(exchange).and_then(|m| m.as_deref());
        module.is_some_and(is_of_experts)
            || self.annotation(exchange).is_some_and(|a| is_of_experts(a) || parts_of(a).1.is_some())
    }

    fn annotation(&self, exchange: usize) -> Option<&str> {
        self.annotations.get(exchange).copied().flatten().map(|row| self.trace.name(row))
    }
}

/// Whether an annotation may name a layer: not those of steps, back ends, optimizers and pipelines.
fn can_be_layer(name: &str) -> bool {
    const OTHERS: [&str; 3] = ["PP:", "Optimizer", "enumerate("];
    !is_profiler_step(name) && !is_backend_range(name) && !OTHERS.iter().any(|start| name.starts_with(start))
}

/// The layer and the role that an annotation names.
fn parts_of(name: &str) -> (&str, Option<LayerRole>) {
    const ROLES: [(&str, Option<LayerRole>); 5] = [
        ("dispatch", Some(LayerRole::Dispatch)),
        ("combine", Some(LayerRole::Combine)),
        ("all_to_all", None),
        ("alltoall", None),
        ("a2a", None),
    ];
    let bare = name.trim_end_matches(')').rsplit_once('(').map_or(name, |(head, _)| head);
    let lower = bare.to_ascii_lowercase();
    for (word, role) in ROLES {
        if let Some(layer) = lower.ends_with(word).then(|| bare.get(..bare.len() - word.len())).flatten() {
            return (layer.trim_end_matches(['.', '/', ':', '_', '-', ' ']), role);
        }
    }
    (bare, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_name_layer_and_role() {
        assert_eq!(parts_of("layer0.dispatch"), ("layer0", Some(LayerRole::Dispatch)));
        assert_eq!(parts_of("layers.3.moe"), ("layers.3.moe", None));
        assert_eq!(parts_of("combine(B)"), ("", Some(LayerRole::Combine)));
    }

    #[test]
    fn kernels_of_libraries_say_their_role() {
        let named = |name| LayerRole::of_kernel(None, name);
        let dispatch = "void deep_ep::intranode::dispatch<8, 768>(int4*, float*)";
        assert_eq!(named(dispatch), Some(LayerRole::Dispatch));
        assert_eq!(named("void deep_ep::intranode::combine<__nv_bfloat16, 8>(x)"), Some(LayerRole::Combine));
        assert_eq!(named("void mori::moe::EpCombineIntraNodeKernel<float>(x)"), Some(LayerRole::Combine));
        assert_eq!(named("void deep_ep::internode::notify_dispatch<false, 8>(x)"), None);
        assert_eq!(named("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), None);
        let role = |role, name| LayerRole::of_kernel(Some(role), name);
        assert_eq!(role(KernelRole::Barrier, dispatch), None);
        assert_eq!(role(KernelRole::AllToAll, "moeAllToAllKernel"), Some(LayerRole::Either));
        assert_eq!(role(KernelRole::AllToAll, "nvshmemi_alltoall"), None);
    }
}
