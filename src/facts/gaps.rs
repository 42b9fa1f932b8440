//! Gaps of a device or stream, and what each waits for.
//!
//! ```text
//!   gap        a..............................b|== next ==|
//!   launch            |----call----|
//!              host wait ..........|  submitted, not started
//!              [a, h)               [h, b)                   h = clamp(end of call, a, b)
//! ```

use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

/// A gap with the cause of each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub span: Span,
    /// End of the host's part: until then the host had not finished submitting the next activity.
    pub host_until: Ns,
    pub rest: GapCause,
    /// Index of the activity that ends the gap.
    pub next: Option<u32>,
    /// Lane of the thread that is responsible for the host's part.
    pub thread: Option<u32>,
}

/// Cause of the part after the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapCause {
    KernelWait,
    Other,
    Unlinked,
}

/// Sums over gaps or parts of gaps, ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdleSums {
    pub count: u64,
    pub idle: Ns,
    pub host: Ns,
    pub kernel: Ns,
    pub other: Ns,
    pub unlinked: Ns,
    pub other_stream_busy: Ns,
}

impl IdleSums {
    /// Adds the part inside `window` of a gap whose host's part ends at `host_until`.
    pub fn add(&mut self, gap: Span, host_until: Ns, rest: GapCause, window: Span) {
        let part = gap.intersect(window);
        if part.is_empty() {
            return;
        }
        let behind = Span::new(host_until, gap.end).intersect(window).len();
        self.count += 1;
        self.idle += part.len();
        self.host += part.len() - behind;
        match rest {
            GapCause::KernelWait => self.kernel += behind,
            GapCause::Other => self.other += behind,
            GapCause::Unlinked => {
                self.other += behind;
                self.unlinked += behind;
            }
        }
    }
}

impl Gap {
    /// Adds the part of this gap inside `window`.
    pub fn add_to(&self, sums: &mut IdleSums, window: Span) {
        sums.add(self.span, self.host_until, self.rest, window);
    }
}

/// Classifies gaps. `activities` are those that can end a gap, in order of start.
pub struct Classifier<'a> {
    pub trace: &'a RankTrace,
    pub activities: &'a [u32],
    pub kernel_wait_max: Ns,
    /// Responsible thread if no activity follows.
    pub default_thread: Option<u32>,
}

impl<'a> Classifier<'a> {
    /// The classifier of the gaps of a device.
    pub fn of_device(trace: &'a RankTrace, work: &'a DeviceWork, kernel_wait_max: Ns) -> Self {
        let default_thread = if work.is_gpu { busiest_launcher(trace, work) } else { trace.main_thread() };
        Self { trace, activities: &work.activities, kernel_wait_max, default_thread }
    }

    pub fn classify(&self, span: Span) -> Gap {
        let t = self.trace;
        let start = |i: &u32| t.activities[*i as usize].span.start;
        let from = self.activities.partition_point(|i| start(i) < span.end);
        let tied = self.activities.get(from).map(start);
        // Ties: the earliest launch, then the lowest event.
        let launched =
            |i: &u32| t.activities[*i as usize].launch().map_or(Ns::MAX, |l| t.columns.ts[l as usize]);
        let next = self.activities[from..]
            .iter()
            .take_while(|i| Some(start(i)) == tied)
            .min_by_key(|i| (launched(i), t.activities[**i as usize].row))
            .copied();
        let gap = |host_until, rest, thread| Gap { span, host_until, rest, next, thread };
        let Some(i) = next else { return gap(span.end, GapCause::Other, self.default_thread) };
        let Some(launch) = t.activities[i as usize].launch() else {
            return gap(span.start, GapCause::Unlinked, None);
        };
        let host_until = t.span(launch).end.clamp(span.start, span.end);
        let soon = span.end - host_until < self.kernel_wait_max;
        let rest = if soon { GapCause::KernelWait } else { GapCause::Other };
        gap(host_until, rest, Some(t.columns.lane[launch as usize]))
    }
}

/// The thread that launches most of a device's activities (ties: the first).
fn busiest_launcher(trace: &RankTrace, work: &DeviceWork) -> Option<u32> {
    let mut launches: BTreeMap<u32, u64> = BTreeMap::new();
    for &i in &work.activities {
        if let Some(l) = trace.activities[i as usize].launch() {
            *launches.entry(trace.columns.lane[l as usize]).or_default() += 1;
        }
    }
    launches.iter().max_by_key(|(lane, n)| (**n, std::cmp::Reverse(**lane))).map(|(l, _)| *l)
}
