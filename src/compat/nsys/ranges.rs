//! Ranges of host threads, how they are nested, and the GPU operations that were launched inside them.
//!
//! ```text
//!   range A   [..............................)     level 0, 2 children
//!   range B      [......)      [.........)         level 1
//!   call            x             y                x and y lie in A; x in the first B, y in the second
//! ```
//!
//! A call lies in a range of its thread if it starts inside it.

use hta_base::units::{Ns, Span};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::meta::Recorder;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

/// A range that is pushed and popped on one thread, or started and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostRange {
    pub(crate) row: u32,
    pub(crate) lane: u32,
    pub(crate) span: Span,
    /// Whether it may end on another thread; then it is in no tree.
    pub(crate) is_start_end: bool,
    /// Index of the range directly around it.
    pub(crate) parent: Option<usize>,
    pub(crate) level: u32,
    pub(crate) children: u32,
    /// Time of the children, ns.
    pub(crate) children_ns: Ns,
}

impl HostRange {
    pub(crate) fn style(&self) -> &'static str {
        if self.is_start_end { "StartEnd" } else { "PushPop" }
    }
}

/// The ranges of a rank by thread, outer ones first: annotations, and operators where the recorder has them
/// as ranges.
pub(crate) fn ranges(trace: &RankTrace) -> Vec<HostRange> {
    let c = &trace.columns;
    let is_range = |row: u32| match trace.classes.get(row as usize) {
        Some(Class::Annotation) => true,
        Some(Class::HostOp) => trace.meta.recorder == Recorder::Nsys,
        _ => false,
    };
    let is_start_end =
        |row: u32| c.args.text(Arg::Kind, row).is_some_and(|kind| trace.text(kind) == "StartEnd");
    let mut out: Vec<HostRange> = Vec::new();
    for (lane, rows) in trace.host_rows() {
        // Open ranges by end, which decrease: one that ends no later than a later one encloses nothing
        // further.
        let mut open: Vec<(Ns, usize)> = Vec::new();
        for &row in rows.iter().filter(|r| is_range(**r)) {
            let (span, at) = (trace.span(row), out.len());
            let mut range = HostRange {
                row,
                lane: *lane,
                span,
                is_start_end: is_start_end(row),
                parent: None,
                level: 0,
                children: 0,
                children_ns: 0,
            };
            if !range.is_start_end {
                while open.last().is_some_and(|o| o.0 < span.end) {
                    open.pop();
                }
                range.parent = open.last().map(|o| o.1);
                if let Some(parent) = range.parent.and_then(|p| out.get_mut(p)) {
                    range.level = parent.level + 1;
                    parent.children += 1;
                    parent.children_ns += span.len();
                }
                if open.last().is_some_and(|o| o.0 == span.end) {
                    open.pop();
                }
                open.push((span.end, at));
            }
            out.push(range);
        }
    }
    out
}

/// What the calls of one stretch of a thread launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Projection {
    /// From the first start to the last end.
    pub(crate) span: Span,
    pub(crate) operations: u64,
}

impl Projection {
    fn join(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
        let span = a.span.hull(b.span);
        Some(Self { span, operations: a.operations + b.operations })
    }
}

/// The launching calls of one thread in order of start, and a tree over their projections.
#[derive(Debug, Default)]
struct ThreadLaunches {
    /// Start and row.
    calls: Vec<(Ns, u32)>,
    /// Node `n + i` is call `i`; node `i` joins nodes `2 i` and `2 i + 1`.
    tree: Vec<Option<Projection>>,
}

impl ThreadLaunches {
    fn within(&self, span: Span) -> std::ops::Range<usize> {
        let first_from = |t: Ns| self.calls.partition_point(|c| c.0 < t);
        first_from(span.start)..first_from(span.end)
    }

    fn projection(&self, span: Span) -> Option<Projection> {
        let n = self.calls.len();
        let range = self.within(span);
        let (mut from, mut to, mut found) = (range.start + n, range.end + n, None);
        let node = |i: usize| self.tree.get(i).copied().flatten();
        while from < to {
            if from % 2 == 1 {
                found = Projection::join(found, node(from));
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                found = Projection::join(found, node(to));
            }
            (from, to) = (from / 2, to / 2);
        }
        found
    }
}

/// The launching calls of a rank by thread.
pub(crate) struct LaunchesByThread<'a> {
    trace: &'a RankTrace,
    threads: BTreeMap<u32, ThreadLaunches>,
}

impl<'a> LaunchesByThread<'a> {
    pub(crate) fn new(trace: &'a RankTrace) -> Self {
        let mut threads: BTreeMap<u32, ThreadLaunches> = BTreeMap::new();
        for (row, _) in trace.launches().iter() {
            let Some(lane) = trace.columns.lane.get(row as usize) else { continue };
            threads.entry(*lane).or_default().calls.push((trace.span(row).start, row));
        }
        for thread in threads.values_mut() {
            thread.calls.sort_unstable();
            let n = thread.calls.len();
            thread.tree = vec![None; n];
            thread.tree.extend(thread.calls.iter().map(|(_, row): &(Ns, u32)| {
                let of = trace.launches().of(*row).iter().filter_map(|i| trace.activities.get(*i as usize));
                of.map(|a| Some(Projection { span: a.span, operations: 1 })).fold(None, Projection::join)
            }));
            for i in (1..n).rev() {
                let node = |i: usize| thread.tree.get(i).copied().flatten();
                let joined = Projection::join(node(2 * i), node(2 * i + 1));
                if let Some(slot) = thread.tree.get_mut(i) {
                    *slot = joined;
                }
            }
        }
        Self { trace, threads }
    }

    /// What was launched in a range; `None` if nothing was.
    pub(crate) fn projection(&self, range: &HostRange) -> Option<Projection> {
        self.threads.get(&range.lane)?.projection(range.span)
    }

    /// The GPU operations that were launched in a range.
    pub(crate) fn inside(&self, range: &HostRange) -> impl Iterator<Item = &'a Activity> {
        let trace = self.trace;
        let thread = self.threads.get(&range.lane);
        let calls = thread.and_then(|t| t.calls.get(t.within(range.span))).unwrap_or_default();
        let rows: Vec<u32> = calls.iter().map(|c| c.1).collect();
        let of =
            move |row: u32| trace.launches().of(row).iter().filter_map(|i| trace.activities.get(*i as usize));
        rows.into_iter().flat_map(of)
    }
}
