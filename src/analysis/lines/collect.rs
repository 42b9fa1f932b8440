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
use crate::lines::grouping::{Grouping, LineGroup, UNLINKED};
use hashbrown::{HashMap, HashSet};
use hta_base::units::{Ns, Span};
use hta_facts::by_owner::ByOwner;
use hta_facts::calls::CallForest;
use hta_facts::host_activity::{HostActivity, HostNames};
use hta_facts::lines::{Charging, FrameKind, Lines};
use hta_facts::step_scopes::StepScopes;
use hta_trace::category::Class;
use hta_trace::memory::MemoryRecordKind;
use hta_trace::thread::InnermostTimeline;
use std::collections::BTreeSet;

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

/// To whom something is charged: the group of a row, and whether its threads are idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LineOwner {
    pub(crate) group: LineGroup,
    pub(crate) is_idle: bool,
}

impl LineOwner {
    fn working(group: LineGroup) -> Self {
        Self { group, is_idle: false }
    }
}

pub(crate) struct Collect<'a> {
    calls: &'a CallForest<'a>,
    lines: &'a Lines,
    grouping: &'a Grouping<'a>,
    charging: &'a Charging<'a>,
    scopes: &'a StepScopes<'a>,
    sums: ByOwner<LineOwner, LineSums>,
}

impl<'a> Collect<'a> {
    pub(crate) fn new(
        calls: &'a CallForest<'a>,
        lines: &'a Lines,
        grouping: &'a Grouping<'a>,
        charging: &'a Charging<'a>,
        scopes: &'a StepScopes<'a>,
    ) -> Self {
        Self { calls, lines, grouping, charging, scopes, sums: ByOwner::default() }
    }

    /// The sums of a rank, and whether its file records memory.
    pub(crate) fn all(mut self) -> (ByOwner<LineOwner, LineSums>, bool) {
        let idle = idle_threads(self.calls, self.lines);
        self.host(&idle);
        self.frames(&idle);
        self.blocked();
        self.gpu();
        self.backward();
        self.copies();
        let has_memory = self.memory();
        (self.sums, has_memory)
    }

    /// Charges a group with something that happens in a step.
    fn charge(&mut self, step: Option<u32>, group: LineGroup, change: impl FnMut(&mut LineSums)) {
        self.sums.charge(self.scopes.of(step), LineOwner::working(group), change);
    }

    /// The row that is charged with what happens at an instant, in the operator or call at a position.
    fn charged(&self, lane: u32, t: Ns, position: Option<u32>) -> LineGroup {
        self.grouping.of_charge(&self.charging.of(lane, t, position))
    }

    /// Adds the parts of a piece of time to the windows in which they lie; the capture has all of it.
    fn add_time(&mut self, span: Span, owner: LineOwner, add: impl Fn(&mut LineSums, Ns)) {
        let id = self.sums.id(owner);
        add(self.sums.at(0, id), span.len());
        for (window, w) in self.scopes.windows().iter().enumerate().skip(1) {
            let first = w.parts().partition_point(|p| p.end <= span.start);
            let inside = w.parts().iter().skip(first).take_while(|p| p.start < span.end);
            let ns: Ns = inside.map(|p| p.intersect(span).len()).sum();
            if ns > 0 {
                add(self.sums.at(window, id), ns);
            }
        }
    }

