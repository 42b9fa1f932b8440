//! What the launching threads of a rank do, as far as causes need it: calls that wait for the device, pauses,
//! and long stretches of code outside operators.

use crate::CauseKind;
use crate::host_ranges::{
    CODE_MIN, CompilerNames, OwnRanges, QUIET_MIN, compiler_names, is_code, is_operator, long_min,
};
use crate::host_waits::{AfterWait, after_waits, behind_collectives, caller, first_uses, waiting_calls};
use crate::pauses::{self, Pause};
use hashbrown::{HashMap, HashSet};
use hta_analysis::copies::copy::Copy;
use hta_base::units::{Ns, Span};
use hta_facts::host_activity::{HostActivity, HostNames, HostUse};
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What depends on the time in one thread.
#[derive(Default)]
struct HostLane {
    /// From the first event to the end of the last.
    known: Option<Span>,
    /// Code outside operators, and events or parts of operators that launch nothing for so long that it is
    /// theirs.
    code: Union,
    ranges: OwnRanges,
    /// In order of time; they do not overlap.
    after_waits: Vec<AfterWait>,
    /// Time inside calls that wait for the device.
    blocked: Union,
}

/// A place among the stretches of a lane, for spans in order of time.
struct LaneWalk<'l> {
    lane: &'l HostLane,
    /// The first stretch of code, and (next field) of `after_waits`, that has not ended.
    code: usize,
    wait: usize,
}

impl<'l> LaneWalk<'l> {
    fn new(lane: &'l HostLane, start: Ns) -> Self {
        let code = lane.code.spans().partition_point(|s| s.end <= start);
        Self { lane, code, wait: lane.after_waits.partition_point(|w| w.span.end <= start) }
    }

    /// Length of the stretch of code that a span is part of, 0 if of none.
    fn code_at(&mut self, span: Span) -> Ns {
        let stretches = self.lane.code.spans();
        while stretches.get(self.code).is_some_and(|s| s.end <= span.start) {
            self.code += 1;
        }
        stretches.get(self.code).filter(|s| s.start < span.end).map_or(0, |s| s.len())
    }

    /// The stretches after calls that waited which have not ended.
    fn waits_from(&mut self, start: Ns) -> &'l [AfterWait] {
        let waits = &self.lane.after_waits;
        while waits.get(self.wait).is_some_and(|w| w.span.end <= start) {
            self.wait += 1;
        }
        &waits[self.wait..]
    }
}

/// What is known of a call beside its kind.
#[derive(Debug, Clone, Copy, Default)]
struct CallMark {
    /// It loads or sets up something at its first use.
    is_first_use: bool,
    /// It stood still.
    is_pause: bool,
    /// The way of copying of its copy.
    copy: Option<CauseKind>,
}

pub(crate) struct HostSide<'a> {
    pub(crate) trace: &'a RankTrace,
    pub(crate) names: Arc<HostNames>,
    main: Option<u32>,
    /// The threads that launch work, and the main thread.
    pub(crate) launching: BTreeSet<u32>,
    /// Pauses, in order of time.
    pub(crate) pauses: Vec<Pause>,
    /// Kind of the pauses, if they are a cause, and the name that it is about.
    pause_kind: Option<(CauseKind, StrId)>,
    marks: HashMap<u32, CallMark>,
    lanes: BTreeMap<u32, HostLane>,
    /// Calls that wait for the device, in order of start.
    pub(crate) waits: Vec<u32>,
    /// From this length on what a host does is a cause of its own, ns.
    pub(crate) long: Ns,
    /// Of a thread without events.
    no_lane: HostLane,
    owners: HostOwners,
}

/// What the host's part of a gap is assigned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AssignedHost {
    pub(crate) kind: CauseKind,
    /// What the cause is about: a loader, a call, an operator. Empty for code outside operators.
    pub(crate) key: StrId,
    /// The event that was innermost; `u32::MAX` if none.
    pub(crate) row: u32,
}

/// A stretch of a host thread while a device idles.
pub(crate) struct HostMoment<'u> {
    pub(crate) used: &'u HostUse,
    /// What else is known of the call.
    mark: Option<CallMark>,
    /// Length of the stretch of code outside operators that it is part of, ns.
    code: Ns,
    /// The event without launches that an operator or call is inside, and (next field) the compiler.
    quiet: Option<u32>,
    compiler: Option<u32>,
    /// The call that waited for the device, if the moment is behind one.
    after: Option<&'u AfterWait>,
    /// The innermost event, `u32::MAX` if none is open, and its name.
    pub(crate) row: u32,
    name: StrId,
}

