//! The walk: from the end of the window back to its start, each time to the event that arrived last.
//!
//! ```text
//!   host      |python|aten::mm|                  |item|
//!   stream                   ...[sgemm.........).
//!   path      |python|aten::mm| l [gpu        )  s       l: launch_latency, s: sync_return
//! ```
//!
//! The walk terminates: time never increases, and at one instant activities come in descending order, work
//! edges go back in time, a polled activity has started before, and each blocking call is entered once.

use crate::critical_path::nodes::{EdgeOrigin, GpuNodes, HostNodes, SyncEvents, ThreadMoment};
use crate::critical_path::segment::{Edge, PathClass, PathSegment, SegmentPlace};
use hta_base::units::{Ns, Span};
use hta_facts::validator::Validation;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;

/// The critical path of a window: segments in order of time that cover it without gaps or overlaps. Empty for
/// an empty window.
pub fn path(trace: &RankTrace, window: Span) -> Vec<PathSegment> {
    Paths::new(trace).of(window)
}

/// Finds the critical paths of any windows of a rank.
pub struct Paths<'a> {
    trace: &'a RankTrace,
    gpu: GpuNodes<'a>,
    host: HostNodes<'a>,
    syncs: SyncEvents,
}

/// Position of the walk.
#[derive(Debug, Clone, Copy)]
enum WalkPosition {
    /// End of an activity.
    End(u32),
    /// Start of an activity.
    Start(u32),
    /// A moment of a thread.
    Moment(u32),
}

impl<'a> Paths<'a> {
    pub(crate) fn new(trace: &'a RankTrace) -> Self {
        let syncs = SyncEvents::new(trace);
        Self { trace, gpu: GpuNodes::new(trace, &syncs), host: HostNodes::new(trace), syncs }
    }

    pub fn of(&self, window: Span) -> Vec<PathSegment> {
        let mut out = PathBuilder { window, at: window.end, segments: Vec::new() };
        if window.is_empty() {
            return out.segments;
        }
        let gpu = self.gpu.last(window.start, window.end);
        let host = self.host.last(window.start, window.end);
        let mut at = match (gpu, host) {
            (Some((end, i)), host) if host.is_none_or(|h| h.at <= end) => {
                let row = self.trace.activities[i as usize].row;
                out.push(end, PathClass::Tail, Edge::Anchor, None, Some(row), SegmentPlace::Nowhere);
                WalkPosition::End(i)
            }
            (_, Some(h)) => {
                out.push(h.at, PathClass::Tail, Edge::Anchor, None, Some(h.row), SegmentPlace::Nowhere);
                WalkPosition::Moment(h.lane)
            }
            _ => {
                let class = if self.is_recorded(window) { PathClass::Tail } else { PathClass::Unexplained };
                out.push(window.start, class, Edge::Anchor, None, None, SegmentPlace::Nowhere);
                return out.segments;
            }
        };
        // Blocking calls entered at the current instant.
        let mut entered: (Ns, Vec<u32>) = (Ns::MAX, Vec::new());
        while out.at > window.start {
            if entered.0 != out.at {
                entered = (out.at, Vec::new());
            }
            at = match at {
                WalkPosition::End(i) => self.through(i, &mut out),
                WalkPosition::Start(i) => self.before_start(i, &mut out),
                WalkPosition::Moment(lane) => self.before_moment(lane, &mut entered.1, &mut out),
            };
        }
        out.segments.reverse();
        if Validation::of(self.trace).doubts_events() {
            let is_event_sync = |row: u32| self.trace.name(row).contains("EventSynchronize");
            for s in &mut out.segments {
                s.is_doubtful =
                    s.edge == Edge::StreamWait || s.edge == Edge::Sync && s.event.is_some_and(is_event_sync);
            }
        }
        out.segments
    }

    fn is_recorded(&self, window: Span) -> bool {
        let all = &self.trace.activities;
        let starts = all.partition_point(|a| a.span.start < window.start);
        all.get(starts).is_some_and(|a| a.span.start < window.end) || self.host.is_recorded(window)
    }

