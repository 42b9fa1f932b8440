//! Stacks of user code: functions, and the lines from which they call. Library code is left out.
//!
//! ```text
//!   train.py(10): train ; train.py:12 ; model.py(5): forward ; model.py:7     a call made at line 7 of model.py
//! ```
//!
//! With `--by module` a stack is the path of modules instead.

use crate::facts::calls::CallForest;
use crate::facts::lines::{Charging, FrameKind, LineId, Lines, NO_PYTHON, NO_USER_CODE};
use crate::facts::modules::Modules;
use crate::lines::grouping::NO_MODULE;
use crate::stacks::{StackTree, Weight, thread_name};
use hashbrown::HashMap;
use hta_base::table::schema::Batch;
use hta_base::units::Ns;
use hta_trace::strings::StrId;

/// A name in a stack of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LineStackName {
    /// A thread by its lane; `None` for work whose launch is unknown.
    Thread(Option<u32>),
    Line(LineId),
    Module(u32),
    NoModule,
    Kernel(StrId),
    /// Work of the backward pass of the line above.
    Backward,
    Unlinked,
}

/// One rank's stacks: of modules if these are given.
pub(crate) fn fold(calls: &CallForest, lines: &Lines, modules: Option<&Modules>, weight: Weight) -> Batch {
    let mut fold = LineFold { calls, lines, modules, tree: StackTree::default(), nodes: HashMap::new() };
    match weight {
        Weight::Host => fold.host(),
        Weight::Gpu => fold.gpu(),
    }
    let trace = calls.trace;
    fold.tree.table(|name| match name {
        LineStackName::Thread(Some(lane)) => thread_name(&trace.columns, lane),
        LineStackName::Thread(None) => String::new(),
        LineStackName::Line(id) => lines.site(id).text(),
        LineStackName::Module(m) => modules.map_or_else(String::new, |modules| modules.name(trace, m).to_string()),
        LineStackName::NoModule => NO_MODULE.to_string(),
        LineStackName::Kernel(id) => trace.text(id).to_string(),
        LineStackName::Backward => "[backward]".to_string(),
        LineStackName::Unlinked => "[unlinked]".to_string(),
    })
}

struct LineFold<'a> {
    calls: &'a CallForest<'a>,
    lines: &'a Lines,
    modules: Option<&'a Modules>,
    tree: StackTree<LineStackName>,
    /// Node of each frame by row, created when needed.
    nodes: HashMap<u32, u32>,
}

impl LineFold<'_> {
    fn thread(&mut self, lane: u32) -> u32 {
        self.tree.below(None, LineStackName::Thread(Some(lane)))
    }

    /// Node of the instants of a thread at which a frame is the innermost; `None` for no frame.
    fn frame(&mut self, lane: u32, row: Option<u32>) -> u32 {
        match (self.modules, row) {
            (Some(modules), Some(row)) => self.module(lane, modules.of(Some(row)), modules),
            _ => self.line(lane, row),
        }
    }

    fn module(&mut self, lane: u32, module: Option<u32>, modules: &Modules) -> u32 {
        let mut path = Vec::new();
        let mut at = module;
        while let Some(m) = at {
            path.push(m);
            at = modules.modules.get(m as usize).and_then(|m| m.parent);
        }
        let thread = self.thread(lane);
        if path.is_empty() {
            return self.tree.below(Some(thread), LineStackName::NoModule);
        }
        path.into_iter().rev().fold(thread, |node, m| self.tree.below(Some(node), LineStackName::Module(m)))
    }

    fn line(&mut self, lane: u32, row: Option<u32>) -> u32 {
        let mut path = Vec::new();
        let mut at = row;
        while let Some(r) = at.filter(|r| !self.nodes.contains_key(r)) {
            path.push(r);
            at = self.lines.frame(r).and_then(|f| f.outer);
        }
        let known = at.and_then(|r| self.nodes.get(&r).copied());
        let thread = self.thread(lane);
        let mut node = known.unwrap_or(thread);
        while let Some(r) = path.pop() {
            let Some(frame) = self.lines.frame(r).copied() else { continue };
            if let Some(line) = frame.called_at {
                node = self.tree.below(Some(node), LineStackName::Line(line));
            }
            if frame.kind == FrameKind::User {
                node = self.tree.below(Some(node), LineStackName::Line(frame.function));
            }
            self.nodes.insert(r, node);
        }
        if node != thread {
            return node;
        }
        let outside = if row.is_some() { NO_USER_CODE } else { NO_PYTHON };
        self.tree.below(Some(thread), LineStackName::Line(outside))
    }

    fn host(&mut self) {
        for (lane, innermost) in self.lines.threads() {
            for piece in innermost.from(Ns::MIN) {
                let node = self.frame(*lane, Some(piece.row));
                self.tree.add(node, piece.span.len());
            }
        }
    }

    fn gpu(&mut self) {
        let trace = self.calls.trace;
        let charging = Charging::new(self.calls, self.lines);
        for (call, of) in trace.launches().iter() {
            let (lane, start) = (trace.columns.lane[call as usize], trace.span(call).start);
            let charge = charging.of(lane, start, self.calls.forest.position(call));
            let frame = self.lines.frame_at(charge.lane, charge.t);
            let mut node = self.frame(charge.lane, frame);
            if charge.is_backward {
                node = self.tree.below(Some(node), LineStackName::Backward);
            }
            for &i in of {
                let a = &trace.activities[i as usize];
                let node = self.tree.below(Some(node), LineStackName::Kernel(a.name));
                self.tree.add(node, a.span.len());
            }
        }
        for &i in &trace.launches().unlinked {
            let a = &trace.activities[i as usize];
            let nowhere = self.tree.below(None, LineStackName::Thread(None));
            let unlinked = self.tree.below(Some(nowhere), LineStackName::Unlinked);
            let node = self.tree.below(Some(unlinked), LineStackName::Kernel(a.name));
            self.tree.add(node, a.span.len());
        }
    }
}