impl HostMoment<'_> {
    /// Its name and event.
    pub(crate) fn own(&self) -> (StrId, u32) {
        (self.name, self.row)
    }

    /// The operator that it is a long part of, if that is not one without launches; empty for other code.
    pub(crate) fn long_operator(&self) -> StrId {
        let is_one = self.quiet.is_none() && is_operator(self.used);
        if is_one { self.name } else { StrId::EMPTY }
    }

    /// The event that stands for it as code: one without launches, or its own.
    pub(crate) fn code_row(&self) -> u32 {
        self.quiet.unwrap_or(self.row)
    }
}

/// Takes a moment of a host: the name that the cause is about, and the event that stands for it, `u32::MAX`
/// for none.
pub(crate) type TakeMoment = fn(&HostSide, &HostMoment) -> Option<(StrId, u32)>;

/// The kinds of causes that can own a moment of a host, in their order. There is a list for each activity of
/// the host, and for each in calls of which more is known.
pub(crate) struct HostOwners(Vec<[Vec<(CauseKind, TakeMoment)>; 2]>);

impl HostOwners {
    pub(crate) fn new(kinds: impl Fn(HostActivity, bool) -> Vec<(CauseKind, TakeMoment)>) -> Self {
        Self(HostActivity::ALL.map(|activity| [false, true].map(|marked| kinds(activity, marked))).into())
    }

    /// The first kind that takes the moment, and what it takes.
    fn owner(&self, host: &HostSide, moment: &HostMoment) -> Option<(CauseKind, (StrId, u32))> {
        let kinds = &self.0[moment.used.activity as usize][usize::from(moment.mark.is_some())];
        kinds.iter().find_map(|(kind, take)| Some((*kind, take(host, moment)?)))
    }
}

impl<'a> HostSide<'a> {
    /// `busy` is when any device of the rank was busy; `copies` are all copies, with the causes that their
    /// ways of copying are.
    pub(crate) fn new(trace: &'a RankTrace, busy: &Union, copies: &[(Copy, Option<CauseKind>)]) -> Self {
        let names = HostNames::of(trace);
        let main = trace.main_thread();
        let mut launches: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
        for (row, _) in trace.launches().iter() {
            launches.entry(trace.columns.lane[row as usize]).or_default().push(trace.span(row));
        }
        launches.values_mut().for_each(|l| l.sort_unstable_by_key(|s| s.start));
        let waits = waiting_calls(trace, &names, copies);
        let behind = behind_collectives(trace, &names);
        let first_uses = first_uses(trace, &names, busy);
        let mut marks: HashMap<u32, CallMark> = HashMap::new();
        for (call, kind) in copies.iter().filter_map(|(c, kind)| Some((c.call?, (*kind)?))) {
            marks.entry(call).or_default().copy = Some(kind);
        }
        for &call in &first_uses {
            marks.entry(call).or_default().is_first_use = true;
        }
        let mut me = Self {
            trace,
            main,
            launching: launches.keys().copied().chain(main).collect(),
            pauses: Vec::new(),
            pause_kind: None,
            marks,
            lanes: BTreeMap::new(),
            waits: Vec::new(),
            long: long_min(trace),
            no_lane: HostLane::default(),
            owners: CauseKind::owners_of_host(),
            names,
        };
        me.add_lanes(&waits, &behind, after_waits(trace, &waits, busy, &launches));
        me.add_ranges(&launches);
        let excused: HashSet<u32> = waits.iter().chain(&behind).chain(&first_uses).copied().collect();
        me.waits = waits;
        let (pauses, firsts) = pauses::find(trace, &me.launching, &excused);
        me.pauses = pauses;
        for row in firsts {
            me.marks.entry(row).or_default().is_first_use = true;
        }
        me.pause_kind = pauses::long_enough(trace, &me.pauses).and_then(|total| me.owner_of_pauses(total));
        if me.pause_kind.is_some() {
            for p in &me.pauses {
                me.marks.entry(p.row).or_default().is_pause = true;
            }
        }
        me
    }

