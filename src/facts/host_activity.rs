//! Describes what a host thread was doing at any time: the kind of its innermost open event.

use hashbrown::HashSet;
use hta_base::stored_name;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::launch::is_launch_call;
use hta_trace::rank_trace::{RankTrace, is_host_communication};
use hta_trace::strings::StrId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A call that allocates or frees memory in shorter time than this did not wait for a collective, ns.
pub const ALLOCATION_LONG: Ns = 100_000;

/// What a host thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostActivity {
    Operator,
    CommunicationOperator,
    LaunchCall,
    SyncCall,
    AllocationCall,
    RuntimeCall,
    DataLoader,
    Annotation,
    Python,
    /// No event is open.
    Untracked,
}

impl HostActivity {
    pub const ALL: [HostActivity; 10] = [
        HostActivity::Operator,
        HostActivity::CommunicationOperator,
        HostActivity::LaunchCall,
        HostActivity::SyncCall,
        HostActivity::AllocationCall,
        HostActivity::RuntimeCall,
        HostActivity::DataLoader,
        HostActivity::Annotation,
        HostActivity::Python,
        HostActivity::Untracked,
    ];

    /// Several of it, in words.
    pub fn plural(self) -> &'static str {
        match self {
            HostActivity::Operator => "operators",
            HostActivity::CommunicationOperator => "communication operators",
            HostActivity::LaunchCall => "launch calls",
            HostActivity::SyncCall => "synchronizing calls",
            HostActivity::AllocationCall => "allocation calls",
            HostActivity::RuntimeCall => "runtime calls",
            HostActivity::DataLoader => "data loaders",
            HostActivity::Annotation => "ranges",
            HostActivity::Python => "Python functions",
            HostActivity::Untracked => "code that was not recorded",
        }
    }

    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            HostActivity::Operator => "operator",
            HostActivity::CommunicationOperator => "communication_operator",
            HostActivity::LaunchCall => "launch_call",
            HostActivity::SyncCall => "sync_call",
            HostActivity::AllocationCall => "allocation_call",
            HostActivity::RuntimeCall => "runtime_call",
            HostActivity::DataLoader => "data_loader",
            HostActivity::Annotation => "annotation",
            HostActivity::Python => "python",
            HostActivity::Untracked => "untracked",
        }
    }
}

stored_name!(HostActivity, HostActivity::ALL, name);

/// Time by activity, in the order of [`HostActivity::ALL`], ns.
pub type ActivitySums = [Ns; HostActivity::ALL.len()];

/// A stretch of host time with one innermost event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostUse {
    pub span: Span,
    pub activity: HostActivity,
    /// The innermost event; `None` if none is open.
    pub row: Option<u32>,
    /// For a built-in Python function: the nearest calling frame that has a file and line.
    pub(crate) caller: Option<u32>,
}

/// Classifies host events by name, once per name.
pub struct HostNames {
    /// One entry per text that names a host event.
    kinds: Vec<NameClass>,
    /// Per event: whether it owns an activity, whatever its name.
    launches: Vec<bool>,
}

/// The classification of one name.
#[derive(Debug, Clone, Copy)]
struct NameClass {
    /// Kind of a runtime call with this name.
    runtime: HostActivity,
    /// Whether an operator with this name, or an annotation (next field), is communication.
    as_op: bool,
    as_annotation: bool,
    /// Whether a Python frame with this name has a file and line.
    has_line: bool,
    /// Whether a step has this name.
    is_step: bool,
}

const PLAIN: NameClass = NameClass {
    runtime: HostActivity::RuntimeCall,
    as_op: false,
    as_annotation: false,
    has_line: false,
    is_step: false,
};

