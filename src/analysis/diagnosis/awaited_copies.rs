//! Copies and sets that hold up the work behind them.
//!
//! ```text
//!   kernels  [ a ].................[ b ]
//!   copy     ......[=============]           b was launched before: it waits for the copy
//!   launch b     |
//! ```
//!
//! Where the next kernel is launched only later, the device waits for the host, and the copy costs nothing;
//! unless the host itself waits for the device meanwhile, in a call that returns when the copy has ended.

use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;

/// A kernel that waits for a copy starts this soon after it, ns.
const SOON: Ns = 20_000;

/// Share of the wait that a device may idle between the copies for which a kernel waits, percent.
const IDLE_PCT: Ns = 10;

/// Largest number of calls that are looked at for one that was open at an instant.
const CALLS: usize = 16;

/// The work of a device that copies can hold up.
pub(crate) struct AwaitedCopies<'a> {
    trace: &'a RankTrace,
    /// Kernels in order of start.
    kernels: Vec<u32>,
    busy: Union,
    /// Calls that wait for the device, in order of start.
    waits: &'a [u32],
}

impl<'a> AwaitedCopies<'a> {
    pub(crate) fn new(trace: &'a RankTrace, work: &DeviceWork, waits: &'a [u32]) -> Self {
        let is_kernel = |i: &u32| trace.activities[*i as usize].work != WorkClass::Memory;
        let kernels = work.activities.iter().copied().filter(is_kernel).collect();
        Self { trace, kernels, busy: work.timeline.busy(), waits }
    }

    /// The part of a piece, in which no kernel runs, that holds up what comes next, and the name of that:
    /// the operator of a kernel, the kernel, or the call of the host.
    pub(crate) fn held_up(&self, piece: Span) -> Option<(Span, StrId)> {
        let trace = self.trace;
        let activity = |i: &u32| &trace.activities[*i as usize];
        let next = self.kernels.partition_point(|i| activity(i).span.start < piece.end);
        let kernel = self.kernels.get(next).map(activity)?;
        let behind = Span::new(piece.end, kernel.span.start);
        let idle = behind.len() - self.busy.len_in(behind);
        let submitted = kernel.launch().map_or(piece.start, |l| trace.span(l).start);
        if submitted < piece.end {
            let is_soon = idle <= SOON + (kernel.span.start - piece.start) * IDLE_PCT / 100;
            let name = kernel.op().map_or(kernel.name, |op| trace.columns.name(op as usize));
            return is_soon.then(|| (Span::new(piece.start.max(submitted), piece.end), name));
        }
        let call = self.call_open_at(piece.end).filter(|call| trace.span(*call).end <= submitted)?;
        let since = trace.span(call).start.max(piece.start);
        Some((Span::new(since, piece.end), trace.columns.name(call as usize)))
    }

    /// A call that waits for the device and returns at an instant or later.
    fn call_open_at(&self, at: Ns) -> Option<u32> {
        let begun = self.waits.partition_point(|call| self.trace.span(*call).start < at);
        let near = self.waits[..begun].iter().rev().take(CALLS);
        near.copied().find(|call| self.trace.span(*call).end >= at)
    }
}
