//! The data of flame graphs: functions and lines of user code, the operators and API calls that run there, and the
//! GPU work that these launch, as one tree of all threads of a rank.
//!
//! ```text
//!   train.py(10): train
//!     train.py:12
//!       aten::linear          host time; GPU time of the kernels below it
//!         cudaLaunchKernel
//!         gemm                GPU time; that of the backward pass of aten::linear in a column of its own
//!   [no python]
//!     AddmmBackward0          host time of the autograd thread
//! ```
//!
//! Library code is left out ([`crate::facts::lines`]). Every instant of a thread counts for the innermost open event and
//! every activity once, so host times add up to the time in which anything is open, and GPU times to all GPU work. Small
//! nodes are summed below their parent, so the table has a bounded number of rows per rank.

use crate::facts::calls::CallForest;
use crate::facts::lines::{Charging, FrameKind, LineId, LineLevel, Lines, NO_PYTHON, NO_USER_CODE};
use crate::ops::folded::{innermost_events, threads};
use crate::ops::keys::UNLINKED;
use crate::stacks::{FlameNode, StackTree, keep_largest};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::Ns;
use hta_trace::kernel::short_name;
use hta_trace::strings::StrId;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

table! {
    /// Call trees for flame graphs: user code, operators, API calls and kernels of all threads of a rank as one tree. Times are those of a row itself, without the rows below it.
    pub struct Flame, FlameRow = "flame" by "rank, node" {
        rank;
        node: u32, "", "number of the row in the tree of its rank; parents come first";
        parent: Option<u32>, "", "node above it; null for a root";
        kind: Text, "", "function or line (of user code), operator, runtime_call, kernel, or other (in brackets)";
        name: Text, "", "function, line, operator or call; short name of a kernel; `[small]`: the sum of smaller rows";
        host_self_ns: i64, "ns", "time in which a thread is here, and in nothing below";
        gpu_sum_ns: i64, "ns", "durations of the kernel, copy or set of this name that the row above launched";
        bwd_gpu_sum_ns: i64, "ns", "the same, of the backward pass of the operator above";
        merged_count: u64, "", "rows that `[small]` sums; otherwise 0";
    }
}

/// Name of the node that sums small ones.
pub const SMALL: &str = "[small]";
/// Kind of names in brackets.
pub const OTHER: &str = "other";

/// Largest number of nodes of a rank that are named.
const MOST: usize = 2_000;

/// A name in a stack of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FlameName {
    Line(LineId),
    Operator(StrId),
    Call(StrId),
    Kernel(StrId),
    Unlinked,
    /// Threads that run no operator and make no call.
    IdleThreads,
}

/// The tree of a rank.
pub(crate) fn table(calls: &CallForest) -> Batch {
    let trace = calls.trace;
    let mut busy = HashSet::new();
    busy.extend(calls.forest.rows.iter().map(|&row| trace.columns.lane[row as usize]));
    let mut making = Making {
        calls,
        lines: Lines::of(trace),
        busy,
        tree: StackTree::default(),
        values: Vec::new(),
        frames: HashMap::new(),
        events: vec![None; calls.forest.len()],
    };
    making.host();
    making.gpu();
    let Making { tree, values, lines, .. } = making;
    let (parents, names): (Vec<Option<u32>>, Vec<FlameName>) = tree.nodes().unzip();
    let labels: Vec<NodeLabel> = names.iter().map(|name| label(calls, &lines, *name)).collect();
    let values = |i: u32| values.get(i as usize).copied().unwrap_or_default();
    let order = outer_first(&parents, |a, b| {
        labels[a as usize].cmp(&labels[b as usize]).then_with(|| values(b).cmp(&values(a)))
    });
    let mut places = vec![0; order.len()];
    for (place, &i) in (0..).zip(&order) {
        places[i as usize] = place;
    }
    let node = |&i: &u32| {
        let parent = parents[i as usize].map(|p| places[p as usize]);
        FlameNode { parent, values: values(i), merged: 0 }
    };
    let nodes: Vec<FlameNode> = order.iter().map(node).collect();
    let small = (OTHER, SMALL.to_string());
    let mut table = Flame::default();
    for (i, (of, node)) in (0..).zip(keep_largest(&nodes, MOST)) {
        let (kind, name) = of.and_then(|of| labels.get(*order.get(of as usize)? as usize)).unwrap_or(&small);
        let [host_self_ns, gpu_sum_ns, bwd_gpu_sum_ns] = node.values;
        table.push(FlameRow {
            rank: trace.rank,
            node: i,
            parent: node.parent,
            kind,
            name,
            host_self_ns,
            gpu_sum_ns,
            bwd_gpu_sum_ns,
            merged_count: node.merged,
        });
    }
    table.finish()
}

