//! Host time of the thread that launches a device's work, by cause, in all windows of the device.

use crate::diagnosis::CauseKind;
use crate::diagnosis::host::HostSide;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::{Scope, Window};

table! {
    /// Host time of the thread that launches a device's work in a window.
    pub(crate) struct LostHostTime, HostTimeRow = "host_time" by "rank, device, scope, step, cause" {
        rank; device; scope; step; step_label;
        cause: Text, "", "kind of cause; empty: calls that wait for the device";
        time_ns: i64, "ns", "time of the thread";
    }
}

/// Number of kinds of causes.
const KINDS: usize = CauseKind::ALL.len();

/// Host time of one window, ns.
#[derive(Clone, Copy)]
struct WindowSums {
    /// In calls that wait for the device.
    waits: Ns,
    /// Of the rest, by kind.
    by_kind: [Ns; KINDS],
}

/// Adds the time of the thread by what it does, whether or not the device idles; pauses by their own length.
/// The thread is walked once, whatever the number of windows.
pub(crate) fn push(
    table: &mut LostHostTime,
    trace: &RankTrace,
    work: &DeviceWork,
    host: &HostSide,
    thread: Option<u32>,
    windows: &[Window],
) {
    let mut spans: Vec<(Span, usize)> = windows.iter().enumerate().flat_map(of_window(trace)).collect();
    spans.retain(|(span, _)| !span.is_empty());
    spans.sort_unstable_by_key(|(span, w)| (span.start, *w));
    let sums = sums(host, thread, &spans, windows.len());
    let mut kinds: Vec<CauseKind> = CauseKind::ALL.to_vec();
    kinds.sort_unstable_by_key(|kind| kind.name());
    for (w, of_window) in windows.iter().zip(&sums) {
        let causes = kinds.iter().map(|kind| (kind.name(), of_window.by_kind[*kind as usize]));
        for (cause, time_ns) in [("", of_window.waits)].into_iter().chain(causes).filter(|(_, ns)| *ns > 0) {
            table.push(HostTimeRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                cause,
                time_ns,
            });
        }
    }
}

/// The spans in which the host works for a window. It works for a step of the device during its own step.
fn of_window(trace: &RankTrace) -> impl Fn((usize, &Window)) -> Vec<(Span, usize)> {
    move |(i, w)| match (w.scope, w.step.and_then(|i| trace.steps.steps.get(i as usize))) {
        (Scope::DeviceStep, Some(step)) => vec![(step.host.intersect(trace.capture), i)],
        _ => w.parts.iter().map(|span| (*span, i)).collect(),
    }
}

/// Sums of each window, of which there are so many. `spans` are in order of start.
fn sums(host: &HostSide, thread: Option<u32>, spans: &[(Span, usize)], windows: usize) -> Vec<WindowSums> {
    let mut sums = vec![WindowSums { waits: 0, by_kind: [0; KINDS] }; windows];
    let Some(start) = spans.first().map(|(span, _)| span.start) else { return sums };
    let end = spans.iter().map(|(span, _)| span.end).max().unwrap_or(start);
    let blocked = host.blocked(thread);
    let (mut open, mut next): (Vec<(Span, usize)>, usize) = (Vec::new(), 0);
    host.each(thread, Span::new(start, end), |piece, assigned| {
        open.retain(|(span, _)| span.end > piece.start);
        while let Some(begun) = spans.get(next).filter(|(span, _)| span.start < piece.end) {
            open.extend((begun.0.end > piece.start).then_some(*begun));
            next += 1;
        }
        if assigned.kind == CauseKind::NotExplained {
            return;
        }
        let whole = blocked.len_in(piece);
        for (span, window) in &open {
            let part = piece.intersect(*span);
            let waits = if part == piece { whole } else { blocked.len_in(part) };
            sums[*window].waits += waits;
            sums[*window].by_kind[assigned.kind as usize] += part.len() - waits;
        }
    });
    sums
}
