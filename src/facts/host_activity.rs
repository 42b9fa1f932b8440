//! What a host thread was doing, in words: the kind of its innermost open event.

use crate::trace::category::Class;
use crate::trace::launch::is_launch_call;
use crate::trace::rank_trace::{RankTrace, is_host_communication};
use crate::units::Span;
use std::sync::Arc;

/// A stretch of host time with one explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostUse {
    pub span: Span,
    pub activity: &'static str,
    /// The event; `None` while nothing is open.
    pub row: Option<u32>,
    /// For a built-in Python function: the frame with file and line that called it.
    pub caller: Option<u32>,
}

/// Kind of each event name as a host activity, by class.
pub struct HostNames {
    /// Per text that names a host event.
    kinds: Vec<Kind>,
    /// Which events own an activity, whatever they are called.
    launches: Vec<bool>,
}

/// What a name says.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// Kind as a runtime call.
    runtime: &'static str,
    /// Whether it is communication as an operator, or as an annotation.
    as_op: bool,
    as_annotation: bool,
    /// As a Python frame: whether it has a file and line.
    has_line: bool,
}

const PLAIN: Kind = Kind { runtime: "runtime_call", as_op: false, as_annotation: false, has_line: false };

impl HostNames {
    /// Those of a rank, made once.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let mut kinds: Vec<Option<Kind>> = vec![None; c.strings.len()];
        for &row in trace.host_rows().iter().flat_map(|(_, rows)| rows) {
            let name = c.name(row as usize);
            if let Some(slot @ None) = kinds.get_mut(name.0 as usize) {
                let text = trace.text(name);
                *slot = Some(Kind {
                    runtime: runtime_kind(text),
                    as_op: is_host_communication(Class::HostOp, text),
                    as_annotation: is_host_communication(Class::Annotation, text),
                    has_line: text.contains(".py("),
                });
            }
        }
        let mut launches = vec![false; c.len()];
        trace.launches().iter().for_each(|(row, _)| launches[row as usize] = true);
        Self { kinds: kinds.into_iter().map(|k| k.unwrap_or(PLAIN)).collect(), launches }
    }

    fn kind(&self, trace: &RankTrace, row: u32) -> Kind {
        self.kinds.get(trace.columns.name(row as usize).0 as usize).copied().unwrap_or(PLAIN)
    }

    /// What the thread did in `window`, complete: nothing is left over.
    pub fn each_use(&self, trace: &RankTrace, thread: Option<u32>, window: Span, mut take: impl FnMut(HostUse)) {
        if window.is_empty() {
            return;
        }
        let untracked =
            |start, end| HostUse { span: Span::new(start, end), activity: "untracked", row: None, caller: None };
        let pieces = thread.and_then(|lane| trace.thread(lane));
        let mut at = window.start;
        let ours = pieces.into_iter().flat_map(|p| p.from(window.start)).take_while(|p| p.span.start < window.end);
        for piece in ours {
            let span = piece.span.intersect(window);
            if span.start > at {
                take(untracked(at, span.start));
            }
            let (activity, row) = match piece.marked {
                Some(loader) => ("data_loader", loader),
                None => (self.activity(trace, piece.row), piece.row),
            };
            let caller = if activity == "python" { self.caller(trace, row) } else { None };
            take(HostUse { span, activity, row: Some(row), caller });
            at = span.end;
        }
        if at < window.end {
            take(untracked(at, window.end));
        }
    }

    /// Names of the event behind a use, and of the frame that called it where that says more.
    pub fn texts<'a>(&self, trace: &'a RankTrace, used: &HostUse) -> (&'a str, &'a str) {
        let name = |row: Option<u32>| row.map_or("", |r| trace.name(r));
        (name(used.row), name(used.caller))
    }

    /// What an event is as a host activity.
    pub fn activity(&self, trace: &RankTrace, row: u32) -> &'static str {
        let Kind { runtime, as_op, as_annotation, .. } = self.kind(trace, row);
        match trace.classes[row as usize] {
            Class::Runtime if runtime == "runtime_call" && self.launches.get(row as usize) == Some(&true) => {
                "launch_call"
            }
            Class::Runtime => runtime,
            Class::HostOp if as_op => "communication_operator",
            Class::HostOp => "operator",
            Class::Annotation if as_annotation => "communication_operator",
            Class::Collective => "communication_operator",
            Class::Annotation => "annotation",
            Class::Python => "python",
            _ => "untracked",
        }
    }

    /// The nearest frame with file and line above a built-in function; `None` for a frame that has them.
    fn caller(&self, trace: &RankTrace, row: u32) -> Option<u32> {
        let has_line = |r: u32| self.kind(trace, r).has_line;
        if has_line(row) {
            return None;
        }
        let mut at = trace.stacks.parent(row);
        // as deep as the tree at most: bad ids may make a circle
        for _ in 0..=trace.stacks.depth(row).unwrap_or(0) {
            match at {
                Some(r) if has_line(r) => return Some(r),
                Some(r) => at = trace.stacks.parent(r),
                None => return None,
            }
        }
        None
    }
}

/// Kind of a runtime or driver call.
fn runtime_kind(name: &str) -> &'static str {
    let lower = name.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    if has("synchronize") {
        "sync_call"
    } else if has("malloc")
        || has("free")
        || has("memalloc")
        || has("hostalloc")
        || has("mempool")
        || has("memcreate")
        || has("hostregister")
    {
        "allocation_call"
    } else if is_launch_call(name) {
        "launch_call"
    } else {
        "runtime_call"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_name() {
        assert_eq!(runtime_kind("cudaStreamSynchronize"), "sync_call");
        assert_eq!(runtime_kind("hipMallocAsync"), "allocation_call");
        assert_eq!(runtime_kind("cudaFree"), "allocation_call");
        assert_eq!(runtime_kind("cuLaunchKernelEx"), "launch_call");
        assert_eq!(runtime_kind("cudaMemcpyAsync"), "runtime_call");
    }
}
