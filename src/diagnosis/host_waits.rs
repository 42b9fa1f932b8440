//! Calls in which a host waits for its device, and what follows them.

use crate::CauseKind;
use hashbrown::{HashMap, HashSet};
use hta_analysis::copies::copy::Copy;
use hta_base::units::{Ns, Span};
use hta_facts::first_calls::FirstCalls;
use hta_facts::host_activity::{ALLOCATION_LONG, HostActivity, HostNames};
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::launch::is_graph_launch;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;

/// A launch call at the first use of its kernel that lasts this long loads it, ns.
const FIRST_USE_MIN: Ns = 1_000_000;

/// A request for memory of this length before the first work of the device sets it up, ns.
const SET_UP_MIN: Ns = 10_000_000;

/// Number of launches after which a queue counts as filled again.
const REFILL: usize = 2;

/// Stretch after a call that waited until the device had nothing left to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct AfterWait {
    pub(super) span: Span,
    pub(super) call: u32,
    /// Name of the outermost operator around the call.
    pub(super) caller: StrId,
}

/// Calls that wait for the device: synchronizing calls, and calls that return when their copy is done.
pub(super) fn waiting_calls(
    trace: &RankTrace,
    names: &HostNames,
    copies: &[(Copy, Option<CauseKind>)],
) -> Vec<u32> {
    let of_copies = copies.iter().filter(|(c, _)| c.blocks == Some(true)).filter_map(|(c, _)| c.call);
    let syncs =
        names.calls(trace).filter(|(_, activity)| *activity == HostActivity::SyncCall).map(|(row, _)| row);
    let mut all: Vec<u32> = of_copies.chain(syncs).collect();
    all.sort_unstable_by_key(|r| (trace.span(*r).start, *r));
    all.dedup();
    all
}

/// Calls that allocate or free memory while the device only runs communication: they return when it has
/// ended, and the host does not work in them.
pub(super) fn behind_collectives(trace: &RankTrace, names: &HostNames) -> Vec<u32> {
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
    let allocations = names
        .calls(trace)
        .filter(|(_, activity)| *activity == HostActivity::AllocationCall)
        .map(|(row, _)| row);
    allocations.filter(is_behind).collect()
}

/// The stretches after calls that waited for the last work of the device: from the call's start until two
/// launches have begun again.
pub(super) fn after_waits(
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
        // What follows a call that found nothing to wait for belongs to it, if another operator waited
        // before.
        let is_next = |last: &AfterWait| {
            let own = caller(trace, call);
            last.span.holds(span.start) && own != last.caller && own != trace.columns.name(call as usize)
        };
        if !drained && !out.get(&lane).and_then(|of| of.last()).is_some_and(is_next) {
            continue;
        }
        let later = launches.get(&lane).map_or(&[][..], |l| &l[l.partition_point(|s| s.start < span.end)..]);
        let until = later.get(REFILL - 1).map_or(span.end, |s| s.end);
        let of_lane = out.entry(lane).or_default();
        if let Some(last) = of_lane.last_mut() {
            last.span.end = last.span.end.min(span.start);
        }
        of_lane.push(AfterWait { span: Span::new(span.start, until), call, caller: caller(trace, call) });
    }
    out.values_mut().for_each(|waits| waits.retain(|w| !w.span.is_empty()));
    out
}

/// Launch calls that take long because their kernel is used for the first time, so that it has to be loaded,
/// the calls that load it, and long calls that set a library or a device up.
pub(super) fn first_uses(trace: &RankTrace, names: &HostNames, busy: &Union) -> HashSet<u32> {
    let mut seen: HashSet<StrId> = HashSet::new();
    let first = trace.activities.iter().filter(|a| a.class == Class::Kernel && seen.insert(a.name));
    // A graph is uploaded at its first launch, whatever its kernels are.
    let is_load = |row: &u32| {
        trace.stacks.self_ns(*row).unwrap_or(0) >= FIRST_USE_MIN && !is_graph_launch(trace.name(*row))
    };
    let loads =
        trace.columns.strings.each(|name| name.contains("LibraryLoad") || name.contains("ModuleLoad"));
    let is_load_call = |row: &u32| {
        trace.classes[*row as usize] == Class::Runtime && loads.holds(trace.columns.name(*row as usize))
    };
    let has_loads = loads.any(|is| *is);
    let rows = trace.host_rows().iter().filter(|_| has_loads).flat_map(|(_, rows)| rows).copied();
    let calls = rows.filter(is_load_call);
    let first_work = busy.spans().first().map_or(Ns::MAX, |s| s.start);
    // Short calls are the most: what else they are is not asked.
    let is_long =
        |row: &u32| trace.classes[*row as usize] == Class::Runtime && trace.span(*row).len() >= FIRST_USE_MIN;
    let may_set_up = |row: u32| {
        let span = trace.span(row);
        match names.activity(trace, row) {
            HostActivity::AllocationCall if span.len() >= SET_UP_MIN && span.start < first_work => {
                Some((row, true))
            }
            HostActivity::AllocationCall | HostActivity::RuntimeCall => {
                Some((row, FirstCalls::of(trace).are_around(trace, row)))
            }
            _ => None,
        }
    };
    let rows = trace.host_rows().iter().flat_map(|(_, rows)| rows).copied();
    let long: Vec<(u32, bool)> = rows.filter(is_long).filter_map(may_set_up).collect();
    // A call that takes half as long elsewhere does not set something up once.
    let mut again: HashMap<StrId, Ns> = HashMap::new();
    for (row, _) in long.iter().filter(|(_, is_first)| !is_first) {
        let most = again.entry(trace.columns.name(*row as usize)).or_default();
        *most = trace.span(*row).len().max(*most);
    }
    let is_once = |row: &u32| {
        let most = again.get(&trace.columns.name(*row as usize));
        most.is_none_or(|ns| ns * 2 < trace.span(*row).len())
    };
    let set_up = long.iter().filter(|(_, is_first)| *is_first).map(|(row, _)| *row).filter(is_once);
    first.filter_map(|a| a.launch()).filter(is_load).chain(calls).chain(set_up).collect()
}

/// Name of the outermost operator around a call, or the call's own.
pub(super) fn caller(trace: &RankTrace, call: u32) -> StrId {
    let class = |row: &u32| trace.classes[*row as usize];
    let is_inside = |row: &u32| matches!(class(row), Class::HostOp | Class::Runtime);
    let around = trace.stacks.outward(call).skip(1).take_while(is_inside);
    let named = around.filter(|row| class(row) == Class::HostOp).last().unwrap_or(call);
    trace.columns.name(named as usize)
}
