//! The compute kernels of a device, each instant in one of them.

use hta_base::units::{Ns, Span};
use hta_facts::kernel_work::{KernelWork, KernelWorks};
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;

/// A compute kernel.
pub(crate) struct ComputeKernel {
    /// Index of the activity.
    pub(crate) activity: u32,
    pub(crate) work: KernelWork,
    /// The part of its span that belongs to it: of concurrent kernels, to that which started first.
    pub(crate) own: Span,
    pub(crate) start: Ns,
    pub(crate) len: Ns,
}

/// Compute of a device in order of time.
pub(crate) fn compute_kernels(trace: &RankTrace, work: &DeviceWork) -> Vec<ComputeKernel> {
    let works = KernelWorks::of(trace);
    let mut at = Ns::MIN;
    let mut out = Vec::new();
    for &activity in &work.activities {
        let a = &trace.activities[activity as usize];
        if a.work != WorkClass::Compute {
            continue;
        }
        let own = Span::new(a.span.start.max(at), a.span.end.max(at));
        at = at.max(a.span.end);
        out.push(ComputeKernel {
            activity,
            work: works.at(activity),
            own,
            start: a.span.start,
            len: a.span.len(),
        });
    }
    out
}

/// The time that each kernel has in a part of a window, with its index; kernels without time are left out.
pub(crate) fn times_in(kernels: &[ComputeKernel], part: Span) -> impl Iterator<Item = (usize, Ns)> {
    let first = kernels.partition_point(|k| k.own.end <= part.start);
    let inside = kernels[first..].iter().take_while(move |k| k.own.start < part.end);
    inside.enumerate().map(move |(i, k)| (first + i, k.own.intersect(part).len()))
}
