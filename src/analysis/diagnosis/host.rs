//! What the launching threads of a rank do, as far as causes need it: calls that wait for the device, pauses,
//! and long stretches of code outside operators.

use crate::copies::copy::Copy;
use crate::diagnosis::CauseKind;
use crate::diagnosis::pauses::{self, Pause};
use crate::facts::host_activity::{ALLOCATION_LONG, HostNames, HostUse};
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::launch::is_graph_launch;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Code outside operators counts as a stretch of its own from this length on; below it is the ordinary time
/// between two operators, ns.
pub(crate) const CODE_MIN: Ns = 200_000;

/// A stretch of code this long is a cause of its own even after a call that waited for the device, ns.
const CODE_LONG: Ns = 1_000_000;

/// A launch call at the first use of its kernel that lasts this long loads it, ns.
const FIRST_USE_MIN: Ns = 1_000_000;

/// Number of launches after which a queue counts as filled again.
const REFILL: usize = 2;

/// Stretch after a call that waited until the device had nothing left to do.
#[derive(Debug, Clone, Copy)]
struct AfterWait {
    span: Span,
    call: u32,
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
    paused: HashSet<u32>,
    /// Calls that load a kernel at its first use.
    first_uses: HashSet<u32>,
    /// By lane: from the first event to the end of the last.
    known: BTreeMap<u32, Span>,
    /// By lane: code outside operators of at least `CODE_MIN` and (next field) `CODE_LONG`.
    code: BTreeMap<u32, Union>,
    long_code: BTreeMap<u32, Union>,
    /// By lane, in order of time.
    after_waits: BTreeMap<u32, Vec<AfterWait>>,
    /// By lane: time inside calls that wait for the device.
    pub(crate) blocked: BTreeMap<u32, Union>,
    copy_calls: HashMap<u32, CauseKind>,
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
    lane: Option<u32>,
    pub(crate) used: &'u HostUse,
    span: Span,
    /// The innermost event, `u32::MAX` if none is open, and its name.
    pub(crate) row: u32,
    name: StrId,
}

