//! Assigns the idle time and the exposed copies of one rank's devices to causes, window by window.
//!
//! ```text
//!   device     [=====)...................[==)
//!   host             |loader |op|launch|
//!   assigned          LLLLLLLL DDDDDDDD DD          the wait from launch to start belongs to what came before it
//! ```

use crate::copies::copy::{Copy, copies};
use crate::diagnosis::CauseKind;
use crate::diagnosis::awaited_copies::copy_pieces;
use crate::diagnosis::callbacks::by_callback;
use crate::diagnosis::compilers::{AGAIN, FIRST_STEPS};
use crate::diagnosis::copy_times::{self, CopyTimes};
use crate::diagnosis::host::{AssignedHost, HostSide};
use crate::diagnosis::host_time::{HostTimes, LostHostTime};
use crate::diagnosis::host_waits::caller;
use crate::diagnosis::piece::{LostPiece, frame_of};
use crate::diagnosis::role_gaps;
use crate::diagnosis::serving;
use crate::diagnosis::set_up::by_set_up;
use crate::facts::gaps::{Classifier, Gap, GapCause};
use crate::facts::lines::{CodePlace, CodePlaces};
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::window::Window;
use std::cmp::Reverse;
use std::collections::BTreeMap;

table! {
    /// Idle time and exposed copies of a device in a window, by the cause that owns it.
    pub(crate) struct LostTime, LostTimeRow = "lost_time" by "rank, device, scope, step, part, cause, key" {
        rank; device; scope; step; step_label;
        part: Text, "", "i: nothing runs; m: copies";
        cause: Text, "", "kind of cause";
        key: Text, "", "what it is about";
        detail: Text, "", "the frame, where recorded";
        place: Text, "", "the function of the user around most of it, where recorded";
        time_ns: i64, "ns", "owned time";
        count: u64, "", "gaps or copies";
    }
}

/// Number of keys of a kind that a window keeps; the rest is summed.
const KEYS: usize = 8;

/// The detail of that sum, whose key is empty. Time in which no event is open has neither.
pub(crate) const OTHER_NAMES: &str = "other names";

/// Share of the code outside operators from which a frame stands for it, percent.
const FRAME_PCT: Ns = 50;

/// Share of the largest such frame that a frame inside it must hold to be nearly the same, percent.
const NEAR_PCT: Ns = 90;

/// All copies of a rank's devices, with their cause.
pub(crate) fn ways(trace: &RankTrace) -> Vec<(Copy, Option<CauseKind>)> {
    let all = trace.devices.iter().filter(|w| w.is_gpu).flat_map(|w| copies(trace, w));
    let way = |c: &Copy| CauseKind::all_lost().find(|(_, rule)| (rule.of_copy)(c)).map(|(kind, _)| kind);
    all.map(|c| (c, way(&c))).collect()
}

/// Adds the rows of a device, and returns the pieces of its idle time. `link` is the peak of its link to the
/// host, bytes per ns.
pub(crate) fn push(
    trace: &RankTrace,
    work: &DeviceWork,
    host: &HostSide,
    ways: &[(Copy, Option<CauseKind>)],
    (windows, kernel_wait_max, link): (&[Window], Ns, Option<f64>),
    (lost, times, carried): (&mut LostTime, &mut LostHostTime, &mut CopyTimes),
) -> Vec<LostPiece> {
    let classifier = Classifier::of_device(trace, work, kernel_wait_max);
    let gaps: Vec<Gap> = work
        .timeline
        .busy()
        .gaps_in(work.capture)
        .into_iter()
        .map(|span| classifier.classify(span))
        .collect();
    let thread = classifier.default_thread;
    let mut host_times = HostTimes::new(trace, host, thread, windows);
    let mut idle = by_callback(trace, work, idle_pieces(&gaps, host, (thread, &mut host_times)));
    host_times.push(times, trace, work);
    if trace.steps.are_iterations() {
        idle = serving::by_part_of_iteration(trace, work, idle);
    }
    idle = role_gaps::by_role(trace, idle);
    idle = by_set_up(trace, work, idle);
    let around = name_code(trace, &mut idle);
    let (copies, pageable) = copy_pieces(trace, work, ways, &host.waits);
    copy_times::push(carried, trace, (work, link), ways, (&pageable, windows));
    for w in windows {
        for (part, pieces) in [("i", &idle), ("m", &copies)] {
            push_window(lost, trace, work, w, (part, pieces), around);
        }
    }
    idle
}

