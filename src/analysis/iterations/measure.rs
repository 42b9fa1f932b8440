//! The numbers of each iteration on one device.

use hta_base::units::{Ns, Span};
use hta_facts::host_activity::{HostActivity, HostNames, HostUse};
use hta_facts::iterations::{DeviceIteration, HostIteration, Iterations, on_device};
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::kernel::serving::{COMMUNICATION, ServingCategory, serving_category};
use hta_trace::launch::is_graph_launch;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;

/// An iteration is bound by the host if its cycle there exceeds this share of the period, percent.
const HOST_BOUND_PCT: Ns = 95;

/// The idle time of a window by when it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IdleParts {
    pub(crate) before_graph: Ns,
    pub(crate) in_graph_call: Ns,
    pub(crate) rest: Ns,
}

/// The replays of graphs in an iteration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GraphWork {
    pub(crate) launches: u64,
    pub(crate) activities: u64,
    pub(crate) sum: Ns,
    pub(crate) busy: Ns,
    pub(crate) idle_inside: Ns,
}

/// What a thread did between two iterations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HostParts {
    pub(crate) sync: Ns,
    pub(crate) api: Ns,
    pub(crate) operator: Ns,
    pub(crate) python: Ns,
    pub(crate) waiting: Ns,
    pub(crate) other: Ns,
}

/// From the end of a window to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GapAfter {
    pub(crate) len: Ns,
    pub(crate) busy: Ns,
}

/// An iteration on a device with its numbers.
pub(crate) struct Measured<'a> {
    pub(crate) host: &'a HostIteration,
    pub(crate) window: Span,
    pub(crate) window_busy: Ns,
    pub(crate) idle: IdleParts,
    pub(crate) activities: u64,
    pub(crate) gpu_sum: Ns,
    pub(crate) gpu_busy: Ns,
    pub(crate) graph: GraphWork,
    pub(crate) gap: Option<GapAfter>,
    pub(crate) post_count: u64,
    pub(crate) post_work: Ns,
    /// Start of the window to start of the next one; for the last iteration its window.
    pub(crate) period: Ns,
    /// The next one is lost, or it is the last and the one before is lost.
    pub(crate) is_beside_lost: bool,
    /// Start of its range to start of the next one's.
    pub(crate) host_period: Option<Ns>,
    pub(crate) lag: Option<Ns>,
    pub(crate) host_after: Ns,
    pub(crate) after: HostParts,
    /// Communication that no compute hides, in the period.
    pub(crate) bare_communication: Ns,
    pub(crate) host_exposed: Ns,
    pub(crate) host_cycle: Ns,
    /// All of the next one was submitted before this one ended, so the device waited for no host.
    pub(crate) is_host_ahead: bool,
    /// Count and summed duration of what it launched, by category.
    pub(crate) categories: BTreeMap<ServingCategory, (u64, Ns)>,
}

impl Measured<'_> {
    pub(crate) fn idle_ns(&self) -> Ns {
        self.window.len() - self.window_busy
    }

    /// The window, and the work that runs between it and the next one.
    pub(crate) fn work_len(&self) -> Ns {
        self.window.len() + self.gap.map_or(0, |gap| gap.busy)
    }

    pub(crate) fn basis(&self) -> &'static str {
        if self.gap.is_some() { "period" } else { "window" }
    }

    pub(crate) fn is_host_bound(&self) -> bool {
        // Beside and in a lost iteration nothing is known of the period.
        let is_known = !self.host.is_lost && !self.is_beside_lost;
        is_known
            && !self.is_host_ahead
            && self.period > 0
            && i128::from(self.host_cycle) * 100 > i128::from(self.period) * i128::from(HOST_BOUND_PCT)
    }
}