impl HostNames {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let steps: HashSet<StrId> = trace.steps.steps.iter().map(|s| s.name).collect();
        let mut kinds: Vec<Option<NameClass>> = vec![None; c.strings.len()];
        for &row in trace.host_rows().iter().flat_map(|(_, rows)| rows) {
            let name = c.name(row as usize);
            if let Some(slot @ None) = kinds.get_mut(name.0 as usize) {
                let text = trace.text(name);
                *slot = Some(NameClass {
                    runtime: runtime_kind(text),
                    as_op: is_host_communication(Class::HostOp, text),
                    as_annotation: is_host_communication(Class::Annotation, text),
                    has_line: text.contains(".py("),
                    is_step: steps.contains(&name),
                });
            }
        }
        let mut launches = vec![false; c.len()];
        trace.launches().iter().for_each(|(row, _)| launches[row as usize] = true);
        Self { kinds: kinds.into_iter().map(|k| k.unwrap_or(PLAIN)).collect(), launches }
    }

    fn kind(&self, trace: &RankTrace, row: u32) -> NameClass {
        self.kinds.get(trace.columns.name(row as usize).0 as usize).copied().unwrap_or(PLAIN)
    }

    /// Calls `take` for each stretch of `window`. The stretches cover the window completely.
    pub fn each_use(
        &self,
        trace: &RankTrace,
        thread: Option<u32>,
        window: Span,
        mut take: impl FnMut(HostUse),
    ) {
        self.each_stretch(trace, thread, window, |span, activity, row| {
            let row_of_python = row.filter(|_| activity == HostActivity::Python);
            let caller = row_of_python.and_then(|row| self.caller(trace, row));
            take(HostUse { span, activity, row, caller });
        });
    }

    /// Time of threads in a window by what they do.
    pub fn sums(&self, trace: &RankTrace, threads: &BTreeSet<u32>, window: Span) -> ActivitySums {
        let mut sums = ActivitySums::default();
        for thread in threads {
            self.each_stretch(trace, Some(*thread), window, |span, activity, row| {
                // What runs directly in a step has no event of its own.
                let is_step = row.is_some_and(|row| self.is_step(trace, row));
                let activity = if is_step { HostActivity::Untracked } else { activity };
                sums[activity as usize] += span.len();
            });
        }
        sums
    }

    /// Calls `take` for each stretch of `window` with its activity and event.
    fn each_stretch(
        &self,
        trace: &RankTrace,
        thread: Option<u32>,
        window: Span,
        mut take: impl FnMut(Span, HostActivity, Option<u32>),
    ) {
        if window.is_empty() {
            return;
        }
        let pieces = thread.and_then(|lane| trace.thread(lane));
        let mut at = window.start;
        let ours =
            pieces.into_iter().flat_map(|p| p.from(window.start)).take_while(|p| p.span.start < window.end);
        for piece in ours {
            let span = piece.span.intersect(window);
            if span.start > at {
                take(Span::new(at, span.start), HostActivity::Untracked, None);
            }
            let (activity, row) = match piece.marked {
                Some(loader) => (HostActivity::DataLoader, loader),
                None => (self.activity(trace, piece.row), piece.row),
            };
            take(span, activity, Some(row));
            at = span.end;
        }
        if at < window.end {
            take(Span::new(at, window.end), HostActivity::Untracked, None);
        }
    }

    /// Runtime and driver calls with their kind, thread by thread.
    pub fn calls<'a>(&'a self, trace: &'a RankTrace) -> impl Iterator<Item = (u32, HostActivity)> + 'a {
        let rows = trace.host_rows().iter().flat_map(|(_, rows)| rows.iter().copied());
        let calls = rows.filter(|row| trace.classes[*row as usize] == Class::Runtime);
        calls.map(|row| (row, self.activity(trace, row)))
    }

    /// Names of the event of a use and, for a built-in function, of the frame that called it.
    pub fn texts<'a>(&self, trace: &'a RankTrace, used: &HostUse) -> (&'a str, &'a str) {
        let name = |row: Option<u32>| row.map_or("", |r| trace.name(r));
        (name(used.row), name(used.caller))
    }

    /// Whether an event is the range around a step, which says nothing about what is inside.
    pub fn is_step(&self, trace: &RankTrace, row: u32) -> bool {
        trace.classes[row as usize] == Class::Annotation && self.kind(trace, row).is_step
    }

    /// The kind of host activity of an event.
    pub fn activity(&self, trace: &RankTrace, row: u32) -> HostActivity {
        let NameClass { runtime, as_op, as_annotation, .. } = self.kind(trace, row);
        match trace.classes[row as usize] {
            Class::Runtime
                if runtime == HostActivity::RuntimeCall && self.launches.get(row as usize) == Some(&true) =>
            {
                HostActivity::LaunchCall
            }
            Class::Runtime => runtime,
            Class::HostOp if as_op => HostActivity::CommunicationOperator,
            Class::HostOp => HostActivity::Operator,
            Class::Annotation if as_annotation => HostActivity::CommunicationOperator,
            Class::Collective | Class::Title => HostActivity::CommunicationOperator,
            Class::Annotation => HostActivity::Annotation,
            Class::Python => HostActivity::Python,
            _ => HostActivity::Untracked,
        }
    }

    /// The nearest frame with file and line above a built-in function; `None` if the frame itself has them.
    fn caller(&self, trace: &RankTrace, row: u32) -> Option<u32> {
        let has_line = |r: u32| self.kind(trace, r).has_line;
        if has_line(row) {
            return None;
        }
        trace.stacks.outward(row).skip(1).find(|r| has_line(*r))
    }
}

/// Kind of a runtime or driver call.
fn runtime_kind(name: &str) -> HostActivity {
    let lower = name.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    if has("synchronize") {
        HostActivity::SyncCall
    } else if has("malloc")
        || has("free")
        || has("memalloc")
        || has("hostalloc")
        || has("mempool")
        || has("memcreate")
        || has("hostregister")
    {
        HostActivity::AllocationCall
    } else if is_launch_call(name) {
        HostActivity::LaunchCall
    } else {
        HostActivity::RuntimeCall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_name() {
        assert_eq!(runtime_kind("cudaStreamSynchronize"), HostActivity::SyncCall);
        assert_eq!(runtime_kind("hipMallocAsync"), HostActivity::AllocationCall);
        assert_eq!(runtime_kind("cudaFree"), HostActivity::AllocationCall);
        assert_eq!(runtime_kind("cuLaunchKernelEx"), HostActivity::LaunchCall);
        assert_eq!(runtime_kind("cudaMemcpyAsync"), HostActivity::RuntimeCall);
    }
}
