//! The account of time on an axis: what each device did in each step, one block after the other, and the
//! longest waits for other ranks.
//!
//! Blocks are made while a rank is mapped and leave it at once; their number is bounded for each rank. Waits
//! are known only when ranks are joined.

mod block;
mod waits;

pub use block::{BlockPart, TimelineBlock, merge};
pub use waits::{TimelineWaits, waits};

use crate::CauseKind;
use crate::piece::LostPiece;
use hashbrown::HashMap;
use hta_analysis::copies::copy::Copy;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use hta_trace::window::{Scope, Window};
use std::cmp::Reverse;

table! {
    /// What a device did in a step, block after block. Blocks of a step follow one another without a gap and
    /// sum to its window as the account of time does. Of many steps only the longest and some between them
    /// are kept; short neighbours share a block.
    pub struct TimelineTable, TimelineRow = "timeline" by "rank, device, step, ts_ns" {
        rank; device;
        step: Option<u32>, "",
            "index of the step in time; null: the trace has no steps, and the block is of the span";
        step_label;
        ts_ns: i64, "ns", "start, on the rank's own clock";
        dur_ns: i64, "ns", "length: the sum of the parts";
        part: Text, "",
            "part of the longest piece in it: compute, fused, communication (not hidden), memory (copies and \
             sets) or idle";
        cause: Option<Text>, "",
            "kind of cause that owns the longest piece, if it is idle or a copy; waiting for ranks is in \
             timeline_waits";
        name: Option<Text>, "",
            "kernel or copy that is the longest piece, on a CPU-only rank the outermost operator or range; \
             for idle time the frame, loader or call that it is about";
        count: u32, "", "pieces that share the block";
        longest_ns: i64, "ns", "length of the longest piece";
        compute_ns: i64, "ns", "compute runs";
        communication_ns: i64, "ns", "communication runs, and no compute";
        memory_ns: i64, "ns", "only copies and sets run";
        idle_ns: i64, "ns", "nothing runs";
        fused_ns: i64, "ns", "fused kernels (exchange and product in one) run, and no compute";
    }
}

/// Largest number of blocks of a rank.
const BLOCKS: usize = 4_096;

/// Largest number of steps of a rank that have blocks.
const STEPS: usize = 16;

/// Part of them that are chosen for their length; the others are spread over the recording.
const LONGEST: usize = 8;

/// What a piece is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PieceLabel {
    name: StrId,
    cause: Option<CauseKind>,
}

/// A device's idle time and exposed copies, by the cause that owns them.
pub(crate) struct OwnedIdle<'a> {
    /// In order of time; they cover all idle time of the device's capture.
    pub(crate) idle: &'a [LostPiece],
    pub(crate) ways: &'a [(Copy, Option<CauseKind>)],
}

/// Adds the blocks of a device. `windows` are those of the account.
pub(crate) fn push(
    table: &mut TimelineTable,
    trace: &RankTrace,
    work: &DeviceWork,
    owned: &OwnedIdle,
    windows: &[Window],
) {
    let chosen = chosen(trace, windows);
    let most = BLOCKS / (trace.devices.len() * chosen.len()).max(1);
    let running = running(trace, work, owned.ways);
    for w in chosen {
        let inside = w.parts().iter().flat_map(|span| {
            let (runs, idle) =
                (from(&running, span.start, |p| p.span), from(owned.idle, span.start, |p| p.span));
            let near = DeviceTime { running: runs, idle }.take_while(|p| p.span.start < span.end);
            near.map(|p| TimelinePiece { span: p.span.intersect(*span), ..p })
        });
        let blocks = inside.map(|p| TimelineBlock::of_piece(p.span.start, p.span.len(), p.part, p.label));
        for b in merge(blocks, most) {
            let (longest_ns, part, label) = b.longest;
            let [compute_ns, communication_ns, memory_ns, idle_ns, fused_ns] = b.times;
            table.push(TimelineRow {
                rank: trace.rank,
                device: work.device,
                step: w.step,
                step_label: w.label,
                ts_ns: b.start,
                dur_ns: b.duration(),
                part: part.name(),
                cause: label.cause.map(CauseKind::name),
                name: Some(trace.text(label.name)).filter(|text| !text.is_empty()),
                count: b.count,
                longest_ns,
                compute_ns,
                communication_ns,
                memory_ns,
                idle_ns,
                fused_ns,
            });
        }
    }
}

