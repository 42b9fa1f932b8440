//! What the launching threads of a rank do, as far as causes need it: calls that wait for the device, pauses, and long
//! stretches of code outside operators.

use crate::copies::copy::Copy;
use crate::diagnosis::kind::CauseKind;
use crate::facts::host_activity::{HostNames, HostUse};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::launch::is_graph_launch;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

table! {
    /// Events of launching threads that stood still: self time beyond the median of their name.
    pub(crate) struct HostPauses, HostPauseRow = "host_pauses" by "rank, ts_ns, event_id" {
        rank;
        event_id: u32, "", "event, as in events";
        name: Text, "", "name of the event";
        ts_ns: i64, "ns", "start of the event";
        dur_ns: i64, "ns", "its length";
        excess_ns: i64, "ns", "self time beyond the median of the name";
    }
}

/// Largest number of pauses of a rank in the table.
const PAUSES: usize = 1_000;

/// Code outside operators counts as a stretch of its own from this length on; below it is the ordinary time between two
/// operators, ns.
pub(crate) const CODE_MIN: Ns = 200_000;

/// A stretch of code this long is a cause of its own even after a call that waited for the device, ns.
const CODE_LONG: Ns = 1_000_000;

/// A call that allocates or frees memory in shorter time than this did not wait for a collective, ns.
const ALLOCATION_LONG: Ns = 100_000;

/// A pause is an event whose self time exceeds the median of its name by this, ns,
const PAUSE_MIN: Ns = 1_000_000;
/// and is at least this many times the median.
const PAUSE_TIMES: Ns = 20;
/// Fewest names with pauses from which the host as a whole stands still, and not the events of one name.
const PAUSE_NAMES: usize = 3;
/// Smallest share of the recorded time that pauses take, percent.
const PAUSE_PCT: Ns = 2;
/// Share of the pauses, in time, that lie in one name, or behind another thread if a lock is the reason, percent.
const LOCK_PCT: Ns = 80;
/// Fewest events of another thread during a pause that show that it runs, and is not blocked itself.
const RUNNING_EVENTS: usize = 3;
/// A launch call at the first use of its kernel that lasts this long loads it, ns.
const FIRST_USE_MIN: Ns = 1_000_000;

/// Number of launches after which a queue counts as filled again.
const REFILL: usize = 2;

/// An event that stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) row: u32,
    pub(crate) lane: u32,
    pub(crate) span: Span,
    /// Self time beyond the median of the name, ns.
    pub(crate) excess: Ns,
}

/// Stretch after a call that waited until the device had nothing left to do.
#[derive(Debug, Clone, Copy)]
struct AfterWait {
    span: Span,
    call: u32,
}

pub(crate) struct HostSide<'a> {
    pub(crate) trace: &'a RankTrace,
    names: Arc<HostNames>,
    main: Option<u32>,
    /// The threads that launch work, and the main thread.
    launching: BTreeSet<u32>,
    /// Pauses, in order of time.
    pub(crate) pauses: Vec<Pause>,
    /// Kind of the pauses, if they are a cause, and the event of another thread that runs meanwhile, or the name in which
    /// most of them lie.
    pub(crate) pause_kind: Option<(CauseKind, StrId)>,
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

