//! Moments of host threads: finds what a thread was doing just before a moment, and whose work that moment
//! follows.
//!
//! ```text
//!   frame     [train.py(3): step .........................................)
//!   operator      [aten::mm...)              [aten::add)
//!   working       ============               ===========
//!   silent    ....            ...............           ...    host_python
//! ```
//!
//! A thread works while an operator, a runtime or driver call or a communication range is open on it,
//! whatever is innermost; Python frames and annotations alone count as silence.

use crate::critical_path::segment::PathClass;
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_facts::host_activity::{HostActivity, HostNames};
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::rank_trace::{RankTrace, is_host_communication};
use hta_trace::strings::StrId;
use hta_trace::thread::InnermostSpan;
use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shortest silence of a thread in which it may be waiting for another thread, ns.
const HANDOVER_FROM: Ns = 100_000;

/// The end of a thread's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkEnd {
    pub(crate) lane: u32,
    pub(crate) at: Ns,
    /// The innermost event at that moment.
    pub(crate) row: u32,
}

/// A stretch with one innermost event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostStretch {
    pub(crate) span: Span,
    pub(crate) class: PathClass,
    pub(crate) row: Option<u32>,
}

/// The threads of a rank.
pub struct HostNodes<'a> {
    trace: &'a RankTrace,
    names: Arc<HostNames>,
    working: BTreeMap<u32, Union>,
    /// Ends of the work of all threads, by process; computed when first needed.
    ends: OnceCell<HashMap<StrId, Ends>>,
}

/// Ends of work with the thread's lane, in order of time, for the threads of one process.
#[derive(Default)]
struct Ends {
    all: Vec<(Ns, u32)>,
    /// Cache: the end that counts among several at the same time.
    latest: RefCell<HashMap<Ns, Option<WorkEnd>>>,
}

impl<'a> HostNodes<'a> {
    pub(crate) fn new(trace: &'a RankTrace) -> Self {
        let works = |row: &&u32| match trace.classes[**row as usize] {
            Class::HostOp | Class::Runtime | Class::Collective | Class::Title => true,
            Class::Annotation => is_host_communication(Class::Annotation, trace.name(**row)),
            _ => false,
        };
        let lanes = trace.host_rows().iter().filter(|(_, rows)| rows.iter().any(|r| works(&r)));
        let union = |rows: &[u32]| Union::new(rows.iter().filter(works).map(|&r| trace.span(r)));
        let working = lanes.map(|(lane, rows)| (*lane, union(rows))).collect();
        Self { trace, names: HostNames::of(trace), working, ends: OnceCell::new() }
    }

    /// The latest end of work on any thread before `until` (longer work is cut there), if it is after `from`.
    pub(crate) fn last(&self, from: Ns, until: Ns) -> Option<WorkEnd> {
        let ends = self.working.iter().filter_map(|(lane, work)| {
            let i = work.spans().partition_point(|s| s.start < until).checked_sub(1)?;
            self.work_end(*lane, work.spans()[i].end.min(until))
        });
        ends.filter(|e| e.at > from).max_by_key(|e| (e.at, Reverse(e.row)))
    }

    /// The stretch of work that lasts until `t`.
    pub(crate) fn work_before(&self, lane: u32, t: Ns) -> Option<HostStretch> {
        let work = self.working.get(&lane)?.spans();
        let i = work.partition_point(|s| s.start < t).checked_sub(1)?;
        let within = work[i];
        if within.end < t {
            return None;
        }
        let piece = self.piece_before(lane, t)?;
        let (class, row) = self.class(&piece, true);
        Some(HostStretch { span: Span::new(piece.span.start.max(within.start), t), class, row: Some(row) })
    }

    /// The end of work that a silent thread's next work at `t` follows: its own last end, or after a long
    /// silence that of the thread of its process that stopped last.
    pub(crate) fn before_silence(&self, lane: u32, t: Ns) -> Option<WorkEnd> {
        let own = self.last_end(lane, t);
        if own.is_some_and(|o| t.saturating_sub(o.at) < HANDOVER_FROM) {
            return own;
        }
        // The result is never earlier than its own last end, so a later one belongs to another thread.
        match (own, self.last_end_of_process(lane, t)) {
            (Some(own), Some(last)) if last.at <= own.at => Some(own),
            (own, last) => last.or(own),
        }
    }

