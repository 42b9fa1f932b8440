//! Names code outside operators by the function, range or operator that holds most of it.

use crate::CauseKind;
use crate::host_ranges::QUIET_MIN;
use crate::piece::LostPiece;
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_facts::host_activity::HostNames;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of the code outside operators from which a frame stands for it, percent.
const FRAME_PCT: Ns = 50;

/// Share of the largest such frame that a frame inside it must hold to be nearly the same, percent.
const NEAR_PCT: Ns = 90;

/// Share of the capture from which long pieces in events of one name are a cause of their own, percent.
const OWN_PCT: Ns = 2;

/// Code below the frames of one name.
#[derive(Default)]
struct FrameTime {
    code: Ns,
    /// Sum of depth times ns.
    depth: i128,
    /// Length of the frames, ns.
    own: Ns,
}

/// Share of the capture from which a single range around launches is one around everything, percent.
const AROUND_PCT: Ns = 90;

/// Names code outside operators by the innermost frame, annotation or operator that holds at least half of it
/// in all its calls, and that is itself such code for at least half of its time. Returns the innermost one
/// around it that holds nearly all, if it is another. The detail of code with a name is who calls it.
/// Long pieces that are left, from `long` ns on, are named by their own event if its name has enough of
/// them.
pub(super) fn name_code(trace: &RankTrace, pieces: &mut [LostPiece], long: Ns) -> StrId {
    let is_code = |p: &LostPiece| p.kind == CauseKind::HostPython;
    let total: Ns = pieces.iter().filter(|p| is_code(p)).map(|p| p.span.len()).sum();
    let inclusive = code_by_event(trace, pieces.iter().filter(|p| is_code(p) && p.row != u32::MAX));
    let steps = HostNames::of(trace);
    let is_named = |r: u32| match trace.classes[r as usize] {
        Class::Python => trace.name(r).contains(".py(") || trace.name(r).starts_with("nn.Module: "),
        Class::HostOp => true,
        Class::Annotation => !steps.is_step(trace, r),
        _ => false,
    };
    let name = |r: u32| trace.columns.name(r as usize);
    let mut frames: BTreeMap<StrId, FrameTime> = BTreeMap::new();
    let mut by_name: HashMap<StrId, Ns> = HashMap::new();
    inclusive.iter().for_each(|(row, code)| *by_name.entry(name(*row)).or_default() += code);
    by_name.retain(|_, code| *code > 0 && *code * 100 >= total * FRAME_PCT);
    for (&row, &code) in inclusive.iter().filter(|(row, _)| by_name.contains_key(&name(**row))) {
        // A frame that calls itself counts once.
        if is_named(row)
            && !is_around_all(trace, row)
            && !trace.stacks.outward(row).skip(1).any(|r| name(r) == name(row))
        {
            let frame = frames.entry(name(row)).or_default();
            frame.code += code;
            frame.depth += i128::from(code) * i128::from(trace.stacks.depth(row).unwrap_or(0));
            frame.own += trace.span(row).intersect(trace.capture).len();
        }
    }
    // A frame that runs operators most of the time, such as the loop over steps, explains nothing.
    let is_heavy = |f: &FrameTime| f.code * 100 >= total * FRAME_PCT && f.code * 100 >= f.own * FRAME_PCT;
    let most = frames.values().filter(|f| is_heavy(f)).map(|f| f.code).max().unwrap_or(0);
    let depth = |f: &FrameTime| f.depth / i128::from(f.code.max(1));
    let innermost = |share: Ns| {
        let heavy = frames.iter().filter(|(_, f)| is_heavy(f) && f.code * 100 >= most * share);
        heavy.max_by_key(|(name, f)| (depth(f), f.code, Reverse(**name))).map(|(name, _)| *name)
    };
    // The innermost says what to repair; the innermost of those that hold nearly all of the time says where.
    let named = innermost(0);
    let around = innermost(NEAR_PCT).filter(|name| Some(*name) != named).unwrap_or(StrId::EMPTY);
    let caller = named.and_then(|of| caller_of_many(trace, of, &inclusive)).unwrap_or(StrId::EMPTY);
    let is_below = named.map(|of| below(trace, of, pieces.iter().filter(|p| is_code(p)).map(|p| p.row)));
    // A shorter piece of an event that does much else stands for nothing.
    let is_long = |p: &LostPiece| {
        let is_most = || p.span.len() >= long && p.span.len() * 2 >= trace.span(p.row).len();
        p.row != u32::MAX && is_named(p.row) && (p.span.len() >= QUIET_MIN || is_most())
    };
    let mut of_long: HashMap<StrId, Ns> = HashMap::new();
    for p in pieces.iter().filter(|p| is_code(p) && p.key == StrId::EMPTY && is_long(p)) {
        *of_long.entry(name(p.row)).or_default() += p.span.len();
    }
    of_long.retain(|_, ns| *ns * 100 >= trace.capture.len() * OWN_PCT);
    for p in pieces.iter_mut().filter(|p| is_code(p)) {
        let is_of = |_: &StrId| is_below.as_ref().is_some_and(|rows| rows.get(&p.row) == Some(&true));
        if let Some(name) = named.filter(is_of) {
            (p.key, p.detail) = (name, caller);
        } else if p.key == StrId::EMPTY && is_long(p) && of_long.contains_key(&name(p.row)) {
            (p.key, p.detail) = (name(p.row), StrId::EMPTY);
        } else if p.key == StrId::EMPTY {
            p.detail = innermost_of(trace, p);
        }
    }
    around
}