/// The windows that have blocks: full steps, or else all; without marked steps the span, as in the account.
fn chosen<'a>(trace: &RankTrace, windows: &'a [Window]) -> Vec<&'a Window> {
    let steps: Vec<&Window> = windows.iter().filter(|w| w.scope != Scope::Span).collect();
    let is_unmarked =
        !trace.steps.are_iterations() && matches!(steps.as_slice(), [one] if one.label.is_none());
    if steps.is_empty() || is_unmarked {
        return windows.iter().filter(|w| w.scope == Scope::Span).collect();
    }
    let full: Vec<&Window> = steps.iter().copied().filter(|w| w.is_partial == Some(false)).collect();
    let steps = if full.is_empty() { steps } else { full };
    let lengths: Vec<Ns> = steps.iter().map(|w| w.len()).collect();
    kept(&lengths).into_iter().filter_map(|i| steps.get(i).copied()).collect()
}

/// Indices of the steps that are kept, given the lengths of all: the longest, and others spread evenly, in
/// order of time.
fn kept(lengths: &[Ns]) -> Vec<usize> {
    if lengths.len() <= STEPS {
        return (0..lengths.len()).collect();
    }
    let mut by_length: Vec<usize> = (0..lengths.len()).collect();
    by_length.sort_by_key(|i| (Reverse(lengths[*i]), *i));
    let mut out: Vec<usize> = by_length.split_off(LONGEST);
    out.sort_unstable();
    let spread = STEPS - LONGEST;
    out = (0..spread).map(|k| out[k * (out.len() - 1) / (spread - 1)]).collect();
    out.extend(by_length);
    out.sort_unstable();
    out
}

/// A stretch of a device's time.
#[derive(Debug, Clone, Copy)]
struct TimelinePiece {
    span: Span,
    part: BlockPart,
    label: PieceLabel,
}

/// Those that end after an instant, of some that are in order and do not overlap.
fn from<T>(all: &[T], instant: Ns, span: impl Fn(&T) -> Span) -> &[T] {
    &all[all.partition_point(|p| span(p).end <= instant)..]
}

/// All of a device's time: when something runs and when it idles, which do not overlap.
#[derive(Clone)]
struct DeviceTime<'a> {
    running: &'a [TimelinePiece],
    idle: &'a [LostPiece],
}

impl Iterator for DeviceTime<'_> {
    type Item = TimelinePiece;

    fn next(&mut self) -> Option<TimelinePiece> {
        let of_idle = |p: &LostPiece| {
            let name = if p.detail == StrId::EMPTY { p.key } else { p.detail };
            TimelinePiece {
                span: p.span,
                part: BlockPart::Idle,
                label: PieceLabel { name, cause: Some(p.kind) },
            }
        };
        match (self.running.split_first(), self.idle.split_first()) {
            (Some((run, later)), idle) if idle.is_none_or(|(p, _)| run.span.start <= p.span.start) => {
                self.running = later;
                Some(*run)
            }
            (_, idle) => {
                let (next, later) = idle?;
                self.idle = later;
                Some(of_idle(next))
            }
        }
    }
}

