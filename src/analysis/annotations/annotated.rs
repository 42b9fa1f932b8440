//! Assigns activities to annotations.
//!
//! ```text
//!   thread     [train................................]
//!                 [forward......]   [backward......]
//!   launches        a  b          c      d
//!   inclusive       train+forward: a b   train: a b c d   backward: d
//!   self            forward: a b         train: c         backward: d
//! ```
//!
//! An activity belongs to the annotations that are open on the thread of its launch when the launch starts
//! (ends included, as for owning operators). An activity whose launch was not recorded belongs to the
//! shortest range that the profiler drew in the same row of the device and that contains its start. A name
//! counts an activity once, however often it is nested in itself. An activity in a graph also belongs to the
//! name that the program gave to its node, which is innermost.

use crate::annotations::launched::{AnnotatedLaunches, Stretch};
use hta_base::units::{Ns, Span};
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::{ByText, StrId};
use hta_trace::thread::{innermost_at, sort_outer_first};
use regex::Regex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Where a range was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AnnotationSide {
    /// On a thread.
    Host,
    /// In a row of the device, drawn by the profiler.
    Gpu,
    /// In a CUDA graph, given to its nodes when the program made it.
    Graph,
}

impl AnnotationSide {
    pub(crate) fn name(self) -> &'static str {
        match self {
            AnnotationSide::Host => "host",
            AnnotationSide::Gpu => "gpu",
            AnnotationSide::Graph => "graph",
        }
    }
}

/// The activities of one name in a replay of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayedRange {
    /// From the first start to the last end.
    pub(crate) span: Span,
    pub(crate) device: Option<i64>,
    pub(crate) step: Option<u32>,
}

/// All ranges of one name on one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamedRanges {
    /// Rows of the ranges, in the order of the file.
    pub(crate) ranges: Vec<u32>,
    /// Ranges in replays of graphs, which have no rows, in the order of their launches.
    pub(crate) replayed: Vec<ReplayedRange>,
    /// Of a name on the device or in a graph: indices of its activities, without duplicates.
    pub(crate) activities: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Annotated {
    pub(crate) names: BTreeMap<(AnnotationSide, StrId), NamedRanges>,
    /// By thread with annotations: what it launched, and which of it inside the ranges of each name.
    pub(crate) launched: Vec<AnnotatedLaunches>,
    /// Per activity: side and name of the innermost annotation.
    pub(crate) own: Vec<Option<(AnnotationSide, StrId)>>,
}

impl Annotated {
    /// Collects the annotations whose name matches `wanted`; others are treated as not recorded.
    pub(crate) fn new(trace: &RankTrace, wanted: Option<&Regex>) -> Self {
        let c = &trace.columns;
        let kept = c.strings.each(|t| wanted.is_none_or(|w| w.is_match(t)));
        let mut me = Self { own: vec![None; trace.activities.len()], ..Self::default() };
        let mut rows: BTreeMap<(AnnotationSide, u32), Vec<u32>> = BTreeMap::new();
        for (row, class) in trace.classes.iter().enumerate() {
            let side = match class {
                Class::Annotation => AnnotationSide::Host,
                Class::GpuAnnotation => AnnotationSide::Gpu,
                _ => continue,
            };
            if kept.holds(c.name(row)) {
                rows.entry((side, c.lane[row])).or_default().push(row as u32);
                me.names.entry((side, c.name(row))).or_default().ranges.push(row as u32);
            }
        }
        let (launched, unlinked) = queries(trace);
        for ((side, lane), mut rows) in rows {
            match side {
                AnnotationSide::Host => {
                    if let Some(queries) = launched.get(&lane) {
                        sort_outer_first(&mut rows, c);
                        me.launched_inside(trace, &rows, queries);
                    }
                }
                AnnotationSide::Gpu => {
                    if let Some(queries) = unlinked.get(&lane) {
                        me.drawn_around(trace, &rows, queries);
                    }
                }
                AnnotationSide::Graph => {}
            }
        }
        me.inside_graphs(trace, &kept);
        me
    }