    /// The latest end of work at or before `t` on any thread of a lane's process; among several at the same
    /// time that of the lowest row. Uses an index over all threads, because a file may have as many threads
    /// as events.
    fn last_end_of_process(&self, lane: u32, t: Ns) -> Option<WorkEnd> {
        let ends = self.ends.get_or_init(|| self.ends_of_processes()).get(&self.process(lane)?)?;
        let until = ends.all.partition_point(|e| e.0 <= t);
        let (at, last) = *ends.all.get(until.checked_sub(1)?)?;
        let first = ends.all.partition_point(|e| e.0 < at);
        match ends.all.get(first..until)? {
            [_] => self.work_end(last, at),
            several => *ends.latest.borrow_mut().entry(at).or_insert_with(|| {
                several.iter().filter_map(|e| self.work_end(e.1, at)).min_by_key(|e| e.row)
            }),
        }
    }

    fn process(&self, lane: u32) -> Option<StrId> {
        self.trace.columns.lanes.get(lane as usize).map(|l| l.pid)
    }

    fn ends_of_processes(&self) -> HashMap<StrId, Ends> {
        let mut of_process: HashMap<StrId, Ends> = HashMap::new();
        for (lane, work) in &self.working {
            if let Some(pid) = self.process(*lane) {
                of_process.entry(pid).or_default().all.extend(work.spans().iter().map(|s| (s.end, *lane)));
            }
        }
        // Each thread's ends are in order: a stable sort merges them.
        of_process.values_mut().for_each(|ends| ends.all.sort_by_key(|e| e.0));
        of_process
    }

    /// What a thread did during silence, latest first. The stretches cover `span` completely.
    pub(crate) fn silence(&self, lane: u32, span: Span) -> Vec<HostStretch> {
        let untracked = |start, end| HostStretch {
            span: Span::new(start, end),
            class: PathClass::HostUntracked,
            row: None,
        };
        let mut out = Vec::new();
        let mut at = span.end;
        let pieces = self.trace.thread(lane).into_iter().flat_map(|p| p.before(span.end));
        for piece in pieces.take_while(|p| p.span.end > span.start) {
            let part = piece.span.intersect(span);
            if part.end < at {
                out.push(untracked(part.end, at));
            }
            let (class, row) = self.class(&piece, false);
            out.push(HostStretch { span: part, class, row: Some(row) });
            at = part.start;
        }
        if at > span.start {
            out.push(untracked(span.start, at));
        }
        out
    }

    /// Whether any host event is open in the window.
    pub(crate) fn is_recorded(&self, window: Span) -> bool {
        let mut threads = self.trace.threads().values();
        threads.any(|pieces| pieces.from(window.start).next().is_some_and(|p| p.span.start < window.end))
    }

    /// The last end of a thread's own work at or before `t`.
    pub(crate) fn last_end(&self, lane: u32, t: Ns) -> Option<WorkEnd> {
        let work = self.working.get(&lane)?.spans();
        let i = work.partition_point(|s| s.end <= t).checked_sub(1)?;
        self.work_end(lane, work[i].end)
    }

    fn work_end(&self, lane: u32, at: Ns) -> Option<WorkEnd> {
        self.piece_before(lane, at).map(|p| WorkEnd { lane, at, row: p.row })
    }

    /// The piece that starts last before `t`.
    fn piece_before(&self, lane: u32, t: Ns) -> Option<InnermostSpan> {
        self.trace.thread(lane)?.before(t).next()
    }

    /// Class and event of a piece.
    fn class(&self, piece: &InnermostSpan, works: bool) -> (PathClass, u32) {
        if let Some(loader) = piece.marked {
            return (PathClass::HostDataLoader, loader);
        }
        let class = match self.names.activity(self.trace, piece.row) {
            HostActivity::SyncCall => PathClass::HostSync,
            HostActivity::AllocationCall => PathClass::HostAllocation,
            HostActivity::LaunchCall => PathClass::HostLaunch,
            HostActivity::RuntimeCall => PathClass::HostRuntime,
            HostActivity::CommunicationOperator => PathClass::HostCommunication,
            HostActivity::Operator => PathClass::HostOperator,
            HostActivity::Python => PathClass::HostPython,
            // A range inside an operator: the operator works.
            _ if works => PathClass::HostOperator,
            HostActivity::Annotation => PathClass::HostAnnotation,
            _ => PathClass::HostUntracked,
        };
        (class, piece.row)
    }
}