/// All iterations of a device.
pub(crate) fn measure<'a>(
    trace: &RankTrace,
    work: &DeviceWork,
    iterations: &'a Iterations,
) -> Vec<Measured<'a>> {
    let on_device = on_device(trace, work, iterations);
    let names = HostNames::of(trace);
    let busy = work.timeline.busy();
    let replayed = replayed(trace, &on_device, &busy);
    let bare = work.timeline.exposed_communication();
    let last_host = last_host_event(trace, iterations);
    let mut categories = NamedCategories { trace, known: BTreeMap::new() };
    let mut out = Vec::with_capacity(on_device.len());
    for (k, of) in on_device.iter().enumerate() {
        let Some(host) = iterations.all.get(of.index) else { continue };
        let next = on_device.get(k + 1).and_then(|n| Some((n, iterations.all.get(n.index)?)));
        let previous = k.checked_sub(1).and_then(|p| iterations.all.get(on_device.get(p)?.index));
        let after_end = next.map_or(last_host, |(_, it)| it.host.start);
        let after = Span::new(host.host.end, after_end.max(host.host.end));
        let spans = |of: &[u32]| -> Vec<Span> {
            of.iter().filter_map(|&i| trace.activities.get(i as usize)).map(|a| a.span).collect()
        };
        let (own, post) = (spans(&of.own), spans(&of.post));
        // Where the next one began on the device is not known if it is lost.
        let known_next = next.filter(|(_, it)| !it.is_lost && !host.is_lost);
        let gap = known_next.map(|(n, _)| Span::new(of.window.end, n.window.start));
        let period = known_next.map_or(of.window.len(), |(n, _)| n.window.start - of.window.start);
        let host_period = next.map(|(_, it)| it.host.start - host.host.start);
        let (parts, waits) = host_parts(trace, &names, iterations.thread, work, (host.host, after));
        let is_host_ahead = match known_next {
            Some((_, it)) => it.host.end <= of.window.end,
            None => host.host.end <= of.window.start,
        };
        // A device that idles inside a window waits for what the iteration itself does, and not for what
        // comes after it. Where the host is ahead, the gap is all that there is.
        let bubble = match gap.filter(|_| is_host_ahead) {
            Some(gap) => gap,
            None => after.intersect(Span::new(of.window.end, Ns::MAX)),
        };
        out.push(Measured {
            host,
            window: of.window,
            window_busy: busy.len_in(of.window),
            idle: idle_parts(trace, of, &busy),
            activities: own.len() as u64,
            gpu_sum: own.iter().map(|s| s.len()).sum(),
            lag: own.iter().map(|s| s.end).max().map(|end| end - host.host.end),
            gpu_busy: Union::new(own).len(),
            graph: graph_work(trace, of),
            gap: gap.map(|g| GapAfter { len: g.len(), busy: busy.len_in(g) }),
            post_count: post.len() as u64,
            post_work: Union::new(post).len(),
            period,
            is_beside_lost: next.map(|(_, it)| it).or(previous).is_some_and(|it| it.is_lost),
            host_period,
            host_after: after.len(),
            after: parts,
            bare_communication: bare.len_in(Span::new(of.window.start, of.window.start + period)),
            host_exposed: bubble.len() - if bubble.is_empty() { 0 } else { replayed.len_in(bubble) },
            host_cycle: host.host.len() + after.len() - waits,
            is_host_ahead,
            categories: categories.of(&of.own),
        });
    }
    out
}

/// When the device is busy, or between two activities of one graph launch: the host cannot shorten such a
/// gap.
fn replayed(trace: &RankTrace, all: &[DeviceIteration], busy: &Union) -> Union {
    let mut extents: BTreeMap<u32, Span> = BTreeMap::new();
    for i in all.iter().flat_map(|of| of.own.iter().chain(&of.post)) {
        let Some(a) = trace.activities.get(*i as usize) else { continue };
        if let Some(call) = a.launch().filter(|row| is_graph_launch(trace.name(*row))) {
            let so_far = extents.entry(call).or_insert(a.span);
            *so_far = so_far.hull(a.span);
        }
    }
    Union::new(extents.into_values().chain(busy.spans().iter().copied()))
}

fn idle_parts(trace: &RankTrace, of: &DeviceIteration, busy: &Union) -> IdleParts {
    let calls = Union::new(of.graph_calls.iter().map(|row| trace.span(*row)));
    let first = of.first_graph_call(trace).unwrap_or(Ns::MIN);
    let mut out = IdleParts::default();
    for gap in busy.gaps_in(of.window) {
        let before = gap.intersect(Span::new(Ns::MIN, first)).len();
        let inside = calls.len_in(gap);
        out.before_graph += before;
        out.in_graph_call += inside;
        out.rest += gap.len() - before - inside;
    }
    out
}

fn graph_work(trace: &RankTrace, of: &DeviceIteration) -> GraphWork {
    let mut out = GraphWork { launches: of.graph_calls.len() as u64, ..GraphWork::default() };
    let mut by_call: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for a in of.own.iter().filter_map(|&i| trace.activities.get(i as usize)) {
        if let Some(call) = a.launch().filter(|row| is_graph_launch(trace.name(*row))) {
            by_call.entry(call).or_default().push(a.span);
        }
    }
    for spans in by_call.values() {
        out.activities += spans.len() as u64;
        out.sum += spans.iter().map(|s| s.len()).sum::<Ns>();
        let union = Union::new(spans.iter().copied());
        let ends = union.spans().first().zip(union.spans().last());
        out.idle_inside += ends.map_or(0, |(first, last)| last.end - first.start - union.len());
    }
    out.busy = Union::new(by_call.into_values().flatten()).len();
    out
}

