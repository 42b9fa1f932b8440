//! Files that name no devices, because files of their kind never do.

use hta_base::health::Counter;
use hta_trace::meta::Recorder;
use hta_trace::rank_trace::RankTrace;

/// Whether the file of a rank is torch's own `.pftrace`, and has no properties of its devices.
pub fn is_pftrace_of_torch(trace: &RankTrace) -> bool {
    trace.meta.recorder == Recorder::Cuspy
        && trace.health.count(Counter::StreamEndsCut) > 0
        && trace.devices.iter().all(|work| trace.device_properties(work.device).is_none())
}