    /// Assigns the activities of graphs to the names that the program gave to their nodes.
    fn inside_graphs(&mut self, trace: &RankTrace, kept: &ByText<bool>) {
        let annotations = trace.columns.args.column(Arg::GraphAnnotation);
        if annotations.is_empty() {
            return;
        }
        let mut ranges: BTreeMap<(StrId, u32, Option<i64>), ReplayedRange> = BTreeMap::new();
        for (i, a) in (0u32..).zip(&trace.activities) {
            let Some(name) = annotations.get(a.row).map(|text| StrId(text as u32)) else { continue };
            if !kept.holds(name) {
                continue;
            }
            let key = (AnnotationSide::Graph, name);
            if let Some(own) = self.own.get_mut(i as usize) {
                *own = Some(key);
            }
            self.names.entry(key).or_default().activities.push(i);
            if let Some(call) = a.launch() {
                let range = ranges.entry((name, call, a.device())).or_insert(ReplayedRange {
                    span: a.span,
                    device: a.device(),
                    step: a.step(),
                });
                range.span = range.span.hull(a.span);
            }
        }
        for ((name, ..), range) in ranges {
            self.names.entry((AnnotationSide::Graph, name)).or_default().replayed.push(range);
        }
    }

    /// Assigns the launches of one thread. `rows`: its annotations, outer first; `queries`: its launches in
    /// order of time.
    fn launched_inside(&mut self, trace: &RankTrace, rows: &[u32], queries: &[(Ns, u32)]) {
        let c = &trace.columns;
        innermost_at(rows, c, queries, |i, row| {
            self.own[i as usize] = row.map(|r| (AnnotationSide::Host, c.name(r as usize)));
        });
        // Launches inside a range are consecutive: merge the ranges of one name before counting.
        let mut inside: BTreeMap<StrId, Vec<Span>> = BTreeMap::new();
        for &row in rows {
            let Span { start, end } = c.span(row as usize);
            let from = queries.partition_point(|q| q.0 < start);
            let until = queries.partition_point(|q| q.0 <= end);
            inside.entry(c.name(row as usize)).or_default().push(Span::new(from as i64, until as i64));
        }
        let stretches = inside.into_iter().flat_map(|(name, places)| {
            let of = move |s: &Span| Stretch { name, from: s.start as u32, until: s.end as u32 };
            Union::new(places).spans().iter().map(of).collect::<Vec<_>>()
        });
        self.launched.push(AnnotatedLaunches {
            activities: queries.iter().map(|q| q.1).collect(),
            stretches: stretches.collect(),
        });
    }

    /// Assigns the unlinked activities in one row of a device. `rows`: the ranges drawn there; `queries`: the
    /// activities in order of start.
    fn drawn_around(&mut self, trace: &RankTrace, rows: &[u32], queries: &[(Ns, u32)]) {
        let c = &trace.columns;
        let mut order = rows.to_vec();
        sort_outer_first(&mut order, c);
        let mut next = order.into_iter().peekable();
        // The shortest first; among equally long ones the one that starts last, then by name.
        let mut open: BinaryHeap<Reverse<DrawnRange>> = BinaryHeap::new();
        for &(t, activity) in queries {
            while let Some(row) = next.next_if(|&r| c.ts[r as usize] <= t) {
                let r = row as usize;
                open.push(Reverse((c.dur[r], Reverse(c.ts[r]), trace.text(c.name(r)), row)));
            }
            while open.peek().is_some_and(|Reverse((dur, Reverse(ts), _, _))| ts.saturating_add(*dur) <= t) {
                open.pop();
            }
            if let Some(Reverse((_, _, _, row))) = open.peek() {
                let key = (AnnotationSide::Gpu, c.name(*row as usize));
                self.own[activity as usize] = Some(key);
                self.names.entry(key).or_default().activities.push(activity);
            }
        }
    }
}

/// A drawn range: length, start, name and row.
type DrawnRange<'a> = (Ns, Reverse<Ns>, &'a str, u32);

/// Instants with activities, by lane.
type LaneQueries = BTreeMap<u32, Vec<(Ns, u32)>>;

/// Launches by thread, and starts of unlinked activities by row of the device; each in order of time.
fn queries(trace: &RankTrace) -> (LaneQueries, LaneQueries) {
    let c = &trace.columns;
    let (mut launched, mut unlinked) = (LaneQueries::new(), LaneQueries::new());
    for (i, a) in trace.activities.iter().enumerate() {
        match a.launch() {
            Some(l) => launched.entry(c.lane[l as usize]).or_default().push((c.ts[l as usize], i as u32)),
            None => unlinked.entry(c.lane[a.row as usize]).or_default().push((a.span.start, i as u32)),
        }
    }
    for of_lane in launched.values_mut().chain(unlinked.values_mut()) {
        of_lane.sort_unstable();
    }
    (launched, unlinked)
}
