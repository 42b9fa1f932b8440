//! Calls of collectives as one rank recorded them, from its kernels and from ranges on the host.

mod evidence;
mod found;
mod gpu;
mod host;

use crate::trace::collective::RankCalls;
use crate::trace::rank_trace::RankTrace;
use found::CallCollector;
use std::sync::Arc;

/// The rank's calls of collectives.
pub fn collectives(trace: &RankTrace) -> Arc<RankCalls> {
    trace.shared(|trace| {
        let mut found = CallCollector::default();
        // Index 0 is the unknown type.
        found.dtype("");
        gpu::find(trace, &mut found);
        host::find(trace, &mut found);
        found.finish()
    })
}