/// The idle time of a device, cut by owner, while its gaps are walked.
struct GapPieces<'a> {
    trace: &'a RankTrace,
    pieces: Vec<LostPiece>,
    /// Index of the first piece of the present gap.
    first: usize,
    /// The frame around an event, and the place in the user's code.
    frames: HashMap<u32, (StrId, CodePlace)>,
    places: CodePlaces<'a>,
}

impl GapPieces<'_> {
    /// Adds a piece of the host's part of the present gap.
    fn add(&mut self, span: Span, AssignedHost { kind, key, row }: AssignedHost) {
        let find = || (frame_of(self.trace, row), self.places.of(row));
        let (detail, place) = *self.frames.entry(row).or_insert_with(find);
        let row = if kind == CauseKind::HostPython { row } else { u32::MAX };
        self.pieces.push(LostPiece { span, kind, key, detail, place, row });
    }

    /// Adds what is left of the present gap behind the host's part.
    fn end(&mut self, gap: &Gap) {
        let span = Span::new(gap.host_until, gap.span.end);
        // The time from the launch to the start belongs to what delayed the launch.
        let last = self.pieces[self.first..].last().filter(|_| gap.rest == GapCause::KernelWait);
        let owned = last.map_or(LostPiece::unexplained(span), |p| LostPiece { span, ..*p });
        self.pieces.extend((!span.is_empty()).then_some(owned));
        self.first = self.pieces.len();
    }
}