impl HostMoment<'_> {
    /// Its name and event.
    pub(crate) fn own(&self) -> (StrId, u32) {
        (self.name, self.row)
    }

    /// The same if the host does this.
    pub(crate) fn own_if(&self, activity: &str) -> Option<(StrId, u32)> {
        (self.used.activity == activity).then(|| self.own())
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
        let lanes: BTreeSet<u32> = launches.keys().copied().chain(main).collect();
        let waits = waiting_calls(trace, &names, copies);
        let behind = behind_collectives(trace, &names);
        let mut blocked: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
        for &row in waits.iter().chain(&behind) {
            blocked.entry(trace.columns.lane[row as usize]).or_default().push(trace.span(row));
        }
        let mut me = Self {
            trace,
            main,
            launching: lanes.clone(),
            pauses: Vec::new(),
            pause_kind: None,
            paused: HashSet::new(),
            first_uses: first_uses(trace),
            known: trace
                .host_rows()
                .iter()
                .filter_map(|(lane, rows)| Some((*lane, extent(trace, rows)?)))
                .collect(),
            code: BTreeMap::new(),
            long_code: BTreeMap::new(),
            after_waits: after_waits(trace, &waits, busy, &launches),
            blocked: blocked.into_iter().map(|(lane, spans)| (lane, Union::new(spans))).collect(),
            copy_calls: copies.iter().filter_map(|(c, kind)| Some((c.call?, (*kind)?))).collect(),
            names,
        };
        for &lane in &lanes {
            let code = me.code_of(lane);
            let at_least = |min: Ns| Union::new(code.spans().iter().copied().filter(|s| s.len() >= min));
            me.code.insert(lane, at_least(CODE_MIN));
            me.long_code.insert(lane, at_least(CODE_LONG));
        }
        let excused: HashSet<u32> = waits.iter().chain(&behind).chain(&me.first_uses).copied().collect();
        me.pauses = pauses::find(trace, &lanes, &excused);
        me.pause_kind = pauses::long_enough(trace, &me.pauses).and_then(|total| me.owner_of_pauses(total));
        if me.pause_kind.is_some() {
            me.paused = me.pauses.iter().map(|p| p.row).collect();
        }
        me
    }

    /// The kind that owns the pauses, of so many ns, and the name that it is about.
    fn owner_of_pauses(&self, total: Ns) -> Option<(CauseKind, StrId)> {
        CauseKind::all_lost().rev().find_map(|(kind, rule)| Some((kind, rule.of_pauses?(self, total)?)))
    }

    /// Time of a thread outside operators and calls.
    fn code_of(&self, lane: u32) -> Union {
        let mut spans = Vec::new();
        self.names.each_use(self.trace, Some(lane), self.trace.capture, |u| {
            if is_code(&u) {
                spans.push(u.span);
            }
        });
        Union::new(spans)
    }

    /// Divides a span of a thread by the cause that it is assigned to if a device idles meanwhile.
    pub(crate) fn each(&self, lane: Option<u32>, window: Span, mut take: impl FnMut(Span, AssignedHost)) {
        self.names.each_use(self.trace, lane, window, |u| match (u.row, self.main) {
            // A thread without an open event works for nobody: the main thread determines what happens next.
            (None, Some(main)) if lane != Some(main) => {
                self.names
                    .each_use(self.trace, Some(main), u.span, |m| self.divide(Some(main), &m, &mut take));
            }
            _ => self.divide(lane, &u, &mut take),
        });
    }

    /// Cuts a use where stretches that depend on time begin and end.
    fn divide(&self, lane: Option<u32>, u: &HostUse, take: &mut impl FnMut(Span, AssignedHost)) {
        let mut cuts = vec![u.span.start, u.span.end];
        let inside = |t: &Ns| u.span.start < *t && *t < u.span.end;
        let waits = lane.and_then(|l| self.after_waits.get(&l)).map_or(&[][..], Vec::as_slice);
        let first = waits.partition_point(|w| w.span.end <= u.span.start);
        let near = waits[first..].iter().take_while(|w| w.span.start < u.span.end);
        cuts.extend(near.flat_map(|w| [w.span.start, w.span.end]).filter(inside));
        cuts.sort_unstable();
        cuts.dedup();
        for ends in cuts.windows(2) {
            let span = Span::new(ends[0], ends[1]);
            take(span, self.assigned(lane, u, span));
        }
    }

    fn assigned(&self, lane: Option<u32>, used: &HostUse, span: Span) -> AssignedHost {
        let row = used.row.unwrap_or(u32::MAX);
        let name = used.row.map_or(StrId::EMPTY, |r| self.trace.columns.name(r as usize));
        // Before its first event and after its last one nothing is known of a thread: it may well wait for
        // the device.
        let is_known = |of: &Span| of.start < span.end && span.start < of.end;
        if used.row.is_none() && !lane.and_then(|l| self.known.get(&l)).is_some_and(is_known) {
            return AssignedHost { kind: CauseKind::NotExplained, key: StrId::EMPTY, row };
        }
        let moment = HostMoment { lane, used, span, row, name };
        let owned =
            CauseKind::all_lost().find_map(|(kind, rule)| Some((kind, (rule.of_host)(self, &moment)?)));
        let (kind, (key, row)) = owned.unwrap_or((CauseKind::NotExplained, (StrId::EMPTY, row)));
        AssignedHost { kind, key, row }
    }

    /// Whether the thread runs code that is neither an operator nor a call, for at least `CODE_MIN` at a
    /// stretch.
    pub(crate) fn is_code(&self, m: &HostMoment) -> bool {
        is_in(&self.code, m)
    }

    /// The same for at least `CODE_LONG`.
    pub(crate) fn is_long_code(&self, m: &HostMoment) -> bool {
        is_in(&self.long_code, m)
    }

    /// The call, if the moment is behind one that waited until the device had nothing left to do.
    pub(crate) fn call_waited_behind(&self, m: &HostMoment) -> Option<u32> {
        let waits = m.lane.and_then(|l| self.after_waits.get(&l))?;
        let after = waits.get(waits.partition_point(|w| w.span.end <= m.span.start))?;
        (after.span.start <= m.span.start).then_some(after.call)
    }

    /// Whether the event is a launch call that loads its kernel.
    pub(crate) fn is_first_use(&self, m: &HostMoment) -> bool {
        self.first_uses.contains(&m.row)
    }

    /// The moment itself, if the event is the call of a copy of this kind.
    pub(crate) fn in_copy(&self, m: &HostMoment, kind: CauseKind) -> Option<(StrId, u32)> {
        (self.copy_calls.get(&m.row) == Some(&kind)).then(|| m.own())
    }

    /// What the pauses are about, if the event is one of them and this kind owns them.
    pub(crate) fn paused(&self, m: &HostMoment, kind: CauseKind) -> Option<StrId> {
        let (owner, key) = self.pause_kind?;
        (owner == kind && self.paused.contains(&m.row)).then_some(key)
    }

    /// Name of the outermost operator around a call, or the call's own.
    pub(crate) fn caller(&self, call: u32) -> StrId {
        let class = |row: &u32| self.trace.classes[*row as usize];
        let is_inside = |row: &u32| matches!(class(row), Class::HostOp | Class::Runtime);
        let around = self.trace.stacks.outward(call).skip(1).take_while(is_inside);
        let named = around.filter(|row| class(row) == Class::HostOp).last().unwrap_or(call);
        self.trace.columns.name(named as usize)
    }
}

