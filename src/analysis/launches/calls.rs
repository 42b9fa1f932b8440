//! Measures launch calls: how long the call took, what it started, and when that began. Times in ns.
//!
//! ```text
//!   thread    |---- call ----|
//!   stream              |== first ==|  |= last =|
//!   latency   |--------->               first start - call start
//!   delay                <---|          first start - call end: negative, it began before the call returned
//!   span                |-----------------------|
//! ```
//!
//! A start before the start of its own call is clock noise. It is kept here; in statistics its latency counts
//! as 0 and its delay as the negated length of the call.

use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::launch::is_launch_call;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// A call that starts work on a device, or seems to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchCall<'a> {
    /// Row of the call.
    pub(crate) row: u32,
    pub(crate) api: StrId,
    pub(crate) span: Span,
    /// Indices of its activities, in order of start.
    pub(crate) activities: &'a [u32],
    /// The activity that starts first; if several do, the first by device, stream and name.
    pub(crate) first: Option<u32>,
    /// From the first start to the last end of its activities.
    pub(crate) gpu_span: Option<Span>,
    /// Summed duration of its activities, ns.
    pub(crate) gpu_ns: Ns,
    /// Time in which any of them ran, ns.
    pub(crate) gpu_busy_ns: Ns,
    /// Part of the call during which the device of its first activity was idle, outside the device's lead,
    /// ns.
    pub(crate) idle_ns: Ns,
    /// Whether one of its activities was queued behind work from before the recording. If so, its latency and
    /// delay do not measure launching.
    pub(crate) behind_unrecorded: bool,
}

impl LaunchCall<'_> {
    pub(crate) fn cpu_ns(&self) -> Ns {
        self.span.len()
    }

    /// From the start of the call to the first start, ns.
    pub(crate) fn latency_ns(&self) -> Option<Ns> {
        self.gpu_span.map(|g| g.start - self.span.start)
    }

    /// From the end of the call to the first start, ns.
    pub(crate) fn delay_ns(&self) -> Option<Ns> {
        self.gpu_span.map(|g| g.start - self.span.end)
    }

    /// Whether its first activity starts before the call does.
    pub(crate) fn is_noise(&self) -> bool {
        self.latency_ns().is_some_and(|l| l < 0)
    }

    /// Whether its activities run shorter than the call itself; for a graph, the time in which any node runs.
    pub(crate) fn is_short(&self) -> bool {
        !self.activities.is_empty() && self.gpu_busy_ns < self.cpu_ns()
    }
}

/// All launch calls of a rank in order of (start, row).
pub(crate) fn launch_calls(trace: &RankTrace) -> Vec<LaunchCall<'_>> {
    let launches = trace.launches();
    let looks = trace.columns.strings.each(is_launch_call);
    let gpus = trace.devices.iter().filter(|d| d.is_gpu);
    let busy: BusyDevices = gpus.map(|d| (d.device, (d.capture, d.timeline.busy()))).collect();
    let mut owners = launches.iter().peekable();
    let mut calls = Vec::with_capacity(launches.len());
    for (row, class) in trace.classes.iter().enumerate() {
        let own = owners.next_if(|(owner, _)| *owner as usize == row).map(|o| o.1);
        let named = || looks.holds(trace.columns.name(row));
        // What is recorded into a graph starts nothing.
        let is_launch =
            || *class == Class::Runtime && named() && !trace.stream_captures.hold(&trace.columns, row as u32);
        if let Some(activities) = own.or_else(|| is_launch().then_some(&[][..])) {
            calls.push(measure(trace, row as u32, activities, &busy));
        }
    }
    calls.sort_by_key(|c| (c.span.start, c.row));
    calls
}

/// The capture and the busy time of each device.
type BusyDevices = HashMap<Option<i64>, (Span, Union)>;

fn measure<'a>(trace: &RankTrace, row: u32, activities: &'a [u32], busy: &BusyDevices) -> LaunchCall<'a> {
    let of = || activities.iter().map(|&i| &trace.activities[i as usize]);
    let span = trace.span(row);
    let start = of().map(|a| a.span.start).min();
    let end = of().map(|a| a.span.end).max();
    let first = activities
        .iter()
        .take_while(|&&i| Some(trace.activities[i as usize].span.start) == start)
        .min_by_key(|&&i| {
            let a = &trace.activities[i as usize];
            (a.device(), a.stream(), trace.text(a.name), i)
        })
        .copied();
    let device = first.map(|i| trace.activities[i as usize].device());
    let of_device = device.and_then(|d| busy.get(&d));
    let gpu_ns = of().map(|a| a.span.len()).sum();
    LaunchCall {
        row,
        api: trace.columns.name(row as usize),
        span,
        activities,
        first,
        gpu_span: start.zip(end).map(|(s, e)| Span::new(s, e)),
        gpu_ns,
        gpu_busy_ns: if activities.len() > 1 { Union::new(of().map(|a| a.span)).len() } else { gpu_ns },
        idle_ns: of_device.map_or(0, |(capture, b)| {
            let seen = span.intersect(*capture);
            seen.len() - b.len_in(seen)
        }),
        behind_unrecorded: trace.edges.is_behind(span.start, of()),
    }
}
