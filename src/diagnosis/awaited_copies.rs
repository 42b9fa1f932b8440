//! Exposed copies and sets, cut by owner, and whether they hold up the work behind them.
//!
//! ```text
//!   kernels  [ a ].................[ b ]
//!   copy     ......[=============]           b was launched before: it waits for the copy
//!   launch b     |
//! ```
//!
//! Where the next kernel is launched only later, the device waits for the host, and the copy costs nothing;
//! unless the host itself waits for the device meanwhile, in a call that returns when the copy has ended.

use crate::CauseKind;
use crate::copy_times::{self, PageablePiece};
use crate::piece::{LostPiece, frame_of};
use hta_analysis::copies::copy::Copy;
use hta_base::units::{Ns, Span};
use hta_facts::lines::CodePlaces;
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

/// Exposed copies, cut by owner. Time of several copies belongs to the one that started first.
/// What no kind owns is of those copies that something waits for.
pub(crate) fn copy_pieces(
    trace: &RankTrace,
    work: &DeviceWork,
    ways: &[(Copy, Option<CauseKind>)],
    waits: &[u32],
) -> (Vec<LostPiece>, Vec<PageablePiece>) {
    let above = |w: WorkClass| work.timeline.when(w);
    let hidden = Union::new(
        [WorkClass::Compute, WorkClass::Fused, WorkClass::Communication]
            .iter()
            .flat_map(|w| above(*w).spans().to_vec()),
    );
    let device = |c: &Copy| trace.activities[c.activity as usize].device() == work.device;
    let mut own: Vec<&(Copy, Option<CauseKind>)> = ways.iter().filter(|(c, _)| device(c)).collect();
    own.sort_by_key(|(c, _)| (c.span.start, c.activity));
    let mut out = Vec::new();
    let mut pageable = Vec::new();
    let has_others = own.iter().any(|(_, way)| way.is_none());
    let awaited = has_others.then(|| AwaitedCopies::new(trace, work, waits));
    let mut places = CodePlaces::new(trace);
    let mut at = Ns::MIN;
    for (c, way) in own {
        let from = c.span.start.max(at);
        at = at.max(c.span.end);
        if from >= c.span.end {
            continue;
        }
        let key = trace.activities[c.activity as usize].name;
        let call = c.call.unwrap_or(u32::MAX);
        let (detail, place) = (frame_of(trace, call), places.of(call));
        for span in hidden.gaps_in(Span::new(from, c.span.end)) {
            let kind = way.unwrap_or(CauseKind::NotExplained);
            let piece = LostPiece { span, kind, key, detail, place, row: call };
            let rate = copy_times::rate(c).filter(|_| kind == CauseKind::CopyPageable);
            pageable.extend(rate.map(|rate| PageablePiece { span, direction: c.direction, rate }));
            let awaited = awaited.as_ref().filter(|_| way.is_none());
            let Some((held, waiter)) = awaited.and_then(|a| a.held_up(span)) else {
                out.push(piece);
                continue;
            };
            let before = Span::new(span.start, held.start);
            out.extend((!before.is_empty()).then_some(LostPiece { span: before, ..piece }));
            out.push(LostPiece { span: held, kind: CauseKind::CopyExposed, detail: waiter, ..piece });
        }
    }
    (out, pageable)
}

/// The work of a device that copies can hold up.
struct AwaitedCopies<'a> {
    trace: &'a RankTrace,
    /// Kernels in order of start.
    kernels: Vec<u32>,
    busy: Union,
    /// Calls that wait for the device, in order of start.
    waits: &'a [u32],
}

impl<'a> AwaitedCopies<'a> {
    fn new(trace: &'a RankTrace, work: &DeviceWork, waits: &'a [u32]) -> Self {
        let is_kernel = |i: &u32| trace.activities[*i as usize].work != WorkClass::Memory;
        let kernels = work.activities.iter().copied().filter(is_kernel).collect();
        Self { trace, kernels, busy: work.timeline.busy(), waits }
    }

    /// The part of a piece, in which no kernel runs, that holds up what comes next, and the name of that:
    /// the operator of a kernel, the kernel, or the call of the host.
    fn held_up(&self, piece: Span) -> Option<(Span, StrId)> {
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
