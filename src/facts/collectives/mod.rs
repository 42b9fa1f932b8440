//! Calls of collectives as one rank recorded them, from its kernels and from ranges on the host.

mod evidence;
mod found;
mod gpu;
mod host;
mod ranges;
pub(crate) mod shapes;

use found::CallCollector;
use hta_trace::activity::Activity;
use hta_trace::category::Class;
use hta_trace::collective::{CollectiveKind, KernelRole, RankCalls};
use hta_trace::rank_trace::RankTrace;
use hta_trace::rules::copy_kind;
use hta_trace::timeline::WorkClass;
use std::sync::Arc;

/// The kind of a GPU activity: of a collective its kind, of a copy its direction; `None` for compute.
pub fn activity_kind(trace: &RankTrace, a: &Activity) -> Option<&'static str> {
    match a.work {
        WorkClass::Communication if a.class != Class::Memcpy => {
            Some(collectives(trace).kind_of(a.row).name())
        }
        WorkClass::Memory | WorkClass::Communication => Some(copy_kind(a.class, trace.text(a.name))),
        WorkClass::Fused => Some(CollectiveKind::Fused.name()),
        WorkClass::Compute => None,
    }
}

/// The part of a GPU activity in an exchange: what the kernel rules name, or the kind of its collective.
pub fn role_name(role: Option<KernelRole>, kind: Option<&'static str>) -> Option<&'static str> {
    let is_known = |kind: &&str| CollectiveKind::named(kind).is_some_and(|k| k != CollectiveKind::Unknown);
    role.map(KernelRole::name).or(kind.filter(is_known))
}

/// The rank's calls of collectives.
pub fn collectives(trace: &RankTrace) -> Arc<RankCalls> {
    trace.shared(|trace| {
        let mut found = CallCollector::default();
        // Index 0 is the unknown type, and no title.
        found.dtype("");
        found.title("");
        gpu::find(trace, &mut found);
        host::find(trace, &mut found);
        found.list(&trace.meta);
        found.finish()
    })
}