    /// Host time of each row, and the part that is not Python code.
    fn host(&mut self, idle: &HashSet<u32>) {
        let lines = self.lines;
        for (lane, innermost) in lines.threads() {
            let is_idle = idle.contains(lane);
            let native = self
                .innermost(*lane, |class| matches!(class, Class::HostOp | Class::Runtime | Class::Python));
            let mut natives = native.from(Ns::MIN).peekable();
            for piece in innermost.from(Ns::MIN) {
                let owner = LineOwner { group: self.grouping.of_frame(piece.row), is_idle };
                self.add_time(piece.span, owner, |sums, ns| sums.host_self += ns);
                if lines.frame(piece.row).is_some_and(|f| f.kind == FrameKind::BuiltIn) {
                    self.add_time(piece.span, owner, |sums, ns| sums.native += ns);
                    continue;
                }
                while natives.next_if(|n| n.span.end <= piece.span.start).is_some() {}
                while let Some(n) = natives.peek().copied().filter(|n| n.span.start < piece.span.end) {
                    if self.calls.trace.classes[n.row as usize] != Class::Python {
                        let span = n.span.intersect(piece.span);
                        self.add_time(span, owner, |sums, ns| sums.native += ns);
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
        for (lane, rows) in trace.host_rows_where(|row| trace.classes[row as usize] == Class::Python) {
            let is_idle = idle.contains(&lane);
            // Calls of a row may be inside one another: where the last of them ends.
            let mut until: HashMap<LineGroup, Ns> = HashMap::new();
            for row in rows {
                let span = trace.span(row);
                let step = self.scopes.step_at(span.start);
                for group in self.grouping.called(row) {
                    let owner = LineOwner { group, is_idle };
                    self.sums.charge(self.scopes.of(step), owner, |sums| sums.calls += 1);
                    let until = until.entry(group).or_insert(Ns::MIN);
                    let rest = Span::new(span.start.max(*until), span.end);
                    *until = span.end.max(*until);
                    if rest.start < rest.end {
                        self.add_time(rest, owner, |sums, ns| sums.host_total += ns);
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
        for p in 0..calls.forest.call_count() as u32 {
            let row = calls.row(p);
            if p < until || calls.is_op(p) || names.activity(trace, row) != HostActivity::SyncCall {
                continue;
            }
            until = calls.forest.end[p as usize];
            let span = trace.span(row);
            let group = self.grouping.at(trace.columns.lane[row as usize], span.start);
            self.charge(self.scopes.step_at(span.start), group, |sums| sums.blocked += span.len());
        }
    }

    fn gpu(&mut self) {
        let trace = self.calls.trace;
        let charging = self.charging;
        for launch in charging.launches(self.calls) {
            let group = self.grouping.of_charge(&launch.charge);
            self.charge(self.scopes.step_at(launch.start), group, |sums| sums.launches += 1);
            for &i in launch.activities {
                self.charge(trace.activities[i as usize].step(), group, |sums| {
                    if launch.charge.is_backward { &mut sums.backward } else { &mut sums.launched }.push(i);
                });
            }
        }
        for &i in &trace.launches().unlinked {
            self.charge(trace.activities[i as usize].step(), UNLINKED, |sums| sums.launched.push(i));
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
            let group = self.charged(calls.trace.columns.lane[backward as usize], start, Some(p));
            self.charge(self.scopes.step_at(start), group, |sums| sums.bwd_host += calls.host_ns[p as usize]);
        }
    }

    fn copies(&mut self) {
        let trace = self.calls.trace;
        for work in trace.devices.iter().filter(|w| w.is_gpu) {
            for copy in copies(trace, work) {
                let (Some(call), Some(bytes)) = (copy.call, copy.bytes) else { continue };
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                let (lane, start) = (trace.columns.lane[call as usize], trace.span(call).start);
                let group = self.charged(lane, start, self.calls.forest.position(call));
                self.charge(trace.activities[copy.activity as usize].step(), group, |sums| {
                    match copy.direction {
                        "HtoD" => sums.h2d_bytes = sums.h2d_bytes.saturating_add(bytes),
                        "DtoH" => sums.d2h_bytes = sums.d2h_bytes.saturating_add(bytes),
                        _ => {}
                    }
                });
            }
        }
    }

    /// Allocations and frees. Returns whether any are recorded.
    fn memory(&mut self) -> bool {
        let (trace, forest) = (self.calls.trace, &self.calls.forest);
        let records = &trace.columns.recorded.memory;
        let lanes: BTreeSet<u32> = records.iter().map(|r| r.lane).collect();
        let ops: HashMap<u32, InnermostTimeline> = lanes
            .into_iter()
            .map(|lane| (lane, self.innermost(lane, |class| class == Class::HostOp)))
            .collect();
        for record in records.iter().filter(|r| r.kind == MemoryRecordKind::Change) {
            let open = ops.get(&record.lane).and_then(|ops| ops.from(record.ts).next());
            let op =
                open.filter(|piece| piece.span.holds(record.ts)).and_then(|piece| forest.position(piece.row));
            let group = self.charged(record.lane, record.ts, op);
            self.charge(self.scopes.step_at(record.ts), group, |sums| {
                sums.alloc_bytes = sums.alloc_bytes.saturating_add(record.bytes.max(0));
                sums.net_bytes = sums.net_bytes.saturating_add(record.bytes);
            });
        }
        !records.is_empty()
    }

    /// The innermost event of some classes of a thread at every instant.
    fn innermost(&self, lane: u32, counts: impl Fn(Class) -> bool) -> InnermostTimeline {
        let trace = self.calls.trace;
        let of_lane = trace.host_rows_of(lane).unwrap_or_default();
        let counts = |row: &u32| counts(trace.classes[*row as usize]);
        let rows: Vec<u32> = of_lane.iter().copied().filter(counts).collect();
        InnermostTimeline::new(&rows, &trace.columns, |_| false)
    }
}

/// Threads with frames that run no operator and make no API call, as monitors do.
pub(crate) fn idle_threads(calls: &CallForest, lines: &Lines) -> HashSet<u32> {
    let mut working: HashSet<u32> = HashSet::new();
    for p in 0..calls.forest.call_count() as u32 {
        working.insert(calls.trace.columns.lane[calls.row(p) as usize]);
    }
    lines.threads().keys().copied().filter(|lane| !working.contains(lane)).collect()
}
