//! How long a rank computed between the two exchanges of a layer.
//!
//! ```text
//!   stream 20   [dispatch]                     [combine....]
//!   stream 7              [expert..][expert..]
//!   expert                [...................]               only category moe and gemm, where moe is there
//! ```
//!
//! Steps of one rank that belong to the exchanges (roles `prepare` and `finish`) are no work of experts.
//! Where no kernel has the category of experts, all compute there is theirs, with the activations between
//! plain products.
//!
//! On the host it is the time of the range that names experts, or else all time between the exchanges.

use crate::experts::name::is_of_experts;
use crate::kernel_work::KernelWorks;
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::collective::CollectiveCall;
use hta_trace::collective::KernelRole;
use hta_trace::interval::Union;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;

/// When a rank computed, and when experts did.
pub(super) struct ExpertCompute {
    /// By device: kernels of experts, these and other products, and all compute.
    devices: HashMap<Option<i64>, [Union; 3]>,
    /// By thread: ranges that name experts.
    ranges: HashMap<u32, Union>,
}

impl ExpertCompute {
    pub(super) fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let of_experts = c.strings.each(is_of_experts);
        let works = KernelWorks::of(trace);
        let of_device = |work: &hta_trace::device::DeviceWork| {
            let all = work.activities.iter().filter_map(|i| Some((*i, trace.activities.get(*i as usize)?)));
            let is_step =
                |role: Option<KernelRole>| matches!(role, Some(KernelRole::Prepare | KernelRole::Finish));
            let compute = all.filter(|(_, a)| a.work == WorkClass::Compute && !is_step(a.role));
            let of = |categories: &'static [Category]| {
                let is_one = |(i, _): &(u32, _)| categories.contains(&works.at(*i).category);
                Union::new(compute.clone().filter(is_one).map(|(_, a)| a.span))
            };
            let (experts, products) = (of(&[Category::Moe]), of(&[Category::Moe, Category::Gemm]));
            (work.device, [experts, products, Union::new(compute.map(|(_, a)| a.span))])
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
            let named = ranges.map_or(0, |r| r.len_in(between));
            let whole = combine.submit - dispatch.released;
            return if named > 0 { (named, true) } else { (whole.max(0), false) };
        }
        let between = Span::new(dispatch.span.end, combine.span.start.max(dispatch.span.end));
        let device = self.devices.get(&dispatch.shape.device);
        let Some([experts, products, compute]) = device else { return (0, false) };
        match experts.len_in(between) {
            0 => (compute.len_in(between), false),
            _ => (products.len_in(between), true),
        }
    }

    /// Whether kernels of experts are told by their category on the device of a call.
    pub(super) fn has_named(&self, call: &CollectiveCall) -> bool {
        !call.shape.on_host && self.devices.get(&call.shape.device).is_some_and(|[e, ..]| !e.is_empty())
    }
}