/// The time of a device by what runs, in order, without overlap.
fn running(trace: &RankTrace, work: &DeviceWork, ways: &[(Copy, Option<CauseKind>)]) -> Vec<TimelinePiece> {
    let compute = work.timeline.when(WorkClass::Compute);
    let communication = work.timeline.when(WorkClass::Communication);
    let fused = work.timeline.when(WorkClass::Fused);
    let products = Union::new(compute.spans().iter().chain(fused.spans()).copied());
    let above = Union::new(products.spans().iter().chain(communication.spans()).copied());
    let none = Union::default();
    let ways: HashMap<u32, CauseKind> =
        ways.iter().filter_map(|(c, kind)| Some((c.activity, (*kind)?))).collect();
    let host = if work.is_gpu { Vec::new() } else { host_runs(trace) };
    let mut out: Vec<TimelinePiece> = Vec::new();
    for (class, part, hidden) in [
        (WorkClass::Compute, BlockPart::Compute, &none),
        (WorkClass::Fused, BlockPart::Fused, &compute),
        (WorkClass::Communication, BlockPart::Communication, &products),
        (WorkClass::Memory, BlockPart::Memory, &above),
    ] {
        let when = work.timeline.when(class);
        let runs = match work.is_gpu {
            true => first_running(device_runs(trace, work), class),
            false => first_running(host.iter().copied(), class),
        };
        for run in runs {
            let cause =
                run.activity.filter(|_| part == BlockPart::Memory).and_then(|i| ways.get(&i).copied());
            let label = PieceLabel { name: run.name, cause };
            // Calls of a runtime inside an operator of a CPU-only rank are no work.
            let of_run = match work.is_gpu {
                true => vec![run.span],
                false => when.parts_in(run.span).collect(),
            };
            out.extend(of_run.into_iter().flat_map(|s| hidden.gaps_in(s)).map(|span| TimelinePiece {
                span,
                part,
                label,
            }));
        }
    }
    out.sort_by_key(|p| p.span.start);
    out
}

/// Work of a device, or an operator, call or communication range of a CPU-only rank.
#[derive(Debug, Clone, Copy)]
struct WorkRun {
    span: Span,
    class: WorkClass,
    name: StrId,
    /// Index of the activity; none on a CPU-only rank.
    activity: Option<u32>,
}

/// What runs on a device, by start.
fn device_runs<'a>(trace: &'a RankTrace, work: &'a DeviceWork) -> impl Iterator<Item = WorkRun> + 'a {
    work.activities.iter().map(|&i| {
        let a = &trace.activities[i as usize];
        WorkRun { span: a.span, class: a.work, name: a.name, activity: Some(i) }
    })
}

/// What runs on the host of a CPU-only rank, by start; of what starts together the longest first, which holds
/// the others.
fn host_runs(trace: &RankTrace) -> Vec<WorkRun> {
    let run = |(row, class): (u32, WorkClass)| {
        let row = row as usize;
        WorkRun { span: trace.columns.span(row), class, name: trace.columns.name(row), activity: None }
    };
    let mut out: Vec<WorkRun> = trace.host_work_rows().map(run).collect();
    out.sort_by_key(|r| (r.span.start, Reverse(r.span.end)));
    out
}

/// When a class runs, cut by what runs: of several the one that started first.
fn first_running(runs: impl Iterator<Item = WorkRun>, class: WorkClass) -> Vec<WorkRun> {
    let mut out = Vec::new();
    let mut at = Ns::MIN;
    for run in runs.filter(|r| r.class == class) {
        let free = Span::new(run.span.start.max(at), run.span.end);
        if !free.is_empty() {
            out.push(WorkRun { span: free, ..run });
            at = run.span.end;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_steps_are_kept_and_others_between_them() {
        assert_eq!(kept(&[5, 4, 3]), [0, 1, 2]);
        let mut lengths = vec![10; 100];
        (40..48).for_each(|i| lengths[i] = 20);
        let got = kept(&lengths);
        assert_eq!(got.len(), STEPS);
        assert!((40..48).all(|i| got.contains(&i)) && got.contains(&0) && got.contains(&99), "{got:?}");
        assert!(got.is_sorted_by(|a, b| a < b));
    }
}
