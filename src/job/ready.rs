//! When a rank was ready for each of its collectives, and whether it waited for their ends.
//!
//! Collectives of a group run one after the other on a stream. The kernel of a rank that is early starts when
//! the previous one ends, not when the rank's data is ready, so the starts of kernels hide lateness behind
//! earlier collectives:
//!
//! ```text
//!   fast rank   compute  |b1|b2|b3|                          ready for 2 and 3 long before their kernels start
//!               stream 20    [1......][2.......][3.....]
//!   slow rank   compute  |b1....|b2....|b3....|
//!               stream 20        [1]     [2]   [3]           ready when each part of its backward pass ends
//! ```
//!
//! *ready* is the later of the start of the launch call and the latest end of the compute activities that the
//! rank's host launched before it, but never later than the kernel's own start. A collective on the host is
//! ready when it is submitted.
//!
//! A rank *waited* for the end of a collective if its compute continued because of that end: the next compute
//! activity could have started earlier (it was launched, and the previous one had ended), or the host was in
//! a blocking call across the end and launched it afterwards. A rank *runs on* if it computes across the end.

use hta_base::units::{Ns, Span};
use hta_facts::host_activity::{ALLOCATION_LONG, HostActivity, HostNames};
use hta_trace::collective::{CollectiveCall, RankCalls};
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;

/// Times that differ by at most this count as equal, ns: files that were rewritten with floating-point times
/// move borders by nanoseconds, and some recorders write whole microseconds.
pub(crate) const TOLERANCE: Ns = 1_000;

/// Time that a device needs between two queued activities, ns.
const QUEUE_GAP: Ns = 2_000;

/// An activity launched to an idle device starts within this time after the start of its launch call, ns.
const LAUNCH_LATENCY: Ns = 20_000;

/// A call in which a thread waited for the end of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostWait {
    pub(crate) returned: Ns,
    /// Index of the collective's call.
    pub(crate) call: u32,
}

/// What a rank's own trace says about one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// When the rank was ready for it.
    pub(crate) ready: Ns,
    /// Whether the rank computes across its end, or (on the host) submits the next one before its end.
    pub(crate) runs_on: bool,
    /// Whether the rank waited for its end.
    pub(crate) is_awaited: bool,
    /// Since when nothing was computed at its end, so that what follows could not have begun earlier. The end
    /// itself if the rank runs on, and on the host.
    pub(crate) idle_since: Ns,
    /// The last call before the submission in which the submitting or the main thread waited for the end of a
    /// collective.
    pub(crate) host_wait: Option<HostWait>,
}

/// Readiness of a rank without peers, from its calls alone.
pub(crate) fn alone(calls: &RankCalls) -> Vec<Readiness> {
    let of_call = |c: &CollectiveCall| Readiness {
        ready: c.arrival(),
        runs_on: false,
        is_awaited: false,
        idle_since: c.released,
        host_wait: None,
    };
    calls.calls.iter().map(of_call).collect()
}

/// Whether a call of a device started right after another one of the same stream.
pub fn is_queued_behind(previous: &CollectiveCall, c: &CollectiveCall) -> bool {
    !c.shape.on_host
        && (previous.shape.device, previous.shape.stream) == (c.shape.device, c.shape.stream)
        && c.span.start >= previous.span.end - TOLERANCE
}

pub(crate) fn readiness(trace: &RankTrace, calls: &RankCalls) -> Vec<Readiness> {
    let mut out = alone(calls);
    on_hosts(calls, &mut out);
    if calls.calls.iter().any(|c| !c.shape.on_host) {
        let blocking = blocking_calls(trace, &calls.calls);
        for work in trace.devices.iter().filter(|w| w.is_gpu) {
            on_device(trace, work, &blocking, &calls.calls, &mut out);
        }
    }
    out
}

/// On the host, a rank runs on if it submits the next collective before the end of this one.
fn on_hosts(calls: &RankCalls, out: &mut [Readiness]) {
    let mut next = None;
    // Calls are in order of submission.
    for (c, r) in calls.calls.iter().zip(out).rev().filter(|(c, _)| c.shape.on_host) {
        r.runs_on = next.is_some_and(|s: Ns| s < c.released - TOLERANCE);
        r.is_awaited = !r.runs_on;
        next = Some(c.submit);
    }
}