impl<'a> HostSide<'a> {
    /// `busy` is when any device of the rank was busy; `copies` are all copies, with the causes that their ways of
    /// copying are.
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
            known: trace.host_rows().iter().filter_map(|(lane, rows)| Some((*lane, extent(trace, rows)?))).collect(),
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
        me.pauses = pauses(trace, &lanes, &excused);
        me.pause_kind = me.judge_pauses();
        if me.pause_kind.is_some() {
            me.paused = me.pauses.iter().map(|p| p.row).collect();
        }
        me
    }

    /// The longest pauses, in order of time.
    pub(crate) fn pauses_table(&self) -> Batch {
        let mut longest: Vec<&Pause> = self.pauses.iter().collect();
        longest.sort_by_key(|p| (Reverse(p.excess), p.row));
        longest.truncate(PAUSES);
        longest.sort_by_key(|p| (p.span.start, p.row));
        let mut table = HostPauses::default();
        for p in longest {
            table.push(HostPauseRow {
                rank: self.trace.rank,
                event_id: p.row,
                name: self.trace.name(p.row),
                ts_ns: p.span.start,
                dur_ns: p.span.len(),
                excess_ns: p.excess,
            });
        }
        table.finish()
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

    /// Whether the pauses are a cause, and which.
    fn judge_pauses(&self) -> Option<(CauseKind, StrId)> {
        let total: Ns = self.pauses.iter().map(|p| p.excess).sum();
        if total * 100 < self.trace.capture.len() * PAUSE_PCT {
            return None;
        }
        let mut by_name: BTreeMap<StrId, Ns> = BTreeMap::new();
        for p in &self.pauses {
            *by_name.entry(self.trace.columns.name(p.row as usize)).or_default() += p.excess;
        }
        let (name, most) = by_name.iter().max_by_key(|(_, ns)| **ns).map(|(n, ns)| (*n, *ns))?;
        if let Some(other) = self.holder(total) {
            return Some((CauseKind::HostLock, other));
        }
        let is_one = most * 100 >= total * LOCK_PCT;
        (is_one || by_name.len() >= PAUSE_NAMES)
            .then_some((CauseKind::HostPause, if is_one { name } else { StrId::EMPTY }))
    }

    /// The event of another thread that runs through most of the pauses. A thread in one event all the time may be
    /// blocked, as in a read of a pipe, and then holds nothing: only one whose events change is known to run.
    fn holder(&self, total: Ns) -> Option<StrId> {
        let mut held = 0;
        let mut by_name: BTreeMap<StrId, Ns> = BTreeMap::new();
        for p in &self.pauses {
            let mut best: Option<(Ns, BTreeMap<StrId, Ns>)> = None;
            for (lane, _) in self.trace.threads().iter().filter(|(lane, _)| !self.launching.contains(lane)) {
                let mut works: BTreeMap<StrId, Ns> = BTreeMap::new();
                let mut events: HashSet<u32> = HashSet::new();
                self.names.each_use(self.trace, Some(*lane), p.span, |u| {
                    if let Some(row) = u.row.filter(|_| !matches!(u.activity, "sync_call" | "communication_operator")) {
                        *works.entry(self.trace.columns.name(row as usize)).or_default() += u.span.len();
                        events.insert(row);
                    }
                });
                if events.len() < RUNNING_EVENTS {
                    continue;
                }
                let time: Ns = works.values().sum();
                if best.as_ref().is_none_or(|(most, _)| time > *most) {
                    best = Some((time, works));
                }
            }
            let Some((time, works)) = best else { continue };
            if time * 100 >= p.span.len() * LOCK_PCT {
                held += p.excess;
                works.into_iter().for_each(|(name, ns)| *by_name.entry(name).or_default() += ns);
            }
        }
        let name = by_name.into_iter().max_by_key(|(_, ns)| *ns)?.0;
        // A thread that only waits, as those of a pool do, holds nothing.
        let waits = ["wait", "select", "poll", "sleep", "accept", "acquire", "get"];
        let text = self.trace.text(name);
        let only_waits = waits.iter().any(|w| text.ends_with(w) || text.contains(&format!("{w} of ")));
        (held * 100 >= total * LOCK_PCT && !only_waits).then_some(name)
    }

    /// Divides a span of a thread by the cause that it is assigned to if a device idles meanwhile.
    pub(crate) fn each(&self, lane: Option<u32>, window: Span, mut take: impl FnMut(Span, AssignedHost)) {
        self.names.each_use(self.trace, lane, window, |u| match (u.row, self.main) {
            // A thread without an open event works for nobody: the main thread determines what happens next.
            (None, Some(main)) if lane != Some(main) => {
                self.names.each_use(self.trace, Some(main), u.span, |m| self.divide(Some(main), &m, &mut take));
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

    fn assigned(&self, lane: Option<u32>, u: &HostUse, span: Span) -> AssignedHost {
        let row = u.row.unwrap_or(u32::MAX);
        let name = u.row.map_or(StrId::EMPTY, |r| self.trace.columns.name(r as usize));
        let to = |kind, key| AssignedHost { kind, key, row };
        // Before its first event and after its last one nothing is known of a thread: it may well wait for the device.
        let is_known = |of: &Span| of.start < span.end && span.start < of.end;
        if u.row.is_none() && !lane.and_then(|l| self.known.get(&l)).is_some_and(is_known) {
            return to(CauseKind::NotExplained, StrId::EMPTY);
        }
        if u.activity == "data_loader" {
            return to(CauseKind::DataLoader, name);
        }
        if u.activity == "allocation_call" {
            return to(CauseKind::HostAlloc, name);
        }
        if self.first_uses.contains(&row) {
            return to(CauseKind::WarmUp, name);
        }
        if let Some((kind, key)) = self.pause_kind.filter(|_| self.paused.contains(&row)) {
            return to(kind, key);
        }
        let is_in = |of: &BTreeMap<u32, Union>| {
            lane.and_then(|l| of.get(&l)).is_some_and(|spans| spans.len_in(span) > 0) && is_code(u)
        };
        if is_in(&self.long_code) {
            return to(CauseKind::HostPython, StrId::EMPTY);
        }
        let waits = lane.and_then(|l| self.after_waits.get(&l)).map_or(&[][..], Vec::as_slice);
        let after = waits.get(waits.partition_point(|w| w.span.end <= span.start));
        if let Some(wait) = after.filter(|w| w.span.start <= span.start) {
            return AssignedHost { kind: CauseKind::HostSync, key: self.caller(wait.call), row: wait.call };
        }
        if u.activity == "sync_call" {
            return to(CauseKind::HostSync, u.row.map_or(StrId::EMPTY, |r| self.caller(r)));
        }
        if let Some(kind) = self.copy_calls.get(&row) {
            return to(*kind, name);
        }
        if is_in(&self.code) {
            return to(CauseKind::HostPython, StrId::EMPTY);
        }
        to(CauseKind::HostDispatch, name)
    }

    /// Name of the outermost operator around a call, or the call's own.
    fn caller(&self, call: u32) -> StrId {
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

/// Calls that wait for the device: synchronizing calls, and calls that return when their copy is done.
fn waiting_calls(trace: &RankTrace, names: &HostNames, copies: &[(Copy, Option<CauseKind>)]) -> Vec<u32> {
    let of_copies = copies.iter().filter(|(c, _)| c.blocks == Some(true)).filter_map(|(c, _)| c.call);
    let is_sync = |row: &u32| names.activity(trace, *row) == "sync_call";
    let runtime = trace.host_rows().iter().flat_map(|(_, rows)| rows.iter().copied());
    let syncs = runtime.filter(|r| trace.classes[*r as usize] == Class::Runtime).filter(is_sync);
    let mut all: Vec<u32> = of_copies.chain(syncs).collect();
    all.sort_unstable_by_key(|r| (trace.span(*r).start, *r));
    all.dedup();
    all
}

/// Calls that allocate or free memory while the device only runs communication: they return when it has ended, and the
/// host does not work in them.
fn behind_collectives(trace: &RankTrace, names: &HostNames) -> Vec<u32> {
    let runs = |class: WorkClass| {
        Union::new(trace.devices.iter().filter(|w| w.is_gpu).flat_map(move |w| w.timeline.when(class).spans().to_vec()))
    };
    let (communication, compute) = (runs(WorkClass::Communication), runs(WorkClass::Compute));
    let is_behind = |row: &u32| {
        let span = trace.span(*row);
        span.len() >= ALLOCATION_LONG
            && names.activity(trace, *row) == "allocation_call"
            && communication.len_in(span) * 2 >= span.len()
            && compute.len_in(span) * 10 <= span.len()
    };
    let runtime = trace.host_rows().iter().flat_map(|(_, rows)| rows.iter().copied());
    runtime.filter(|r| trace.classes[*r as usize] == Class::Runtime).filter(is_behind).collect()
}

/// The stretches after calls that waited for the last work of the device: from the call's start until two launches
/// have begun again.
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
        let drained = busy.len_in(Span::new(span.start, span.end)) > 0 && busy.len_in(at_return) < at_return.len();
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
    let is_load =
        |row: &u32| trace.stacks.self_ns(*row).unwrap_or(0) >= FIRST_USE_MIN && !is_graph_launch(trace.name(*row));
    first.filter_map(|a| a.launch()).filter(is_load).collect()
}

/// Events of the threads that stood still, in order of time. The first event of a name is none, because it may have to
/// load code.
fn pauses(trace: &RankTrace, lanes: &BTreeSet<u32>, waits: &HashSet<u32>) -> Vec<Pause> {
    let mut by_name: BTreeMap<StrId, Vec<(u32, u32)>> = BTreeMap::new();
    for (lane, rows) in trace.host_rows().iter().filter(|(lane, _)| lanes.contains(lane)) {
        for &row in rows {
            // A frame that takes long runs code of its own.
            let is_kind = matches!(trace.classes[row as usize], Class::HostOp | Class::Runtime);
            if is_kind && !waits.contains(&row) {
                by_name.entry(trace.columns.name(row as usize)).or_default().push((row, *lane));
            }
        }
    }
    let own = |row: u32| trace.stacks.self_ns(row).unwrap_or(0);
    let mut out = Vec::new();
    for rows in by_name.values() {
        let longest = rows.iter().map(|(r, _)| own(*r)).max().unwrap_or(0);
        if longest < PAUSE_MIN {
            continue;
        }
        let mut times: Vec<Ns> = rows.iter().map(|(r, _)| own(*r)).collect();
        times.sort_unstable();
        let middle = times[(times.len() - 1) / 2];
        // Where most events of a name stand still, the fastest ones show how long it takes.
        let median = if middle < PAUSE_MIN { middle } else { times[(times.len() - 1) / 10] };
        let first = rows.iter().map(|(r, _)| trace.span(*r).start).min();
        for &(row, lane) in rows {
            let (self_time, span) = (own(row), trace.span(row));
            if self_time - median >= PAUSE_MIN && self_time >= PAUSE_TIMES * median && Some(span.start) != first {
                out.push(Pause { row, lane, span, excess: self_time - median });
            }
        }
    }
    out.sort_unstable_by_key(|p| (p.span.start, p.row));
    out
}
