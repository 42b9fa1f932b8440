//! Host time of the thread that launches a device's work, by cause, in all windows of the device.

use crate::CauseKind;
use crate::host::HostSide;
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::window::{Scope, Window};
use std::cmp::Reverse;

table! {
    /// Host time of the thread that launches a device's work in a window.
    pub(crate) struct LostHostTime, HostTimeRow = "host_time" by "rank, device, scope, step, cause, key" {
        rank; device; scope; step; step_label;
        cause: Text, "", "kind of cause; empty: calls that wait for the device";
        key: Text, "", "of the capture: names of code outside operators with most time; empty: all of it";
        time_ns: i64, "ns", "time of the thread";
    }
}

/// Names of code that have a row.
const NAMES: usize = 8;

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

/// Sums the time of a thread by what it does, whether or not the device idles; pauses by their own length.
/// The thread is walked once, whatever the number of windows.
pub(crate) struct HostTimes<'a> {
    trace: &'a RankTrace,
    windows: &'a [Window],
    /// Spans in which the thread works for a window, with its index, in order of start.
    spans: Vec<(Span, usize)>,
    /// Those that the walk has reached and that have not ended; index of the first that it has not reached.
    open: Vec<(Span, usize)>,
    next: usize,
    /// Calls of the thread that wait for the device.
    blocked: &'a Union,
    /// By window.
    sums: Vec<WindowSums>,
    /// Time in code outside operators by the event that the thread is in. What the host does between two of
    /// its steps is in no window.
    code: HashMap<StrId, Ns>,
}

impl<'a> HostTimes<'a> {
    pub(crate) fn new(
        trace: &'a RankTrace,
        host: &'a HostSide,
        thread: Option<u32>,
        windows: &'a [Window],
    ) -> Self {
        let mut spans: Vec<(Span, usize)> = windows.iter().enumerate().flat_map(of_window(trace)).collect();
        spans.retain(|(span, _)| !span.is_empty());
        spans.sort_unstable_by_key(|(span, w)| (span.start, *w));
        let sums = vec![WindowSums { waits: 0, by_kind: [0; KINDS] }; windows.len()];
        let (blocked, code) = (host.blocked(thread), HashMap::default());
        Self { trace, windows, spans, open: Vec::new(), next: 0, blocked, sums, code }
    }

    /// The spans of the thread that matter for a window.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> {
        self.spans.iter().map(|(span, _)| *span)
    }

    /// Counts a piece of the thread, which is in the event `row`. Pieces come in order of time.
    pub(crate) fn count(&mut self, piece: Span, kind: CauseKind, row: u32) {
        if kind == CauseKind::HostPython && row != u32::MAX {
            *self.code.entry(self.trace.columns.name(row as usize)).or_default() += piece.len();
        }
        self.open.retain(|(span, _)| span.end > piece.start);
        while let Some(begun) = self.spans.get(self.next).filter(|(span, _)| span.start < piece.end) {
            self.open.extend((begun.0.end > piece.start).then_some(*begun));
            self.next += 1;
        }
        if kind == CauseKind::NotExplained || self.open.is_empty() {
            return;
        }
        let whole = self.blocked.len_in(piece);
        for (span, window) in &self.open {
            let part = piece.intersect(*span);
            let waits = if part == piece { whole } else { self.blocked.len_in(part) };
            self.sums[*window].waits += waits;
            self.sums[*window].by_kind[kind as usize] += part.len() - waits;
        }
    }

    /// Adds the rows of a device.
    pub(crate) fn push(self, table: &mut LostHostTime, work: &DeviceWork) {
        let trace = self.trace;
        let mut kinds: Vec<CauseKind> = CauseKind::ALL.to_vec();
        kinds.sort_unstable_by_key(|kind| kind.name());
        for (w, of_window) in self.windows.iter().zip(&self.sums) {
            let causes = kinds.iter().map(|kind| (kind.name(), of_window.by_kind[*kind as usize]));
            for (cause, time_ns) in
                [("", of_window.waits)].into_iter().chain(causes).filter(|(_, ns)| *ns > 0)
            {
                table.push(HostTimeRow {
                    rank: trace.rank,
                    device: work.device,
                    scope: w.scope.name(),
                    step: w.step,
                    step_label: w.label,
                    cause,
                    key: "",
                    time_ns,
                });
            }
        }
        let mut code: Vec<(&str, Ns)> = self.code.iter().map(|(name, ns)| (trace.text(*name), *ns)).collect();
        code.sort_unstable_by_key(|(name, ns)| (Reverse(*ns), *name));
        code.truncate(NAMES);
        code.sort_unstable();
        for (key, time_ns) in code {
            table.push(HostTimeRow {
                rank: trace.rank,
                device: work.device,
                scope: Scope::Capture.name(),
                step: None,
                step_label: None,
                cause: CauseKind::HostPython.name(),
                key,
                time_ns,
            });
        }
    }
}

/// The spans in which the host works for a window. It works for a step of the device during its own step.
fn of_window(trace: &RankTrace) -> impl Fn((usize, &Window)) -> Vec<(Span, usize)> {
    move |(i, w)| match (w.scope, w.step.and_then(|i| trace.steps.steps.get(i as usize))) {
        (Scope::DeviceStep, Some(step)) => vec![(step.host.intersect(trace.capture), i)],
        _ => w.parts().iter().map(|span| (*span, i)).collect(),
    }
}
