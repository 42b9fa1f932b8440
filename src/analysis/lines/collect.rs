//! Collects the rows of one rank: host time, GPU work, memory and copies by line.
//!
//! ```text
//!   frames     [train.............)        self: by the innermost frame
//!                  [built-in....)
//!   operators        [aten::mm)            native: where an operator or call started after that frame
//!   row        ttttLLLLLLLLLLLLtttt
//!   native         ^^^^^^^^^^^^            a built-in function is native as a whole
//! ```

use crate::copies::copy::copies;
use crate::facts::calls::CallForest;
use crate::facts::host_activity::HostNames;
use crate::facts::lines::{Charging, FrameKind, Lines};
use crate::facts::step_scopes::StepScopes;
use crate::lines::grouping::{Grouping, LineGroup, UNLINKED};
use hashbrown::{HashMap, HashSet};
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::memory::MemoryRecordKind;
use hta_trace::thread::{InnermostTimeline, sort_outer_first};
use std::collections::{BTreeMap, BTreeSet};

/// One row while it is collected.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineSums {
    pub(crate) calls: u64,
    pub(crate) host_self: Ns,
    pub(crate) host_total: Ns,
    pub(crate) native: Ns,
    pub(crate) blocked: Ns,
    /// Activities launched here, and those of the backward pass.
    pub(crate) launched: Vec<u32>,
    pub(crate) backward: Vec<u32>,
    pub(crate) bwd_host: Ns,
    pub(crate) launches: u64,
    pub(crate) alloc_bytes: i64,
    pub(crate) net_bytes: i64,
    pub(crate) h2d_bytes: i64,
    pub(crate) d2h_bytes: i64,
}

/// Identifies a row: index of the window, group, and whether its threads are idle.
pub(crate) type RowKey = (usize, LineGroup, bool);

/// The rows of a rank.
pub(crate) struct CollectedLines {
    pub(crate) rows: HashMap<RowKey, LineSums>,
    pub(crate) has_memory: bool,
}

pub(crate) struct Collect<'a> {
    calls: &'a CallForest<'a>,
    lines: &'a Lines,
    grouping: &'a Grouping<'a>,
    charging: Charging<'a>,
    scopes: &'a StepScopes<'a>,
    /// Number of windows that have rows; the first is the capture.
    windows: usize,
    rows: HashMap<RowKey, LineSums>,
}

impl<'a> Collect<'a> {
    /// `by_step`: also for the windows of the steps.
    pub(crate) fn new(
        calls: &'a CallForest<'a>,
        lines: &'a Lines,
        grouping: &'a Grouping<'a>,
        scopes: &'a StepScopes<'a>,
        by_step: bool,
    ) -> Self {
        let windows = if by_step { scopes.windows().len() } else { 1 };
        let charging = Charging::new(calls, lines);
        Self { calls, lines, grouping, charging, scopes, windows, rows: HashMap::new() }
    }

    pub(crate) fn all(mut self) -> CollectedLines {
        let idle = idle_threads(self.calls, self.lines);
        self.host(&idle);
        self.frames(&idle);
        self.blocked();
        self.gpu();
        self.backward();
        self.copies();
        let has_memory = self.memory();
        CollectedLines { rows: self.rows, has_memory }
    }

    fn row(&mut self, window: usize, group: LineGroup, idle: bool) -> &mut LineSums {
        self.rows.entry((window, group, idle)).or_default()
    }

    /// The windows to which something of a step belongs.
    fn windows_of(&self, step: Option<u32>) -> impl Iterator<Item = usize> + use<> {
        let most = self.windows;
        self.scopes.of(step).filter(move |w| *w < most)
    }

    /// The row that is charged with what happens at an instant, in the operator or call at a position; and whether it
    /// is for its backward pass.
    fn charged(&self, lane: u32, t: Ns, position: Option<u32>) -> (LineGroup, bool) {
        let charge = self.charging.of(lane, t, position);
        (self.grouping.of_charge(&charge), charge.is_backward)
    }