/// From the first start to the last end of some events.
fn extent(trace: &RankTrace, rows: &[u32]) -> Option<Span> {
    let spans = || rows.iter().map(|r| trace.span(*r));
    Some(Span::new(spans().map(|s| s.start).min()?, spans().map(|s| s.end).max()?))
}

/// Whether the thread runs code that is neither an operator nor a call.
fn is_code(u: &HostUse) -> bool {
    matches!(u.activity, "python" | "annotation" | "untracked")
}

/// Whether the moment is in such code of its thread.
fn is_in(code: &BTreeMap<u32, Union>, m: &HostMoment) -> bool {
    m.lane.and_then(|l| code.get(&l)).is_some_and(|spans| spans.len_in(m.span) > 0) && is_code(m.used)
}

/// Calls that wait for the device: synchronizing calls, and calls that return when their copy is done.
fn waiting_calls(trace: &RankTrace, names: &HostNames, copies: &[(Copy, Option<CauseKind>)]) -> Vec<u32> {
    let of_copies = copies.iter().filter(|(c, _)| c.blocks == Some(true)).filter_map(|(c, _)| c.call);
    let syncs = names.calls(trace).filter(|(_, activity)| *activity == "sync_call").map(|(row, _)| row);
    let mut all: Vec<u32> = of_copies.chain(syncs).collect();
    all.sort_unstable_by_key(|r| (trace.span(*r).start, *r));
    all.dedup();
    all
}

/// Calls that allocate or free memory while the device only runs communication: they return when it has
/// ended, and the host does not work in them.
fn behind_collectives(trace: &RankTrace, names: &HostNames) -> Vec<u32> {
    let runs = |class: WorkClass| {
        Union::new(
            trace
                .devices
                .iter()
                .filter(|w| w.is_gpu)
                .flat_map(move |w| w.timeline.when(class).spans().to_vec()),
        )
    };
    let (communication, compute) = (runs(WorkClass::Communication), runs(WorkClass::Compute));
    let is_behind = |row: &u32| {
        let span = trace.span(*row);
        span.len() >= ALLOCATION_LONG
            && communication.len_in(span) * 2 >= span.len()
            && compute.len_in(span) * 10 <= span.len()
    };
    let allocations =
        names.calls(trace).filter(|(_, activity)| *activity == "allocation_call").map(|(row, _)| row);
    allocations.filter(is_behind).collect()
}

/// The stretches after calls that waited for the last work of the device: from the call's start until two
/// launches have begun again.
fn after_waits(
    trace: &RankTrace,
    waits: &[u32],
    busy: &Union,
    launches: &BTreeMap<u32, Vec<Span>>,
) -> BTreeMap<u32, Vec<AfterWait>> {
    let mut out: BTreeMap<u32, Vec<AfterWait>> = BTreeMap::new();
    for &call in waits {
        let span = trace.span(call);
        let lane = trace.columns.lane[call as usize];
        // The device worked when the call began, and did not when it returned.
        let at_return = Span::new(span.end - 1, span.end + 1);
        let drained =
            busy.len_in(Span::new(span.start, span.end)) > 0 && busy.len_in(at_return) < at_return.len();
        if !drained {
            continue;
        }
        let later = launches.get(&lane).map_or(&[][..], |l| &l[l.partition_point(|s| s.start < span.end)..]);
        let until = later.get(REFILL - 1).map_or(span.end, |s| s.end);
        let of_lane = out.entry(lane).or_default();
        if let Some(last) = of_lane.last_mut() {
            last.span.end = last.span.end.min(span.start);
        }
        of_lane.push(AfterWait { span: Span::new(span.start, until), call });
    }
    out.values_mut().for_each(|waits| waits.retain(|w| !w.span.is_empty()));
    out
}

/// Launch calls that take long because their kernel is used for the first time, so that it has to be loaded.
fn first_uses(trace: &RankTrace) -> HashSet<u32> {
    let mut seen: HashSet<StrId> = HashSet::new();
    let first = trace.activities.iter().filter(|a| a.class == Class::Kernel && seen.insert(a.name));
    // A graph is uploaded at its first launch, whatever its kernels are.
    let is_load = |row: &u32| {
        trace.stacks.self_ns(*row).unwrap_or(0) >= FIRST_USE_MIN && !is_graph_launch(trace.name(*row))
    };
    first.filter_map(|a| a.launch()).filter(is_load).collect()
}