    /// Adds what depends on the time: calls that wait for the device, and those that wait behind collectives.
    fn add_lanes(&mut self, waits: &[u32], behind: &[u32], after: BTreeMap<u32, Vec<AfterWait>>) {
        let trace = self.trace;
        for (lane, rows) in trace.host_rows() {
            self.lanes.entry(*lane).or_default().known = extent(trace, rows);
        }
        for (lane, stretches) in after {
            self.lanes.entry(lane).or_default().after_waits = stretches;
        }
        let mut blocked: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
        for &row in waits.iter().chain(behind) {
            blocked.entry(trace.columns.lane[row as usize]).or_default().push(trace.span(row));
        }
        for (lane, spans) in blocked {
            self.lanes.entry(lane).or_default().blocked = Union::new(spans);
        }
    }

    /// Adds the events of the launching threads that own what happens inside them, and their code.
    fn add_ranges(&mut self, launches: &BTreeMap<u32, Vec<Span>>) {
        let trace = self.trace;
        let names = compiler_names(trace);
        for lane in self.launching.iter().copied() {
            let ranges =
                self.ranges_of(lane, names.as_ref(), launches.get(&lane).map_or(&[][..], Vec::as_slice));
            let code = self.code_of(lane, &ranges);
            let of_lane = self.lanes.entry(lane).or_default();
            (of_lane.code, of_lane.ranges) = (code, ranges);
        }
    }

    fn ranges_of(&self, lane: u32, names: Option<&CompilerNames>, launches: &[Span]) -> OwnRanges {
        let rows = self.trace.host_rows_of(lane).filter(|_| !self.trace.is_cpu_only());
        let work = (launches, self.blocked(Some(lane)));
        rows.map_or_else(OwnRanges::default, |rows| {
            OwnRanges::new(self.trace, (&self.names, names), rows, work, self.long)
        })
    }

    fn lane(&self, lane: Option<u32>) -> &HostLane {
        lane.and_then(|l| self.lanes.get(&l)).unwrap_or(&self.no_lane)
    }

    /// Time of a thread inside calls that wait for the device.
    pub(crate) fn blocked(&self, lane: Option<u32>) -> &Union {
        &self.lane(lane).blocked
    }

    /// The kind that owns the pauses, of so many ns, and the name that it is about.
    fn owner_of_pauses(&self, total: Ns) -> Option<(CauseKind, StrId)> {
        CauseKind::all_lost().rev().find_map(|(kind, rule)| Some((kind, rule.of_pauses?(self, total)?)))
    }

    /// Time of a thread outside operators and calls, in events without launches, and in operators for so long
    /// without a call that they do more than launch.
    fn code_of(&self, lane: u32, ranges: &OwnRanges) -> Union {
        let mut spans: Vec<Span> = ranges.quiet().collect();
        self.names.each_use(self.trace, Some(lane), self.trace.capture, |u| {
            let is_long = is_operator(&u) && u.span.len() >= self.long;
            if is_long || is_code(&u) {
                spans.push(u.span);
            }
        });
        Union::new(spans)
    }

    /// Divides a span of a thread by the cause that it is assigned to if a device idles meanwhile. The cause
    /// of an instant of the capture does not depend on where the span begins and ends.
    pub(crate) fn each(&self, lane: Option<u32>, window: Span, mut take: impl FnMut(Span, AssignedHost)) {
        let mut walk = LaneWalk::new(self.lane(lane), window.start);
        self.names.each_use(self.trace, lane, window, |u| match (u.row, self.main) {
            // A thread without an open event works for nobody: the main thread determines what happens next.
            (None, Some(main)) if lane != Some(main) => {
                let mut of_main = LaneWalk::new(self.lane(Some(main)), u.span.start);
                self.names.each_use(self.trace, Some(main), u.span, |m| {
                    self.divide(&mut of_main, &m, &mut take);
                });
            }
            _ => self.divide(&mut walk, &u, &mut take),
        });
    }

