//! How long a rank computed between the two exchanges of a layer.
//!
//! ```text
//!   stream 20   [dispatch]                     [combine....]
//!   stream 7              [expert..][expert..]
//!   expert                [...................]               only kernels of experts, where some are there
//! ```
//!
//! On the host it is the time of the range that names experts, or else all time between the exchanges.

use crate::facts::experts::name::is_of_experts;
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::collective::CollectiveCall;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;

/// When a rank computed, and when experts did.
pub(super) struct ExpertCompute {
    /// By device: kernels of experts, and all compute.
    devices: HashMap<Option<i64>, [Union; 2]>,
    /// By thread: ranges that name experts.
    ranges: HashMap<u32, Union>,
}

impl ExpertCompute {
    pub(super) fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let of_experts = c.strings.each(is_of_experts);
        let of_device = |work: &hta_trace::device::DeviceWork| {
            let all = || work.activities.iter().filter_map(|i| trace.activities.get(*i as usize));
            let compute = all().filter(|a| a.work == WorkClass::Compute);
            let experts = compute.clone().filter(|a| of_experts.holds(a.name)).map(|a| a.span);
            (work.device, [Union::new(experts), Union::new(compute.map(|a| a.span))])
        };
        let mut ranges: HashMap<u32, Vec<Span>> = HashMap::new();
        for row in 0..c.len() {
            if trace.classes[row] == Class::Annotation && of_experts.holds(c.name(row)) {
                ranges.entry(c.lane[row]).or_default().push(trace.span(row as u32));
            }
        }
        Self {
            devices: trace.devices.iter().filter(|w| w.is_gpu).map(of_device).collect(),
            ranges: ranges.into_iter().map(|(lane, spans)| (lane, Union::new(spans))).collect(),
        }
    }

    /// Time of the experts between two calls of a rank, and whether it is known to be theirs.
    pub(super) fn between(&self, dispatch: &CollectiveCall, combine: &CollectiveCall) -> (Ns, bool) {
        if dispatch.shape.on_host {
            let between = Span::new(dispatch.span.end, combine.submit.max(dispatch.span.end));
            let ranges = dispatch.shape.thread.and_then(|lane| self.ranges.get(&lane));
            let named = ranges.map_or(0, |r| r.parts_in(between).map(|s| s.len()).sum());
            let whole = combine.submit - dispatch.released;
            return if named > 0 { (named, true) } else { (whole.max(0), false) };
        }
        let between = Span::new(dispatch.span.end, combine.span.start.max(dispatch.span.end));
        let Some([experts, compute]) = self.devices.get(&dispatch.shape.device) else { return (0, false) };
        match experts.len_in(between) {
            0 => (compute.len_in(between), false),
            named => (named, true),
        }
    }

    /// Whether kernels of experts are told by their names on the device of a call.
    pub(super) fn has_named(&self, call: &CollectiveCall) -> bool {
        !call.shape.on_host && self.devices.get(&call.shape.device).is_some_and(|[e, _]| !e.is_empty())
    }
}
