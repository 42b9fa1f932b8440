//! Moments of host threads: what a thread was doing just before one, and whose work it follows.
//!
//! ```text
//!   frame     [train.py(3): step .........................................)
//!   operator      [aten::mm...)              [aten::add)
//!   working       ============               ===========
//!   silent    ....            ...............           ...    host_python
//! ```
//!
//! A thread works while an operator, a runtime or driver call or a communication range is open on it, whatever
//! is innermost; Python frames and annotations alone are silence.

use crate::analysis::critical_path::segment::PathClass;
use crate::analysis::host_activity::HostNames;
use crate::model::category::Class;
use crate::model::interval::Union;
use crate::model::rank_trace::{RankTrace, is_host_communication};
use crate::model::thread::Piece;
use crate::units::{Ns, Span};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A thread silent for this long may have been waiting for another, ns.
const HANDOVER_FROM: Ns = 100_000;

/// The end of a thread's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkEnd {
    pub lane: u32,
    pub at: Ns,
    /// The innermost event there.
    pub row: u32,
}

/// A stretch with one innermost event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub span: Span,
    pub class: PathClass,
    pub row: Option<u32>,
}

/// The threads of a rank.
pub struct Host<'a> {
    trace: &'a RankTrace,
    names: Arc<HostNames>,
    working: BTreeMap<u32, Union>,
}

impl<'a> Host<'a> {
    pub fn new(trace: &'a RankTrace) -> Self {
        let works = |row: &&u32| match trace.classes[**row as usize] {
            Class::HostOp | Class::Runtime | Class::Collective => true,
            Class::Annotation => is_host_communication(Class::Annotation, trace.name(**row)),
            _ => false,
        };
        let lanes = trace.host_rows().iter().filter(|(_, rows)| rows.iter().any(|r| works(&r)));
        let union = |rows: &[u32]| Union::new(rows.iter().filter(works).map(|&r| trace.span(r)));
        let working = lanes.map(|(lane, rows)| (*lane, union(rows))).collect();
        Self { trace, names: HostNames::of(trace), working }
    }

    /// The latest end of work on any thread before `until` (what goes on ends there), if after `from`.
    pub fn last(&self, from: Ns, until: Ns) -> Option<WorkEnd> {
        let ends = self.working.iter().filter_map(|(lane, work)| {
            let i = work.spans().partition_point(|s| s.start < until).checked_sub(1)?;
            self.work_end(*lane, work.spans()[i].end.min(until))
        });
        ends.filter(|e| e.at > from).max_by_key(|e| (e.at, Reverse(e.row)))
    }

    /// The stretch of work that lasts to `t`.
    pub fn work_before(&self, lane: u32, t: Ns) -> Option<Stretch> {
        let work = self.working.get(&lane)?.spans();
        let i = work.partition_point(|s| s.start < t).checked_sub(1)?;
        let within = work[i];
        if within.end < t {
            return None;
        }
        let piece = self.piece_before(lane, t)?;
        let (class, row) = self.class(&piece, true);
        Some(Stretch { span: Span::new(piece.span.start.max(within.start), t), class, row: Some(row) })
    }

    /// The end of work that a silent thread's next work at `t` follows: its own, or after a long silence that
    /// of the thread of its process that stopped last.
    pub fn before_silence(&self, lane: u32, t: Ns) -> Option<WorkEnd> {
        let own = self.last_end(lane, t);
        if own.is_some_and(|o| t.saturating_sub(o.at) < HANDOVER_FROM) {
            return own;
        }
        let pid = |lane: u32| self.trace.columns.lanes.get(lane as usize).map(|l| l.pid);
        let others = self.working.keys().filter(|&&l| l != lane && pid(l) == pid(lane));
        let other = others.filter_map(|&l| self.last_end(l, t)).max_by_key(|e| (e.at, Reverse(e.row)));
        match (own, other) {
            (Some(own), Some(other)) if other.at <= own.at => Some(own),
            (own, other) => other.or(own),
        }
    }

    /// What a thread did in silence, latest first; nothing is left over.
    pub fn silence(&self, lane: u32, span: Span) -> Vec<Stretch> {
        let untracked =
            |start, end| Stretch { span: Span::new(start, end), class: PathClass::HostUntracked, row: None };
        let mut out = Vec::new();
        let mut at = span.end;
        let pieces = self.trace.thread(lane).into_iter().flat_map(|p| p.before(span.end));
        for piece in pieces.take_while(|p| p.span.end > span.start) {
            let part = piece.span.intersect(span);
            if part.end < at {
                out.push(untracked(part.end, at));
            }
            let (class, row) = self.class(&piece, false);
            out.push(Stretch { span: part, class, row: Some(row) });
            at = part.start;
        }
        if at > span.start {
            out.push(untracked(span.start, at));
        }
        out
    }

    /// Whether any host event is open in the window.
    pub fn is_recorded(&self, window: Span) -> bool {
        let mut threads = self.trace.threads().values();
        threads.any(|pieces| pieces.from(window.start).next().is_some_and(|p| p.span.start < window.end))
    }

    fn last_end(&self, lane: u32, t: Ns) -> Option<WorkEnd> {
        let work = self.working.get(&lane)?.spans();
        let i = work.partition_point(|s| s.end <= t).checked_sub(1)?;
        self.work_end(lane, work[i].end)
    }

    fn work_end(&self, lane: u32, at: Ns) -> Option<WorkEnd> {
        self.piece_before(lane, at).map(|p| WorkEnd { lane, at, row: p.row })
    }

    /// The piece that starts last before `t`.
    fn piece_before(&self, lane: u32, t: Ns) -> Option<Piece> {
        self.trace.thread(lane)?.before(t).next()
    }

    /// Class and event of a piece.
    fn class(&self, piece: &Piece, works: bool) -> (PathClass, u32) {
        if let Some(loader) = piece.marked {
            return (PathClass::HostDataLoader, loader);
        }
        let class = match self.names.activity(self.trace, piece.row) {
            "sync_call" => PathClass::HostSync,
            "allocation_call" => PathClass::HostAllocation,
            "launch_call" => PathClass::HostLaunch,
            "runtime_call" => PathClass::HostRuntime,
            "communication_operator" => PathClass::HostCommunication,
            "operator" => PathClass::HostOperator,
            "python" => PathClass::HostPython,
            // a range inside an operator: the operator works
            _ if works => PathClass::HostOperator,
            "annotation" => PathClass::HostAnnotation,
            _ => PathClass::HostUntracked,
        };
        (class, piece.row)
    }
}
