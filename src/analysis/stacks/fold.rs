//! One rank's events as stacks: pieces of host time and activities are charged to the nodes of a tree of
//! names.
//!
//! The node of a frame or call is below that of the frame or call around it. It is made when it is needed,
//! and once, so the time does not depend on the depth of the stacks.

use crate::stacks::StackTree;
use crate::stacks::host_time::each_host_piece;
use hta_facts::calls::CallForest;
use hta_facts::lines::{FrameKind, LineId, Lines, NO_PYTHON, NO_USER_CODE};
use hta_trace::strings::StrId;

/// A name in a stack of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StackName {
    /// A thread by its lane; `None` for work whose launch is unknown.
    Thread(Option<u32>),
    /// Threads that run no operator and make no call.
    IdleThreads,
    /// A function or line of user code.
    Line(LineId),
    Module(u32),
    NoModule,
    Operator(StrId),
    Call(StrId),
    Kernel(StrId),
    /// A frame, operator, call or kernel, where these are not told apart.
    Event(StrId),
    NoOperator,
    /// Work of the backward pass of the line above.
    Backward,
    Unlinked,
}

/// The stacks of a rank while they are collected.
pub(crate) struct StackFold<'a> {
    pub(crate) calls: &'a CallForest<'a>,
    pub(crate) tree: StackTree<StackName>,
    /// By row of a Python frame: the thread in whose stacks it was last met, and its node there; `None` for
    /// library code that no user code called. A caller may be on another thread. Empty until a frame is met.
    frames: Vec<(u32, Option<u32>)>,
    /// Node of each operator and call by position.
    events: Vec<Option<u32>>,
}

impl<'a> StackFold<'a> {
    pub(crate) fn new(calls: &'a CallForest<'a>) -> Self {
        let events = vec![None; calls.forest.call_count()];
        Self { calls, tree: StackTree::default(), frames: Vec::new(), events }
    }

    /// Node of a thread.
    pub(crate) fn thread(&mut self, lane: u32) -> u32 {
        self.tree.below(None, StackName::Thread(Some(lane)))
    }

    /// Node of a Python frame in the stacks of a thread, if it is known.
    fn known_frame(&self, lane: u32, row: u32) -> Option<Option<u32>> {
        self.frames.get(row as usize).filter(|(of, _)| *of == lane).map(|(_, node)| *node)
    }

    fn keep_frame(&mut self, lane: u32, row: u32, node: Option<u32>) {
        if self.frames.is_empty() {
            self.frames = vec![(u32::MAX, None); self.calls.trace.classes.len()];
        }
        self.frames[row as usize] = (lane, node);
    }

    /// Node of a Python frame in the stacks of a thread, below its callers as recorded.
    pub(crate) fn frame(&mut self, lane: u32, row: u32) -> u32 {
        let trace = self.calls.trace;
        let known = |r| self.known_frame(lane, r);
        // Stops in cycles, which wrong ids can form.
        let (path, known) = outward(Some(row), trace.classes.len(), known, |r| trace.stacks.parent(r));
        let mut node = known.flatten().unwrap_or_else(|| self.thread(lane));
        for r in path.into_iter().rev() {
            node = self.tree.below(Some(node), StackName::Event(trace.columns.name(r as usize)));
            self.keep_frame(lane, r, Some(node));
        }
        node
    }

    /// Node of the user code at the instants of a thread at which a frame is the innermost: functions, and
    /// the lines from which they call. `above` is the root of these stacks.
    pub(crate) fn user_code(
        &mut self,
        lines: &Lines,
        lane: u32,
        above: Option<u32>,
        row: Option<u32>,
    ) -> u32 {
        let known = |r| self.known_frame(lane, r);
        let (path, known) = outward(row, usize::MAX, known, |r| lines.frame(r).and_then(|f| f.outer));
        let mut node = known.flatten();
        for r in path.into_iter().rev() {
            let Some(frame) = lines.frame(r) else { continue };
            let function = (frame.kind == FrameKind::User).then_some(frame.function);
            for line in frame.called_at.into_iter().chain(function) {
                node = Some(self.tree.below(node.or(above), StackName::Line(line)));
            }
            self.keep_frame(lane, r, node);
        }
        let outside = if row.is_some() { NO_USER_CODE } else { NO_PYTHON };
        node.unwrap_or_else(|| self.tree.below(above, StackName::Line(outside)))
    }

    /// Node of the operator or call at a position. `name` gives the name of an operator (true) or call, and
    /// none to leave it out; `around` the node around the outermost one.
    pub(crate) fn event(
        &mut self,
        position: u32,
        name: impl Fn(bool, StrId) -> Option<StackName>,
        around: impl FnOnce(&mut Self, u32) -> u32,
    ) -> u32 {
        let calls = self.calls;
        let known = |p: u32| self.events[p as usize];
        let (path, known) = outward(Some(position), usize::MAX, known, |p| calls.forest.parent(p));
        let root = path.last().copied().unwrap_or(position);
        let mut node = known.unwrap_or_else(|| around(self, root));
        for p in path.into_iter().rev() {
            if let Some(name) = name(calls.is_op(p), calls.trace.columns.name(calls.row(p) as usize)) {
                node = self.tree.below(Some(node), name);
            }
            self.events[p as usize] = Some(node);
        }
        node
    }

    /// Charges each piece of host time to the node that `node` gives for a lane, and a row with its position
    /// in the forest of calls.
    pub(crate) fn host_time(&mut self, mut node: impl FnMut(&mut Self, u32, u32, Option<u32>) -> u32) {
        each_host_piece(self.calls.trace, |lane, row, ns| {
            let position = self.calls.forest.position(row);
            let node = node(self, lane, row, position);
            self.tree.add(node, ns);
        });
    }

    /// Charges activities below a node: one of their three values.
    pub(crate) fn activities(&mut self, node: u32, all: &[u32], name: fn(StrId) -> StackName, which: usize) {
        let activities = &self.calls.trace.activities;
        for a in all.iter().filter_map(|i| activities.get(*i as usize)) {
            let node = self.tree.below(Some(node), name(a.name));
            self.tree.add_to(node, which, a.span.len());
        }
    }

    /// Charges the activities whose launch is unknown.
    pub(crate) fn unlinked(&mut self, above: Option<StackName>, name: fn(StrId) -> StackName, which: usize) {
        let all = &self.calls.trace.launches().unlinked;
        if !all.is_empty() {
            let above = above.map(|above| self.tree.below(None, above));
            let node = self.tree.below(above, StackName::Unlinked);
            self.activities(node, all, name, which);
        }
    }
}

/// The frames or calls from one outward up to the first whose node is known, and that node. At most `most`.
fn outward<N>(
    from: Option<u32>,
    most: usize,
    known: impl Fn(u32) -> Option<N>,
    outer: impl Fn(u32) -> Option<u32>,
) -> (Vec<u32>, Option<N>) {
    let mut path = Vec::new();
    let mut at = from;
    while let Some(i) = at.filter(|_| path.len() < most) {
        if let Some(node) = known(i) {
            return (path, Some(node));
        }
        path.push(i);
        at = outer(i);
    }
    (path, None)
}