fn on_device(
    trace: &RankTrace,
    work: &DeviceWork,
    blocking: &Blocking,
    calls: &[CollectiveCall],
    out: &mut [Readiness],
) {
    let is_here = |c: &CollectiveCall| !c.shape.on_host && c.shape.device == work.device;
    if !calls.iter().any(is_here) {
        return;
    }
    let compute = Compute::new(trace, work);
    let mut ends: Vec<Ns> = calls.iter().filter(|c| is_here(c)).map(|c| c.span.end).collect();
    ends.sort_unstable();
    let mut ended: Vec<(Ns, u32)> =
        (0u32..).zip(calls).filter(|(_, c)| is_here(c)).map(|(i, c)| (c.span.end, i)).collect();
    ended.sort_unstable();
    let waits = blocking.for_collectives(&ended);
    let main = trace.main_thread();
    for (c, r) in calls.iter().zip(out).filter(|(c, _)| is_here(c)) {
        let e = c.span.end;
        r.ready = compute.launched_before(c).map_or(c.submit, |t| t.max(c.submit)).min(c.span.start);
        r.runs_on = compute.runs.end_before(e - TOLERANCE).is_some_and(|t| t > e + TOLERANCE);
        r.is_awaited = !r.runs_on && compute.waited(e, &ends, blocking);
        // Backward passes are submitted by a thread of their own, which begins when the main thread lets it.
        let last_of = |lane: u32| {
            let waits = waits.get(&lane)?;
            waits.get(waits.partition_point(|w| w.returned <= c.submit).checked_sub(1)?).copied()
        };
        r.host_wait =
            c.shape.thread.into_iter().chain(main).filter_map(last_of).max_by_key(|w| (w.returned, w.call));
        r.idle_since =
            compute.runs.end_before(e).map_or(Ns::MIN, |t| t.min(e)).max(trace.capture.start.min(e));
    }
}

/// Spans in order of start, with the latest end up to each.
struct SpansWithReach {
    spans: Vec<Span>,
    latest: Vec<Ns>,
}

impl SpansWithReach {
    fn new(spans: Vec<Span>) -> Self {
        let mut at = Ns::MIN;
        let reach = |s: &Span| {
            at = at.max(s.end);
            at
        };
        let latest = spans.iter().map(reach).collect();
        Self { spans, latest }
    }

    /// Number of spans that start before `t`.
    fn started(&self, t: Ns) -> usize {
        self.spans.partition_point(|s| s.start < t)
    }

    /// The latest end of the spans that start before `t`.
    fn end_before(&self, t: Ns) -> Option<Ns> {
        self.latest.get(self.started(t).checked_sub(1)?).copied()
    }
}

/// Calls in which a host thread waits for a device.
struct Blocking {
    /// As (end, start) in this order.
    all: Vec<(Ns, Ns)>,
    /// By lane, in order of end.
    by_lane: BTreeMap<u32, Vec<Span>>,
}

impl Blocking {
    /// Whether a call that began before `t` returned in `[t, until]`.
    fn returned(&self, t: Ns, until: Ns) -> bool {
        let ended = self.all.partition_point(|(end, _)| *end < t);
        self.all[ended..].iter().take_while(|(end, _)| *end <= until).any(|(_, start)| *start < t)
    }

    /// By lane: when each call returned during which a collective ended, and the last one of those. `ended`
    /// are the ends of the collectives, in order.
    fn for_collectives(&self, ended: &[(Ns, u32)]) -> BTreeMap<u32, Vec<HostWait>> {
        let last_in = |s: &Span| {
            let last = ended[..ended.partition_point(|(end, _)| *end <= s.end)].last();
            last.filter(|(end, _)| *end > s.start).map(|(_, call)| HostWait { returned: s.end, call: *call })
        };
        self.by_lane.iter().map(|(lane, calls)| (*lane, calls.iter().filter_map(last_in).collect())).collect()
    }
}

struct Compute {
    runs: SpansWithReach,
    /// Start of the launch call of each of `runs`, if recorded.
    launched: Vec<Option<Ns>>,
    /// Start of the launch call, own start, and latest end so far; sorted.
    by_launch: Vec<(Ns, Ns, Ns)>,
}

impl Compute {
    fn new(trace: &RankTrace, work: &DeviceWork) -> Self {
        let acts = work.activities.iter().map(|&i| &trace.activities[i as usize]);
        // Activities are in order of start.
        let all: Vec<(Span, Option<Ns>)> = acts
            .filter(|a| a.work == WorkClass::Compute)
            .map(|a| (a.span, a.launch().map(|l| trace.columns.ts[l as usize])))
            .collect();
        let mut by_launch: Vec<(Ns, Ns, Ns)> =
            all.iter().filter_map(|(s, l)| l.map(|l| (l, s.start, s.end))).collect();
        by_launch.sort_unstable();
        let mut latest = Ns::MIN;
        for (.., end) in &mut by_launch {
            latest = latest.max(*end);
            *end = latest;
        }
        let (spans, launched) = all.into_iter().unzip();
        Self { runs: SpansWithReach::new(spans), launched, by_launch }
    }

