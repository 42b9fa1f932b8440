//! What a host thread was doing, in words: the kind of its innermost open event.

use crate::model::category::Class;
use crate::model::rank_trace::{RankTrace, is_host_communication, is_launch_call};
use crate::units::Span;
use std::collections::HashSet;

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
    /// Per text: kind as a runtime call, and whether it is communication as an operator or annotation.
    kinds: Vec<(&'static str, bool, bool)>,
    /// Calls that own an activity, whatever they are called.
    launches: HashSet<u32>,
}

impl HostNames {
    pub fn new(trace: &RankTrace) -> Self {
        let kinds = trace.columns.strings.iter().map(|(_, t)| {
            (runtime_kind(t), is_host_communication(Class::HostOp, t), is_host_communication(Class::Annotation, t))
        });
        Self { kinds: kinds.collect(), launches: trace.activities.iter().filter_map(|a| a.launch).collect() }
    }

    /// What the thread did in `window`, complete: nothing is left over.
    pub fn uses(&self, trace: &RankTrace, thread: Option<u32>, window: Span) -> Vec<HostUse> {
        let mut out = Vec::new();
        if window.is_empty() {
            return out;
        }
        let untracked =
            |start, end| HostUse { span: Span::new(start, end), activity: "untracked", row: None, caller: None };
        let pieces = thread.map_or(&[][..], |lane| trace.thread(lane));
        let first = pieces.partition_point(|p| p.span.end <= window.start);
        let mut at = window.start;
        for piece in pieces[first..].iter().take_while(|p| p.span.start < window.end) {
            let span = piece.span.intersect(window);
            if span.start > at {
                out.push(untracked(at, span.start));
            }
            let (activity, row) = match piece.marked {
                Some(loader) => ("data_loader", loader),
                None => (self.activity(trace, piece.row), piece.row),
            };
            let caller = if activity == "python" { caller(trace, row) } else { None };
            out.push(HostUse { span, activity, row: Some(row), caller });
            at = span.end;
        }
        if at < window.end {
            out.push(untracked(at, window.end));
        }
        out
    }

    /// Names of the event behind a use, and of the frame that called it where that says more.
    pub fn texts<'a>(&self, trace: &'a RankTrace, used: &HostUse) -> (&'a str, &'a str) {
        let name = |row: Option<u32>| row.map_or("", |r| trace.name(r));
        (name(used.row), name(used.caller))
    }

    /// What an event is as a host activity.
    pub fn activity(&self, trace: &RankTrace, row: u32) -> &'static str {
        let name = trace.columns.name[row as usize].0 as usize;
        let (runtime, as_op, as_annotation) = self.kinds.get(name).copied().unwrap_or(("runtime_call", false, false));
        match trace.classes[row as usize] {
            Class::Runtime if runtime == "runtime_call" && self.launches.contains(&row) => "launch_call",
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
}

/// The nearest frame with file and line above a built-in function; `None` for a frame that has them.
fn caller(trace: &RankTrace, row: u32) -> Option<u32> {
    let has_line = |r: u32| trace.name(r).contains(".py(");
    if has_line(row) {
        return None;
    }
    let mut at = trace.stacks.parent.get(row as usize).copied().flatten();
    // as deep as the tree at most: bad ids may make a circle
    for _ in 0..=trace.stacks.depth.get(row as usize).copied().flatten().unwrap_or(0) {
        match at {
            Some(r) if has_line(r) => return Some(r),
            Some(r) => at = trace.stacks.parent.get(r as usize).copied().flatten(),
            None => return None,
        }
    }
    None
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
