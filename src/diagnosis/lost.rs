//! Assigns the idle time and the exposed copies of one rank's devices to causes, window by window.
//!
//! ```text
//!   device     [=====)...................[==)
//!   host             |loader |op|launch|
//!   assigned          LLLLLLLL DDDDDDDD DD          the wait from launch to start belongs to what came before it
//! ```

use crate::CauseKind;
use crate::awaited_copies::copy_pieces;
use crate::callbacks::by_callback;
use crate::compilers::{AGAIN, FIRST_STEPS};
use crate::copy_times::{self, CopyTimes};
use crate::host::{AssignedHost, HostSide};
use crate::host_time::{HostTimes, LostHostTime};
use crate::host_waits::caller;
use crate::named_code::name_code;
use crate::piece::{LostPiece, frame_of};
use crate::role_gaps;
use crate::serving;
use crate::set_up::{by_set_up, end_of_set_up};
use hashbrown::HashMap;
use hta_analysis::copies::copy::{Copy, copies};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_facts::gaps::{Classifier, Gap, GapCause};
use hta_facts::lines::{CodePlace, CodePlaces};
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::window::Window;
use std::cmp::Reverse;

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
    host_times.push(times, work);
    if trace.steps.are_iterations() {
        idle = serving::by_part_of_iteration(trace, work, idle);
    }
    idle = role_gaps::by_role(trace, idle);
    let end = end_of_set_up(trace, work);
    idle = by_set_up(end, idle);
    let around = name_code(trace, &mut idle, host.long);
    let (copies, pageable) = copy_pieces(trace, work, ways, &host.waits);
    let copies = by_set_up(end, copies);
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
            times.count(span, assigned.kind, assigned.row);
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
    for span in w.parts() {
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