    /// Cuts a use where stretches that depend on time begin and end.
    fn divide(&self, walk: &mut LaneWalk, u: &HostUse, take: &mut impl FnMut(Span, AssignedHost)) {
        let lane = walk.lane;
        let own = (lane.ranges.quiet_at(u), lane.ranges.compiler_at(u));
        let may_be_code = is_code(u) || is_operator(u) || own.0.is_some();
        let code = if may_be_code { walk.code_at(u.span) } else { 0 };
        let mut at = u.span.start;
        let mut until = |end: Ns, after: Option<&AfterWait>| {
            if at < end {
                let span = Span::new(at, end);
                take(span, self.assigned(lane, u, span, (code, own, after)));
                at = end;
            }
        };
        for near in walk.waits_from(u.span.start).iter().take_while(|w| w.span.start < u.span.end) {
            until(near.span.start, None);
            until(near.span.end.min(u.span.end), Some(near));
        }
        until(u.span.end, None);
    }

    fn assigned(
        &self,
        lane: &HostLane,
        used: &HostUse,
        span: Span,
        (code, (quiet, compiler), after): (Ns, (Option<u32>, Option<u32>), Option<&AfterWait>),
    ) -> AssignedHost {
        let row = used.row.unwrap_or(u32::MAX);
        let name = used.row.map_or(StrId::EMPTY, |r| self.trace.columns.name(r as usize));
        // Before its first event and after its last one nothing is known of a thread: it may well wait for
        // the device.
        let is_known = |of: Span| of.start < span.end && span.start < of.end;
        if used.row.is_none() && !lane.known.is_some_and(is_known) {
            return AssignedHost { kind: CauseKind::NotExplained, key: StrId::EMPTY, row };
        }
        let mark = self.marks.get(&row).copied();
        let moment = HostMoment { used, mark, code, quiet, compiler, after, row, name };
        let owned = self.owners.owner(self, &moment);
        let (kind, (key, row)) = owned.unwrap_or((CauseKind::NotExplained, (name, row)));
        AssignedHost { kind, key, row }
    }

    /// Whether the thread runs code that is neither an operator nor a call, or an event without launches, for
    /// at least `CODE_MIN` at a stretch.
    pub(crate) fn is_code(&self, m: &HostMoment) -> bool {
        m.code >= CODE_MIN
    }

    /// The same for so long that it is a cause of its own even after a call that waited for the device.
    pub(crate) fn is_long_code(&self, m: &HostMoment) -> bool {
        let is_own = |row| row != u32::MAX && !self.names.is_step(self.trace, row);
        m.code >= QUIET_MIN || m.code >= self.long && is_own(m.row)
    }

    /// The compiler that the moment is inside.
    pub(crate) fn compiler(&self, m: &HostMoment) -> Option<(StrId, u32)> {
        m.compiler.map(|row| (self.trace.columns.name(row as usize), row))
    }

    /// The call and its caller, if the moment is behind one that waited until the device had nothing left to
    /// do.
    pub(crate) fn call_waited_behind(&self, m: &HostMoment) -> Option<(StrId, u32)> {
        m.after.map(|after| (after.caller, after.call))
    }

    /// Whether the event is a call that loads its kernel, or the first of its name that takes far longer than
    /// the others. An operator that launches nothing may be work of the host.
    pub(crate) fn is_first_use(&self, m: &HostMoment) -> bool {
        let is_work = m.quiet.is_some() && m.used.activity == HostActivity::Operator;
        !is_work && m.mark.is_some_and(|mark| mark.is_first_use)
    }

    /// The moment itself, if the event is the call of a copy of this kind.
    pub(crate) fn in_copy(&self, m: &HostMoment, kind: CauseKind) -> Option<(StrId, u32)> {
        m.mark.is_some_and(|mark| mark.copy == Some(kind)).then(|| m.own())
    }

    /// What the pauses are about, if the event is one of them and this kind owns them.
    pub(crate) fn paused(&self, m: &HostMoment, kind: CauseKind) -> Option<StrId> {
        let (owner, key) = self.pause_kind.filter(|_| m.mark.is_some_and(|mark| mark.is_pause))?;
        (owner == kind).then_some(key)
    }

    /// Name of the outermost operator around a call, or the call's own.
    pub(crate) fn caller(&self, call: u32) -> StrId {
        caller(self.trace, call)
    }
}

/// From the first start to the last end of some events.
fn extent(trace: &RankTrace, rows: &[u32]) -> Option<Span> {
    let spans = || rows.iter().map(|r| trace.span(*r));
    Some(Span::new(spans().map(|s| s.start).min()?, spans().map(|s| s.end).max()?))
}