/// The gaps of a device, cut by owner. The thread that launches most of the device's work is walked once, for
/// its gaps and for the sums of its time.
fn idle_pieces(
    gaps: &[Gap],
    host: &HostSide,
    (thread, times): (Option<u32>, &mut HostTimes),
) -> Vec<LostPiece> {
    let host_part = |gap: &Gap| Span::new(gap.span.start, gap.host_until);
    let is_of_thread = |gap: &&Gap| gap.thread == thread || host_part(gap).is_empty();
    let (of_thread, of_others): (Vec<&Gap>, Vec<&Gap>) = gaps.iter().partition(is_of_thread);
    let mut found = GapPieces {
        trace: host.trace,
        pieces: Vec::new(),
        first: 0,
        frames: HashMap::default(),
        places: CodePlaces::new(host.trace),
    };
    let mut next = 0;
    let all = || times.spans().chain(of_thread.iter().map(|gap| host_part(gap)));
    if let Some((start, end)) = all().map(|s| s.start).min().zip(all().map(|s| s.end).max()) {
        host.each(thread, Span::new(start, end), |span, assigned| {
            times.count(span, assigned.kind);
            while let Some(gap) = of_thread.get(next).filter(|gap| gap.span.start < span.end) {
                let part = host_part(gap).intersect(span);
                if !part.is_empty() {
                    found.add(part, assigned);
                }
                if gap.host_until > span.end {
                    break;
                }
                found.end(gap);
                next += 1;
            }
        });
    }
    of_thread[next..].iter().for_each(|gap| found.end(gap));
    for gap in &of_others {
        host.each(gap.thread, host_part(gap), |span, assigned| found.add(span, assigned));
        found.end(gap);
    }
    let mut pieces = found.pieces;
    if !of_others.is_empty() {
        pieces.sort_by_key(|p| p.span.start);
    }
    pieces
}

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
fn name_code(trace: &RankTrace, pieces: &mut [LostPiece]) -> StrId {
    let is_code = |p: &LostPiece| p.kind == CauseKind::HostPython;
    let total: Ns = pieces.iter().filter(|p| is_code(p)).map(|p| p.span.len()).sum();
    let inclusive = code_by_event(trace, pieces.iter().filter(|p| is_code(p) && p.row != u32::MAX));
    let is_named = |r: u32| match trace.classes[r as usize] {
        Class::Python => trace.name(r).contains(".py("),
        Class::HostOp => true,
        Class::Annotation => !trace.steps.steps.iter().any(|s| s.name == trace.columns.name(r as usize)),
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
    for p in pieces.iter_mut().filter(|p| is_code(p)) {
        let is_of = |_: &StrId| is_below.as_ref().is_some_and(|rows| rows.get(&p.row) == Some(&true));
        p.key = named.filter(is_of).unwrap_or(StrId::EMPTY);
        p.detail = if p.key == StrId::EMPTY { p.detail } else { caller };
    }
    around
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

/// Adds the rows of a window. `around` holds nearly all named code.
fn push_window(
    table: &mut LostTime,
    trace: &RankTrace,
    work: &DeviceWork,
    w: &Window,
    (part, pieces): (&str, &[LostPiece]),
    around: StrId,
) {
    let mut sums: HashMap<(CauseKind, StrId, StrId), PieceSum> = HashMap::new();
    for span in &w.parts {
        let first = pieces.partition_point(|p| p.span.end <= span.start);
        for p in pieces[first..].iter().take_while(|p| p.span.start < span.end) {
            let sum = sums.entry((p.kind, p.key, p.detail)).or_default();
            sum.add(p, p.span.intersect(*span).len());
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|((kind, name, detail), sum)| {
        (*kind, Reverse(sum.time), trace.text(*name), trace.text(*detail))
    });
    for of_kind in sums.chunk_by(|((a, ..), _), ((b, ..), _)| a == b) {
        let (largest, others) = of_kind.split_at(of_kind.len().min(KEYS));
        let rest = others.iter().fold(PieceSum::default(), |sum, (_, of)| PieceSum {
            time: sum.time + of.time,
            count: sum.count + of.count,
            ..sum
        });
        let rest = largest
            .first()
            .filter(|_| rest.count > 0)
            .map(|((kind, ..), _)| ((*kind, StrId::EMPTY, StrId::EMPTY), rest, OTHER_NAMES));
        // What is compiled again, and what once, are two causes, whatever the names.
        let again = w.step.filter(|s| *s as usize >= FIRST_STEPS).map_or("", |_| AGAIN);
        let largest = largest.iter().map(|(key, sum)| (*key, *sum, trace.text(key.2)));
        for ((kind, name, _), sum, detail) in largest.chain(rest) {
            table.push(LostTimeRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                part,
                cause: kind.name(),
                key: trace.text(name),
                detail: if kind == CauseKind::HostCompile { again } else { detail },
                place: &place_of(trace, kind, [around, name], &sum),
                time_ns: sum.time,
                count: sum.count,
            });
        }
    }
}

/// The place of pieces. That of named code is the user's function around nearly all of it, or that it is
/// named by, or else the user's that calls it most; that of copies outside functions of the user is their
/// operator.
fn place_of(trace: &RankTrace, kind: CauseKind, functions: [StrId; 2], sum: &PieceSum) -> String {
    let [_, name] = functions;
    let most = sum.place;
    if kind == CauseKind::HostPython && name != StrId::EMPTY {
        let of_user = functions.into_iter().find_map(|f| CodePlace::of_user_function(trace, f));
        let called = of_user.or_else(|| (!most.is_empty()).then_some(most));
        return called.or_else(|| CodePlace::of_function(trace, name)).unwrap_or(most).text(trace);
    }
    let place = most.text(trace);
    if kind != CauseKind::CopyExposed || !place.is_empty() || sum.row == u32::MAX {
        return place;
    }
    let operator = caller(trace, sum.row);
    let is_call = operator == trace.columns.name(sum.row as usize);
    if is_call { place } else { trace.text(operator).to_string() }
}

/// Pieces of lost time with one owner, name and frame.
#[derive(Debug, Clone, Copy, Default)]
struct PieceSum {
    time: Ns,
    count: u64,
    /// Those of the longest piece, and its length.
    place: CodePlace,
    row: u32,
    longest: Ns,
}

impl PieceSum {
    fn add(&mut self, piece: &LostPiece, time: Ns) {
        self.time += time;
        self.count += 1;
        if time > self.longest {
            (self.place, self.row, self.longest) = (piece.place, piece.row, time);
        }
    }
}
