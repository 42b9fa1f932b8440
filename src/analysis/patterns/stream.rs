//! One stream as a text of symbols, with prefix sums, so that any stretch can be measured without walking it.
//!
//! ```text
//!   stream     |a====|  |b===||c==|     |a===|
//!   symbols     0        1     2         0
//!   stretch    [from              until)            extent = busy + gap
//! ```

use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Identifies a symbol: name, and if requested grid and block.
type SymbolKey = (StrId, Option<StrId>, Option<StrId>);

/// The activities of one stream, in order of (start, event).
pub(crate) struct PatternStream<'t> {
    pub(crate) device: Option<i64>,
    pub(crate) stream: Option<i64>,
    pub(crate) activities: Vec<&'t Activity>,
    pub(crate) symbols: Vec<u32>,
    pub(crate) durs: Vec<Ns>,
    busy: Union,
    /// Latest end of the activities up to each position.
    latest: Vec<Ns>,
    calls: LaunchSums,
    /// Positions whose step differs from the previous position's.
    step_changes: Vec<u32>,
}

/// Launch calls along a stream, as prefix sums before each position.
#[derive(Default)]
struct LaunchSums {
    /// Number of positions whose call differs from the previous position's.
    new: Vec<u32>,
    new_ns: Vec<Ns>,
    /// Number of these whose call occurred even earlier.
    again: Vec<u32>,
    unlinked: Vec<u32>,
}

/// Launches of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LaunchedStretch {
    pub(crate) calls: u64,
    pub(crate) cpu_ns: Ns,
    /// Number of activities without a launch record.
    pub(crate) unlinked: u64,
}

/// The streams of a device, in order of their numbers.
pub(crate) fn streams<'t>(trace: &'t RankTrace, work: &DeviceWork, by_shape: bool) -> Vec<PatternStream<'t>> {
    let mut by_stream: BTreeMap<Option<i64>, Vec<&Activity>> = BTreeMap::new();
    for &i in &work.activities {
        let a = &trace.activities[i as usize];
        by_stream.entry(a.stream()).or_default().push(a);
    }
    let one = |(stream, activities)| PatternStream::new(trace, work.device, stream, activities, by_shape);
    by_stream.into_iter().map(one).collect()
}

impl<'t> PatternStream<'t> {
    fn new(
        trace: &RankTrace,
        device: Option<i64>,
        stream: Option<i64>,
        activities: Vec<&'t Activity>,
        by_shape: bool,
    ) -> Self {
        let args = &trace.columns.args;
        let mut known: HashMap<SymbolKey, u32> = HashMap::new();
        let symbol = |a: &&Activity| {
            let shape = |arg| if by_shape { args.text(arg, a.row) } else { None };
            let next = known.len() as u32;
            *known.entry((a.name, shape(Arg::Grid), shape(Arg::Block))).or_insert(next)
        };
        let symbols = activities.iter().map(symbol).collect();
        let mut end = Ns::MIN;
        let latest = activities.iter().map(|a| {
            end = end.max(a.span.end);
            end
        });
        let differs = |x: &usize| activities[*x].step() != activities[*x - 1].step();
        Self {
            device,
            stream,
            symbols,
            durs: activities.iter().map(|a| a.span.len()).collect(),
            busy: Union::new(activities.iter().map(|a| a.span)),
            latest: latest.collect(),
            calls: LaunchSums::new(trace, &activities),
            step_changes: (1..activities.len()).filter(differs).map(|x| x as u32).collect(),
            activities,
        }
    }

    /// First start to last end of a stretch.
    pub(crate) fn extent(&self, at: &Range<usize>) -> Span {
        let before = at.start.checked_sub(1).map_or(Ns::MIN, |b| self.latest[b]);
        let mut end = self.latest[at.end - 1];
        if end == before {
            // An activity from before the stretch outlasts it.
            end = self.activities[at.clone()].iter().map(|a| a.span.end).max().unwrap_or(before);
        }
        Span::new(self.activities[at.start].span.start, end)
    }

    /// Time of a span in which the stream runs something, ns.
    pub(crate) fn busy_in(&self, span: Span) -> Ns {
        self.busy.len_in(span)
    }

    /// The calls that launched a stretch, without duplicates.
    pub(crate) fn launched(&self, trace: &RankTrace, at: &Range<usize>) -> LaunchedStretch {
        let c = &self.calls;
        let between = |v: &[u32]| u64::from(v[at.end] - v[at.start]);
        let unlinked = between(&c.unlinked);
        if c.again[at.end] > c.again[at.start + 1] {
            // Some call's activities are not consecutive: count the distinct calls directly.
            let mut calls: Vec<u32> = self.activities[at.clone()].iter().filter_map(|a| a.launch()).collect();
            calls.sort_unstable();
            calls.dedup();
            let cpu_ns = calls.iter().map(|&r| trace.span(r).len()).sum();
            return LaunchedStretch { calls: calls.len() as u64, cpu_ns, unlinked };
        }
        let mut found = LaunchedStretch {
            calls: between(&c.new),
            cpu_ns: c.new_ns[at.end] - c.new_ns[at.start],
            unlinked,
        };
        // The call of the first activity may have begun before the stretch.
        if let Some(call) =
            self.activities[at.start].launch().filter(|_| c.new[at.start + 1] == c.new[at.start])
        {
            found.calls += 1;
            found.cpu_ns += trace.span(call).len();
        }
        found
    }

    /// Steps of the launches of a stretch, without consecutive duplicates.
    pub(crate) fn steps(&self, at: &Range<usize>) -> impl Iterator<Item = u32> {
        let from = self.step_changes.partition_point(|&x| x as usize <= at.start);
        let until = self.step_changes.partition_point(|&x| (x as usize) < at.end);
        let changes = self.step_changes[from..until].iter().map(|&x| x as usize);
        std::iter::once(at.start).chain(changes).filter_map(|x| self.activities[x].step())
    }
}

impl LaunchSums {
    fn new(trace: &RankTrace, activities: &[&Activity]) -> Self {
        let mut c = Self::default();
        let mut sums = (0, 0, 0, 0);
        let mut seen: hashbrown::HashSet<u32> = hashbrown::HashSet::new();
        let mut before = None;
        for a in activities {
            c.push(sums);
            match a.launch() {
                None => sums.3 += 1,
                Some(call) if before == Some(call) => {}
                Some(call) => {
                    sums.0 += 1;
                    sums.1 += trace.span(call).len();
                    sums.2 += u32::from(!seen.insert(call));
                }
            }
            before = a.launch();
        }
        c.push(sums);
        c
    }

    fn push(&mut self, (new, new_ns, again, unlinked): (u32, Ns, u32, u32)) {
        self.new.push(new);
        self.new_ns.push(new_ns);
        self.again.push(again);
        self.unlinked.push(unlinked);
    }
}