/// What code without a name is in: an operator or a built-in function of its own, or else the function
/// around.
fn innermost_of(trace: &RankTrace, piece: &LostPiece) -> StrId {
    let is_own = |row: u32| match trace.classes[row as usize] {
        Class::HostOp => true,
        Class::Python => trace.name(row).starts_with("<built-in"),
        _ => false,
    };
    let own = Some(piece.row).filter(|row| *row != u32::MAX && is_own(*row));
    own.map_or(piece.detail, |row| trace.columns.name(row as usize))
}

/// Of a function that is called more than twice a step, the function that calls it for most of the time.
fn caller_of_many(trace: &RankTrace, name: StrId, inside: &HashMap<u32, Ns>) -> Option<StrId> {
    let of_row = |row: u32| trace.columns.name(row as usize);
    let calls = || inside.iter().filter(|(row, _)| of_row(**row) == name);
    if calls().count() <= 2 * trace.steps.steps.len().max(1) {
        return None;
    }
    let mut callers: BTreeMap<StrId, Ns> = BTreeMap::new();
    for (row, ns) in calls() {
        if let Some(caller) = trace.stacks.parent(*row).map(of_row).filter(|caller| *caller != name) {
            *callers.entry(caller).or_default() += ns;
        }
    }
    callers.into_iter().max_by_key(|(name, ns)| (*ns, Reverse(*name))).map(|(name, _)| name)
}

/// Whether an event is a range around everything that is recorded, which says nothing about a part of it.
fn is_around_all(trace: &RankTrace, row: u32) -> bool {
    let (span, lane) = (trace.span(row), trace.columns.lane[row as usize]);
    let launches = |(call, _): (u32, _)| {
        trace.columns.lane[call as usize] == lane && span.holds(trace.columns.ts[call as usize])
    };
    trace.classes[row as usize] == Class::Annotation
        && span.intersect(trace.capture).len() * 100 >= trace.capture.len() * AROUND_PCT
        && trace.launches().iter().any(launches)
}

/// Of some events and those around them, whether they are or lie below one of a name.
fn below(trace: &RankTrace, name: StrId, rows: impl Iterator<Item = u32>) -> HashMap<u32, bool> {
    let mut known: HashMap<u32, bool> = HashMap::new();
    let mut path = Vec::new();
    for row in rows.filter(|row| *row != u32::MAX) {
        let mut is_below = false;
        for at in trace.stacks.outward(row) {
            if let Some(found) = known.get(&at) {
                is_below = *found;
                break;
            }
            path.push(at);
            is_below = trace.columns.name(at as usize) == name;
            if is_below {
                break;
            }
        }
        known.extend(path.drain(..).map(|at| (at, is_below)));
    }
    known
}

/// Time of pieces inside events.
struct TimeInside<'a> {
    trace: &'a RankTrace,
    by_event: HashMap<u32, Ns>,
    /// The events that hold any, by depth.
    at_depth: Vec<Vec<u32>>,
}

impl TimeInside<'_> {
    fn depth(&self, row: u32) -> usize {
        self.trace.stacks.depth(row).unwrap_or(0) as usize
    }

    fn add(&mut self, row: u32, ns: Ns) {
        let sum = self.by_event.entry(row).or_default();
        let is_new = *sum == 0;
        *sum += ns;
        if is_new {
            let depth = self.depth(row);
            self.at_depth.resize_with(self.at_depth.len().max(depth + 1), Vec::new);
            self.at_depth[depth].push(row);
        }
    }
}

/// By row of an event, the time of the pieces inside it.
fn code_by_event<'a>(trace: &RankTrace, pieces: impl Iterator<Item = &'a LostPiece>) -> HashMap<u32, Ns> {
    let mut inside = TimeInside { trace, by_event: HashMap::new(), at_depth: Vec::new() };
    for p in pieces {
        inside.add(p.row, p.span.len());
    }
    // From the deepest events outwards: each adds its time to its parent's.
    for level in (0..inside.at_depth.len()).rev() {
        for row in std::mem::take(&mut inside.at_depth[level]) {
            if let Some(parent) = trace.stacks.parent(row).filter(|p| inside.depth(*p) < level) {
                inside.add(parent, inside.by_event[&row]);
            }
        }
    }
    inside.by_event
}