    fn through(&self, i: u32, out: &mut PathBuilder) -> WalkPosition {
        let a = &self.trace.activities[i as usize];
        let class = match a.work {
            WorkClass::Compute => PathClass::GpuCompute,
            WorkClass::Communication => PathClass::GpuCommunication,
            WorkClass::Memory => PathClass::GpuMemory,
            WorkClass::Fused => PathClass::GpuFused,
        };
        out.push(a.span.start, class, Edge::Gpu, Some(a.row), None, SegmentPlace::Stream(i));
        WalkPosition::Start(i)
    }

    fn before_start(&self, i: u32, out: &mut PathBuilder) -> WalkPosition {
        let row = Some(self.trace.activities[i as usize].row);
        let place = SegmentPlace::Stream(i);
        let Some(before) = self.gpu.before_start(i) else {
            out.push(out.window.start, PathClass::Unexplained, Edge::Anchor, row, None, place);
            return WalkPosition::Start(i);
        };
        let class = match before.edge {
            Edge::Stream => PathClass::KernelGap,
            Edge::Launch => PathClass::LaunchLatency,
            _ => PathClass::CrossStreamDelay,
        };
        let (source, next) = match before.from {
            EdgeOrigin::End(j) => (self.trace.activities[j as usize].row, WalkPosition::End(j)),
            EdgeOrigin::Call(call) => (call, WalkPosition::Moment(self.trace.columns.lane[call as usize])),
        };
        out.push(before.at, class, before.edge, row, Some(source), place);
        next
    }

    fn before_moment(&self, lane: u32, entered: &mut Vec<u32>, out: &mut PathBuilder) -> WalkPosition {
        let (t, place) = (out.at, SegmentPlace::Thread(lane));
        let moment = ThreadMoment { lane, t, until: out.window.end };
        if let Some((call, j)) = self.syncs.awaited(self.trace, &self.gpu, moment, entered) {
            entered.push(call);
            let source = self.trace.activities[j as usize].row;
            out.push(self.gpu.end(j), PathClass::SyncReturn, Edge::Sync, Some(call), Some(source), place);
            return WalkPosition::End(j);
        }
        if let Some(work) = self.host.work_before(lane, t) {
            out.push(work.span.start, work.class, Edge::Host, work.row, None, place);
            return WalkPosition::Moment(lane);
        }
        let silent_since = self.host.last_end(lane, t).map_or(Ns::MIN, |own| own.at);
        if let Some(j) = self.gpu.polled(lane, Span::new(silent_since, t)) {
            let a = &self.trace.activities[j as usize];
            // An activity that ended before is entered at its end; one that is still running is left at its
            // start.
            let (from, next) = if a.span.end <= t {
                (a.span.end, WalkPosition::End(j))
            } else {
                (a.span.start, WalkPosition::Start(j))
            };
            out.push(
                from,
                PathClass::GpuCommunication,
                Edge::Poll,
                Some(a.row),
                Some(a.row),
                SegmentPlace::Stream(j),
            );
            return next;
        }
        let before = self.host.before_silence(lane, t);
        let (edge, from, source) = match before {
            Some(b) if b.lane == lane => (Edge::Silent, b.at, Some(b.row)),
            Some(b) => (Edge::Handover, b.at, Some(b.row)),
            None => (Edge::Anchor, out.window.start, None),
        };
        for s in self.host.silence(lane, Span::new(from.max(out.window.start), t)) {
            out.push(s.span.start, s.class, edge, s.row, source, place);
        }
        WalkPosition::Moment(before.map_or(lane, |b| b.lane))
    }
}

/// The path so far, latest first, cut to the window.
struct PathBuilder {
    window: Span,
    at: Ns,
    segments: Vec<PathSegment>,
}

impl PathBuilder {
    /// Adds a segment back to `from`.
    fn push(
        &mut self,
        from: Ns,
        class: PathClass,
        edge: Edge,
        event: Option<u32>,
        source: Option<u32>,
        place: SegmentPlace,
    ) {
        let span = Span::new(from.max(self.window.start), self.at);
        self.at = span.start.min(span.end);
        if span.is_empty() {
            return;
        }
        let segment = PathSegment { span, class, edge, event, source, place, is_doubtful: false };
        match self.segments.last_mut() {
            // Adjacent pieces with the same attributes (such as inside a data loader) are merged.
            Some(s) if (PathSegment { span: s.span, ..segment }) == *s && event.is_some() => {
                s.span.start = span.start
            }
            _ => self.segments.push(segment),
        }
    }
}