    /// The latest end of the activities launched before a call. Kernels of one graph launch come in order of
    /// start.
    fn launched_before(&self, c: &CollectiveCall) -> Option<Ns> {
        let n = self.by_launch.partition_point(|(l, s, _)| (*l, *s) < (c.submit, c.span.start));
        Some(self.by_launch.get(n.checked_sub(1)?)?.2)
    }

    /// Whether the compute that follows the end `e` of a collective waited for it. No compute covers `e`;
    /// `ends` are the ends of all collectives of the device.
    fn waited(&self, e: Ns, ends: &[Ns], blocking: &Blocking) -> bool {
        let n = self.runs.started(e - TOLERANCE);
        // Nothing is computed afterwards, so the rank counts as having waited.
        let Some(next) = self.runs.spans.get(n) else { return true };
        let next_end = ends.get(ends.partition_point(|x| *x <= e + TOLERANCE)).copied().unwrap_or(Ns::MAX);
        let before =
            n.checked_sub(1).and_then(|i| self.runs.latest.get(i)).is_none_or(|t| t + QUEUE_GAP <= e);
        match self.launched.get(n).copied().flatten() {
            // It was launched after the end: the host was in a blocking call, or was late for another reason.
            Some(launch) if launch + LAUNCH_LATENCY > e => {
                blocking.returned(e - TOLERANCE, (launch + TOLERANCE).min(next_end - 1))
            }
            // If several ends precede it, it waited for the last one.
            _ => before && next.start < next_end,
        }
    }
}

/// Whether a call returned soon after the end of a collective that ran for most of it. `ended` is in order of
/// end.
fn is_behind_collective(call: Span, ended: &[Span]) -> bool {
    let until = ended.partition_point(|s| s.end <= call.end);
    ended[..until]
        .last()
        .is_some_and(|s| s.intersect(call).len() * 2 >= call.len() && (call.end - s.end) * 2 <= call.len())
}

/// Calls in which a host thread waits for a device: synchronizing calls, copies that return late, and calls
/// that allocate or free memory and return when a collective has ended. An allocator without memory waits for
/// all events of its blocks before it frees them; this is not recorded, so the time from the call that found
/// no memory to the one that frees some counts like a call.
fn blocking_calls(trace: &RankTrace, collectives: &[CollectiveCall]) -> Blocking {
    let names = HostNames::of(trace);
    let c = &trace.columns;
    let is_copy = c.strings.each(|t| t.contains("emcpy"));
    let is_free = c.strings.each(|t| t.contains("Free"));
    let mut ended: Vec<Span> = collectives.iter().filter(|c| !c.shape.on_host).map(|c| c.span).collect();
    ended.sort_unstable_by_key(|s| (s.end, s.start));
    let blocks = |row: u32, activity: HostActivity| {
        let span = c.span(row as usize);
        match activity {
            HostActivity::SyncCall => true,
            HostActivity::AllocationCall => {
                span.len() >= ALLOCATION_LONG && is_behind_collective(span, &ended)
            }
            _ => is_copy.holds(c.name(row as usize)) && span.len() >= LAUNCH_LATENCY,
        }
    };
    let mut by_lane: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    let mut found_no_memory: BTreeMap<u32, Ns> = BTreeMap::new();
    for (row, activity) in names.calls(trace) {
        let (lane, span) = (c.lane[row as usize], c.span(row as usize));
        let is_allocation = activity == HostActivity::AllocationCall;
        let frees = is_allocation && is_free.holds(c.name(row as usize));
        let of_lane = by_lane.entry(lane).or_default();
        // Calls inside of the one that found no memory come after it.
        let is_after = found_no_memory.get(&lane).is_some_and(|end| *end <= span.start);
        if let Some(end) = found_no_memory.get(&lane).copied().filter(|_| is_after && frees) {
            let gap = Span::new(end, span.start);
            of_lane
                .extend((gap.len() >= ALLOCATION_LONG && is_behind_collective(gap, &ended)).then_some(gap));
        }
        if is_after {
            found_no_memory.remove(&lane);
        }
        if is_allocation && !frees {
            found_no_memory.insert(lane, span.end);
        }
        of_lane.extend(blocks(row, activity).then_some(span));
    }
    by_lane.values_mut().for_each(|calls| calls.sort_unstable_by_key(|s| (s.end, s.start)));
    let mut all: Vec<(Ns, Ns)> = by_lane.values().flatten().map(|s| (s.end, s.start)).collect();
    all.sort_unstable();
    Blocking { all, by_lane }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_that_returns_with_a_collective_waited_for_it() {
        let collective = [Span::new(1_000, 1_000_000)];
        assert!(is_behind_collective(Span::new(200_000, 1_010_000), &collective));
        // It went on for longer than it waited, or the collective had only begun.
        assert!(!is_behind_collective(Span::new(900_000, 1_300_000), &collective));
        assert!(!is_behind_collective(Span::new(2_000, 900_000), &collective));
    }
}