/// Kind and name of a node.
type NodeLabel = (&'static str, String);

fn label(calls: &CallForest, lines: &Lines, name: FlameName) -> NodeLabel {
    let text = |id: StrId| calls.trace.text(id);
    match name {
        FlameName::Line(id) => {
            let site = lines.site(id);
            (if site.level == LineLevel::None { OTHER } else { site.level.name() }, site.text())
        }
        FlameName::Operator(id) => ("operator", text(id).to_string()),
        FlameName::Call(id) => ("runtime_call", text(id).to_string()),
        FlameName::Kernel(id) => ("kernel", short_name(text(id))),
        FlameName::Unlinked => (OTHER, UNLINKED.to_string()),
        FlameName::IdleThreads => (OTHER, "[threads without operators]".to_string()),
    }
}

/// The nodes of a tree, each after the one above it and siblings in a given order, so that it does not depend on the order
/// of the events in the file.
fn outer_first(parents: &[Option<u32>], order: impl Fn(u32, u32) -> Ordering) -> Vec<u32> {
    let mut below: Vec<Vec<u32>> = vec![Vec::new(); parents.len()];
    let mut open = Vec::new();
    for (i, parent) in (0..).zip(parents) {
        match parent.and_then(|p| below.get_mut(p as usize)) {
            Some(siblings) => siblings.push(i),
            None => open.push(i),
        }
    }
    open.sort_by(|a, b| order(*b, *a));
    let mut all = Vec::with_capacity(parents.len());
    while let Some(i) = open.pop() {
        all.push(i);
        let mut inside = std::mem::take(&mut below[i as usize]);
        inside.sort_by(|a, b| order(*b, *a));
        open.append(&mut inside);
    }
    all
}

struct Making<'a> {
    calls: &'a CallForest<'a>,
    lines: Arc<Lines>,
    /// Lanes of the threads with operators or calls.
    busy: HashSet<u32>,
    tree: StackTree<FlameName>,
    /// By node: host time, GPU time, and GPU time of the backward pass.
    values: Vec<[Ns; 3]>,
    /// Node of each Python frame by row, created when needed; `None` for library code that no user code called.
    frames: HashMap<u32, Option<u32>>,
    /// Node of each operator and call by position, created when needed.
    events: Vec<Option<u32>>,
}

impl Making<'_> {
    fn add(&mut self, node: u32, value: usize, ns: Ns) {
        let at = node as usize;
        if self.values.len() <= at {
            self.values.resize(at + 1, [0; 3]);
        }
        if let Some(sum) = self.values.get_mut(at).and_then(|v| v.get_mut(value)) {
            *sum = sum.saturating_add(ns);
        }
    }

    /// Node of the instants of a thread at which a frame is the innermost; `None` for no frame.
    fn frame(&mut self, lane: u32, row: Option<u32>) -> u32 {
        let mut path = Vec::new();
        let mut at = row;
        while let Some(r) = at.filter(|r| !self.frames.contains_key(r)) {
            path.push(r);
            at = self.lines.frame(r).and_then(|f| f.outer);
        }
        let above = if self.busy.contains(&lane) { None } else { Some(self.tree.below(None, FlameName::IdleThreads)) };
        let mut node = at.and_then(|r| self.frames.get(&r).copied().flatten());
        while let Some(r) = path.pop() {
            let Some(frame) = self.lines.frame(r).copied() else { continue };
            if let Some(line) = frame.called_at {
                node = Some(self.tree.below(node.or(above), FlameName::Line(line)));
            }
            if frame.kind == FrameKind::User {
                node = Some(self.tree.below(node.or(above), FlameName::Line(frame.function)));
            }
            self.frames.insert(r, node);
        }
        let outside = if row.is_some() { NO_USER_CODE } else { NO_PYTHON };
        node.unwrap_or_else(|| self.tree.below(above, FlameName::Line(outside)))
    }

    /// Node of an operator or call.
    fn event(&mut self, position: u32) -> u32 {
        let calls = self.calls;
        let mut path = Vec::new();
        let mut at = Some(position);
        let mut root = position;
        while let Some(p) = at.filter(|&p| self.events[p as usize].is_none()) {
            path.push(p);
            root = p;
            at = calls.forest.parent(p);
        }
        let mut node = match at.and_then(|p| self.events[p as usize]) {
            Some(known) => known,
            None => {
                let lane = calls.trace.columns.lane[calls.row(root) as usize];
                self.frame(lane, self.lines.frame_at(lane, calls.start(root)))
            }
        };
        while let Some(p) = path.pop() {
            let name = calls.trace.columns.name(calls.row(p) as usize);
            let name = if calls.is_op(p) { FlameName::Operator(name) } else { FlameName::Call(name) };
            node = self.tree.below(Some(node), name);
            self.events[p as usize] = Some(node);
        }
        node
    }

    fn host(&mut self) {
        let trace = self.calls.trace;
        for (lane, rows) in threads(trace) {
            innermost_events(trace, &rows, |row, ns| {
                let node = match self.calls.forest.position(row) {
                    Some(p) => self.event(p),
                    None => self.frame(lane, Some(row)),
                };
                self.add(node, 0, ns);
            });
        }
    }

    fn gpu(&mut self) {
        let (trace, lines) = (self.calls.trace, self.lines.clone());
        let charging = Charging::new(self.calls, &lines);
        for (call, of) in trace.launches().iter() {
            let (lane, start) = (trace.columns.lane[call as usize], trace.span(call).start);
            let position = self.calls.forest.position(call);
            let charge = charging.of(lane, start, position);
            let operator = match charge.forward {
                Some(row) => self.calls.forest.position(row),
                None => position.and_then(|p| self.calls.op(p)),
            };
            let node = match operator {
                Some(p) => self.event(p),
                None => self.frame(charge.lane, lines.frame_at(charge.lane, charge.t)),
            };
            for &i in of {
                let a = &trace.activities[i as usize];
                let node = self.tree.below(Some(node), FlameName::Kernel(a.name));
                self.add(node, if charge.is_backward { 2 } else { 1 }, a.span.len());
            }
        }
        for &i in &trace.launches().unlinked {
            let a = &trace.activities[i as usize];
            let unlinked = self.tree.below(None, FlameName::Unlinked);
            let node = self.tree.below(Some(unlinked), FlameName::Kernel(a.name));
            self.add(node, 1, a.span.len());
        }
    }
}
