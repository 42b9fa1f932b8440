//! Calls of the runtime that the profiler makes itself.

use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::launch::is_launch_call;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Without stacks: largest time from the end of the profiler's own synchronizing call to the last host event,
/// ns.
const BEFORE_END: Ns = 1_000_000;

/// Synchronizing calls that the profiler makes itself; they are not part of the profiled program.
pub(crate) struct ProfilerCalls {
    /// Row of each call, in order, with the profiler's frame that contains it, if stacks were recorded.
    pub(crate) calls: Vec<(u32, Option<u32>)>,
}

impl ProfilerCalls {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        self.calls.binary_search_by_key(&row, |c| c.0).is_ok()
    }

    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let syncs = rows_named(trace, Class::Runtime, |t| t.to_ascii_lowercase().contains("synchronize"));
        if syncs.is_empty() {
            return Self { calls: Vec::new() };
        }
        if !trace.classes.contains(&Class::Python) {
            return Self { calls: last_waits(trace, syncs) };
        }
        let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for row in rows_named(trace, Class::Python, is_profilers_frame) {
            by_lane.entry(c.lane[row as usize]).or_default().push(row);
        }
        let mut held: BTreeMap<u32, (Union, Vec<u32>)> = BTreeMap::new();
        for (lane, mut rows) in by_lane {
            rows.sort_unstable_by_key(|&r| (c.ts[r as usize], r));
            held.insert(lane, (Union::new(rows.iter().map(|&r| trace.span(r))), rows));
        }
        let frame = |call: u32| {
            let (open, rows) = held.get(&c.lane[call as usize])?;
            let span = trace.span(call);
            if open.len_in(span) < span.len() || open.is_empty() {
                return None;
            }
            // The frame that began last is the innermost one, unless it has ended.
            let before = rows.partition_point(|&r| c.ts[r as usize] <= span.start);
            rows[..before].iter().rev().copied().take(DEEPEST).find(|&r| trace.span(r).end >= span.end)
        };
        Self { calls: syncs.into_iter().filter_map(|call| frame(call).map(|f| (call, Some(f)))).collect() }
    }
}

/// Number of the profiler's frames that are checked to find the one that contains a call.
const DEEPEST: usize = 256;

/// Tests events by name; each distinct name is tested once.
pub(super) struct NameTest<'a, F> {
    trace: &'a RankTrace,
    test: F,
    known: Vec<Option<bool>>,
}

impl<'a, F: Fn(&str) -> bool> NameTest<'a, F> {
    pub(super) fn new(trace: &'a RankTrace, test: F) -> Self {
        Self { trace, test, known: vec![None; trace.columns.strings.len()] }
    }

    pub(super) fn holds(&mut self, row: u32) -> bool {
        let Some(name) = self.trace.columns.name.get(row as usize) else { return false };
        let test = || (self.test)(self.trace.text(StrId(*name)));
        self.known.get_mut(*name as usize).is_some_and(|known| *known.get_or_insert_with(test))
    }
}

/// Rows of a class whose names pass a test.
fn rows_named(trace: &RankTrace, class: Class, test: impl Fn(&str) -> bool) -> Vec<u32> {
    let mut named = NameTest::new(trace, test);
    (0..trace.columns.len() as u32)
        .filter(|&r| trace.classes[r as usize] == class && named.holds(r))
        .collect()
}

/// Whether a Python frame belongs to the profiler, or to a function that starts or stops it.
fn is_profilers_frame(name: &str) -> bool {
    name.contains("torch/profiler/") || name.ends_with("start_profile") || name.ends_with("stop_profile")
}

/// Without stacks: calls that wait for a device, end just before the last host event, and follow all launches
/// of their process.
fn last_waits(trace: &RankTrace, mut syncs: Vec<u32>) -> Vec<(u32, Option<u32>)> {
    let c = &trace.columns;
    let hosts = (0..c.len()).filter(|&r| trace.classes[r].is_host());
    let Some(last) = hosts.map(|r| c.span(r).end).max() else { return Vec::new() };
    let mut of_device = NameTest::new(trace, |t| t.to_ascii_lowercase().contains("devicesynchronize"));
    syncs.retain(|&r| trace.span(r).end >= last.saturating_sub(BEFORE_END) && of_device.holds(r));
    if syncs.is_empty() {
        return Vec::new();
    }
    let pid = |row: u32| c.lanes.get(c.lane[row as usize] as usize).map(|l| l.pid);
    let mut launched: BTreeMap<Option<StrId>, Ns> = BTreeMap::new();
    for row in rows_named(trace, Class::Runtime, |t: &str| {
        let lower = t.to_ascii_lowercase();
        is_launch_call(t) || lower.contains("memcpy") || lower.contains("memset")
    }) {
        let last = launched.entry(pid(row)).or_insert(Ns::MIN);
        *last = c.ts[row as usize].max(*last);
    }
    // A process that launches nothing is not the profiled one.
    syncs.retain(|&r| launched.get(&pid(r)).is_some_and(|last| *last < c.ts[r as usize]));
    syncs.into_iter().map(|r| (r, None)).collect()
}