    /// Adds the parts of a piece of time to the windows in which they lie; the capture has all of it.
    fn add_time(&mut self, span: Span, group: LineGroup, idle: bool, add: impl Fn(&mut LineSums, Ns)) {
        add(self.row(0, group, idle), span.len());
        for window in 1..self.windows {
            let parts = self.scopes.windows().get(window).map(|w| w.parts.as_slice()).unwrap_or_default();
            let first = parts.partition_point(|p| p.end <= span.start);
            let inside = parts.iter().skip(first).take_while(|p| p.start < span.end);
            let ns: Ns = inside.map(|p| p.intersect(span).len()).sum();
            if ns > 0 {
                add(self.row(window, group, idle), ns);
            }
        }
    }

    /// Host time of each row, and the part that is not Python code.
    fn host(&mut self, idle: &HashSet<u32>) {
        let lines = self.lines;
        for (lane, innermost) in lines.threads() {
            let is_idle = idle.contains(lane);
            let native = self.innermost(*lane, |class| matches!(class, Class::HostOp | Class::Runtime | Class::Python));
            let mut natives = native.from(Ns::MIN).peekable();
            for piece in innermost.from(Ns::MIN) {
                let group = self.grouping.of_frame(piece.row);
                self.add_time(piece.span, group, is_idle, |sums, ns| sums.host_self += ns);
                if lines.frame(piece.row).is_some_and(|f| f.kind == FrameKind::BuiltIn) {
                    self.add_time(piece.span, group, is_idle, |sums, ns| sums.native += ns);
                    continue;
                }
                while natives.next_if(|n| n.span.end <= piece.span.start).is_some() {}
                while let Some(n) = natives.peek().copied().filter(|n| n.span.start < piece.span.end) {
                    if self.calls.trace.classes[n.row as usize] != Class::Python {
                        let span = n.span.intersect(piece.span);
                        self.add_time(span, group, is_idle, |sums, ns| sums.native += ns);
                    }
                    if n.span.end > piece.span.end {
                        break;
                    }
                    natives.next();
                }
            }
        }
    }