/// Divides the time after an iteration by what its thread did, and sums the time in which the thread waited,
/// during the iteration and after it: calls that synchronize, frames that wait, and calls that waited for the
/// device's lead.
fn host_parts(
    trace: &RankTrace,
    names: &HostNames,
    thread: Option<u32>,
    work: &DeviceWork,
    (during, after): (Span, Span),
) -> (HostParts, Ns) {
    let lead_end = trace.edges.lead_end(work.device);
    let waits_for_lead = |used: &HostUse| match (used.row, lead_end) {
        (Some(row), Some(end)) => {
            let call = trace.span(row);
            trace.classes.get(row as usize) == Some(&Class::Runtime) && call.start < end && end < call.end
        }
        _ => false,
    };
    let is_waiting = |used: &HostUse| {
        used.activity == HostActivity::Python && is_waiting_frame(names.texts(trace, used).0)
    };
    let mut parts = HostParts::default();
    let mut waits = 0;
    for (window, is_after) in [(during, false), (after, true)] {
        names.each_use(trace, thread, window, |used| {
            let len = used.span.len();
            let is_wait = is_waiting(&used);
            if is_wait || used.activity == HostActivity::SyncCall || waits_for_lead(&used) {
                waits += len;
            }
            if !is_after {
                return;
            }
            let part = match used.activity {
                HostActivity::SyncCall => &mut parts.sync,
                HostActivity::RuntimeCall | HostActivity::LaunchCall | HostActivity::AllocationCall => {
                    &mut parts.api
                }
                HostActivity::Operator | HostActivity::CommunicationOperator => &mut parts.operator,
                HostActivity::Python if is_wait => &mut parts.waiting,
                HostActivity::Python => &mut parts.python,
                _ => &mut parts.other,
            };
            *part += len;
        });
    }
    (parts, waits)
}

/// Whether a Python frame with this name waits for another thread or process.
fn is_waiting_frame(name: &str) -> bool {
    let built_in = name.strip_prefix("<built-in method ").and_then(|rest| rest.split(' ').next());
    let function = built_in.or_else(|| name.rsplit_once("): ").map(|(_, function)| function)).unwrap_or(name);
    match function {
        "wait" | "acquire" | "poll" => true,
        // Dictionaries have a `get`, too.
        "get" => name.to_ascii_lowercase().contains("queue"),
        _ => false,
    }
}

/// The end of the time after the last iteration: where its thread begins to stop the profiler, or the
/// thread's last event.
fn last_host_event(trace: &RankTrace, iterations: &Iterations) -> Ns {
    let last = iterations.all.last().map_or(Ns::MIN, |it| it.host.end);
    let rows = trace.host_rows().iter().filter(|(lane, _)| Some(*lane) == iterations.thread);
    let mut rows = rows.flat_map(|(_, rows)| rows.iter().copied());
    let mut end = last;
    let stops = |row: u32| {
        trace.classes.get(row as usize) == Some(&Class::Python)
            && (trace.name(row).ends_with("stop_profile") || trace.name(row).contains("torch/profiler/"))
    };
    // Rows are in order of start.
    let stop = rows.find(|&row| {
        let span = trace.span(row);
        end = end.max(span.end);
        span.start >= last && stops(row)
    });
    stop.map_or(end, |row| trace.span(row).start)
}

/// Categories of activities, by their names.
struct NamedCategories<'a> {
    trace: &'a RankTrace,
    known: BTreeMap<StrId, ServingCategory>,
}

impl NamedCategories<'_> {
    fn of(&mut self, own: &[u32]) -> BTreeMap<ServingCategory, (u64, Ns)> {
        let trace = self.trace;
        let mut out: BTreeMap<ServingCategory, (u64, Ns)> = BTreeMap::new();
        for a in own.iter().filter_map(|&i| trace.activities.get(i as usize)) {
            let category = match a.work {
                WorkClass::Communication => COMMUNICATION,
                _ => *self.known.entry(a.name).or_insert_with(|| serving_category(trace.text(a.name))),
            };
            let sum = out.entry(category).or_default();
            sum.0 += 1;
            sum.1 += a.span.len();
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_wait_are_told_by_their_function() {
        for name in [
            "threading.py(323): wait",
            "<built-in method acquire of _thread.lock object at 0x7f>",
            "zmq/sugar/poll.py(80): poll",
            "queue.py(154): get",
            "<built-in method get of _queue.SimpleQueue object at 0x7f>",
        ] {
            assert!(is_waiting_frame(name), "{name}");
        }
        for name in
            ["<built-in method get of dict object at 0x7f>", "a.py(1): wait_less", "a.py(2): run", "wait of"]
        {
            assert!(!is_waiting_frame(name), "{name}");
        }
    }
}