    /// Calls, and the time in which any of them is open.
    fn frames(&mut self, idle: &HashSet<u32>) {
        let trace = self.calls.trace;
        let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, _) in self.lines.frames() {
            by_lane.entry(trace.columns.lane[row as usize]).or_default().push(row);
        }
        for (lane, mut rows) in by_lane {
            sort_outer_first(&mut rows, &trace.columns);
            let is_idle = idle.contains(&lane);
            // Calls of a row may be inside one another: where the last of them ends.
            let mut until: HashMap<LineGroup, Ns> = HashMap::new();
            for row in rows {
                let span = trace.span(row);
                let step = self.scopes.step_at(span.start);
                for group in self.grouping.called(row) {
                    for window in self.windows_of(step) {
                        self.row(window, group, is_idle).calls += 1;
                    }
                    let until = until.entry(group).or_insert(Ns::MIN);
                    let rest = Span::new(span.start.max(*until), span.end);
                    *until = span.end.max(*until);
                    if rest.start < rest.end {
                        self.add_time(rest, group, is_idle, |sums, ns| sums.host_total += ns);
                    }
                }
            }
        }
    }

    /// Synchronizing calls, without those inside another one.
    fn blocked(&mut self) {
        let calls = self.calls;
        let (trace, names) = (calls.trace, HostNames::of(calls.trace));
        let mut until = 0;
        for p in 0..calls.forest.len() as u32 {
            let row = calls.row(p);
            if p < until || calls.is_op(p) || names.activity(trace, row) != "sync_call" {
                continue;
            }
            until = calls.forest.end[p as usize];
            let span = trace.span(row);
            let group = self.grouping.at(trace.columns.lane[row as usize], span.start);
            for window in self.windows_of(self.scopes.step_at(span.start)) {
                self.row(window, group, false).blocked += span.len();
            }
        }
    }

    fn gpu(&mut self) {
        let trace = self.calls.trace;
        for (call, of) in trace.launches().iter() {
            let (lane, start) = (trace.columns.lane[call as usize], trace.span(call).start);
            let (group, is_backward) = self.charged(lane, start, self.calls.forest.position(call));
            for window in self.windows_of(self.scopes.step_at(start)) {
                self.row(window, group, false).launches += 1;
            }
            for &i in of {
                for window in self.windows_of(trace.activities[i as usize].step()) {
                    let row = self.row(window, group, false);
                    if is_backward { &mut row.backward } else { &mut row.launched }.push(i);
                }
            }
        }
        for &i in &trace.launches().unlinked {
            for window in self.windows_of(trace.activities[i as usize].step()) {
                self.row(window, UNLINKED, false).launched.push(i);
            }
        }
    }

    /// Host time of backward operators, without those inside another one that was joined.
    fn backward(&mut self) {
        let calls = self.calls;
        let mut pairs: Vec<(u32, u32)> = calls.backward.nodes.clone();
        pairs.sort_unstable_by_key(|(_, backward)| calls.forest.position(*backward));
        let mut until = 0;
        for (_, backward) in pairs {
            let Some(p) = calls.forest.position(backward).filter(|p| *p >= until) else { continue };
            until = calls.forest.end[p as usize];
            let start = calls.start(p);
            let (group, _) = self.charged(calls.trace.columns.lane[backward as usize], start, Some(p));
            for window in self.windows_of(self.scopes.step_at(start)) {
                self.row(window, group, false).bwd_host += calls.host_ns[p as usize];
            }
        }
    }

    fn copies(&mut self) {
        let trace = self.calls.trace;
        for work in trace.devices.iter().filter(|w| w.is_gpu) {
            for copy in copies(trace, work) {
                let (Some(call), Some(bytes)) = (copy.call, copy.bytes) else { continue };
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                let (lane, start) = (trace.columns.lane[call as usize], trace.span(call).start);
                let (group, _) = self.charged(lane, start, self.calls.forest.position(call));
                for window in self.windows_of(trace.activities[copy.activity as usize].step()) {
                    let row = self.row(window, group, false);
                    match copy.direction {
                        "HtoD" => row.h2d_bytes = row.h2d_bytes.saturating_add(bytes),
                        "DtoH" => row.d2h_bytes = row.d2h_bytes.saturating_add(bytes),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Allocations and frees. Returns whether any are recorded.
    fn memory(&mut self) -> bool {
        let (trace, forest) = (self.calls.trace, &self.calls.forest);
        let records = &trace.columns.recorded.memory;
        let lanes: BTreeSet<u32> = records.iter().map(|r| r.lane).collect();
        let ops: HashMap<u32, InnermostTimeline> =
            lanes.into_iter().map(|lane| (lane, self.innermost(lane, |class| class == Class::HostOp))).collect();
        for record in records.iter().filter(|r| r.kind == MemoryRecordKind::Change) {
            let open = ops.get(&record.lane).and_then(|ops| ops.from(record.ts).next());
            let op = open.filter(|piece| piece.span.holds(record.ts)).and_then(|piece| forest.position(piece.row));
            let (group, _) = self.charged(record.lane, record.ts, op);
            for window in self.windows_of(self.scopes.step_at(record.ts)) {
                let row = self.row(window, group, false);
                row.alloc_bytes = row.alloc_bytes.saturating_add(record.bytes.max(0));
                row.net_bytes = row.net_bytes.saturating_add(record.bytes);
            }
        }
        !records.is_empty()
    }

    /// The innermost event of some classes of a thread at every instant.
    fn innermost(&self, lane: u32, counts: impl Fn(Class) -> bool) -> InnermostTimeline {
        let trace = self.calls.trace;
        let of_lane = trace.host_rows().iter().find(|(l, _)| *l == lane);
        let counts = |row: &u32| counts(trace.classes[*row as usize]);
        let rows: Vec<u32> = of_lane.into_iter().flat_map(|(_, rows)| rows.iter().copied().filter(counts)).collect();
        InnermostTimeline::new(&rows, &trace.columns, |_| false)
    }
}

/// Threads with frames that run no operator and make no API call, as monitors do.
pub(crate) fn idle_threads(calls: &CallForest, lines: &Lines) -> HashSet<u32> {
    let mut working: HashSet<u32> = HashSet::new();
    for p in 0..calls.forest.len() as u32 {
        working.insert(calls.trace.columns.lane[calls.row(p) as usize]);
    }
    lines.threads().keys().copied().filter(|lane| !working.contains(lane)).collect()
}
