//! The data of flame graphs: functions and lines of user code, the operators and API calls that run there,
//! and the GPU work that these launch, as one tree of all threads of a rank.
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
//! Library code is left out ([`hta_facts::lines`]). Every instant of a thread counts for the innermost
//! open event and every activity once, so host times add up to the time in which anything is open, and GPU
//! times to all GPU work. Small nodes are summed below their parent, so the table has a bounded number of
//! rows per rank.

use crate::stacks::{FlameNode, StackFold, StackName, keep_largest};
use hashbrown::HashSet;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_facts::by_owner::UNLINKED;
use hta_facts::calls::CallForest;
use hta_facts::lines::{Charging, LineLevel, Lines};
use hta_trace::kernel::short_name;
use hta_trace::strings::StrId;
use std::cmp::Ordering;

table! {
    /// Call trees for flame graphs: user code, operators, API calls and kernels of all threads of a rank as
    /// one tree. Times are those of a row itself, without the rows below it.
    pub struct Flame, FlameRow = "flame" by "rank, node" {
        rank;
        node: u32, "", "number of the row in the tree of its rank; parents come first";
        parent: Option<u32>, "", "node above it; null for a root";
        kind: Text, "",
            "function or line (of user code), operator, runtime_call, kernel, or other (in brackets)";
        name: Text, "",
            "function, line, operator or call; short name of a kernel; `[small]`: the sum of smaller rows";
        host_self_ns: i64, "ns", "time in which a thread is here, and in nothing below";
        gpu_sum_ns: i64, "ns",
            "durations of the kernel, copy or set of this name that the row above launched";
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

/// The tree of a rank.
pub(crate) fn table(calls: &CallForest) -> Batch {
    let trace = calls.trace;
    let lines = Lines::of(trace);
    let user_code = UserCodeNodes::new(calls, &lines);
    let mut fold = StackFold::new(calls);
    fold.host_time(|fold, lane, row, position| match position {
        Some(p) => user_code.event(fold, p),
        None => user_code.frame(fold, lane, Some(row)),
    });
    gpu(&mut fold, &user_code);
    let (parents, names): (Vec<Option<u32>>, Vec<StackName>) = fold.tree.nodes().unzip();
    let labels: Vec<NodeLabel> = names.iter().map(|name| label(calls, &lines, *name)).collect();
    let values = |i: u32| fold.tree.values(i);
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

fn label(calls: &CallForest, lines: &Lines, name: StackName) -> NodeLabel {
    let text = |id: StrId| calls.trace.text(id);
    match name {
        StackName::Line(id) => {
            let site = lines.site(id);
            (if site.level == LineLevel::None { OTHER } else { site.level.name() }, site.text())
        }
        StackName::Operator(id) => ("operator", text(id).to_string()),
        StackName::Call(id) => ("runtime_call", text(id).to_string()),
        StackName::Kernel(id) => ("kernel", short_name(text(id))),
        StackName::IdleThreads => (OTHER, "[threads without operators]".to_string()),
        _ => (OTHER, UNLINKED.to_string()),
    }
}

/// The nodes of a tree, each after the one above it and siblings in a given order, so that it does not
/// depend on the order of the events in the file.
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

/// The nodes of user code, and of the operators and calls in it.
struct UserCodeNodes<'a> {
    lines: &'a Lines,
    /// Lanes of the threads with operators or calls.
    busy: HashSet<u32>,
}

impl<'a> UserCodeNodes<'a> {
    fn new(calls: &CallForest, lines: &'a Lines) -> Self {
        let busy = calls.forest.rows.iter().map(|&row| calls.trace.columns.lane[row as usize]).collect();
        Self { lines, busy }
    }

    /// Node of the instants of a thread at which a frame is the innermost; `None` for no frame.
    fn frame(&self, fold: &mut StackFold, lane: u32, row: Option<u32>) -> u32 {
        let is_busy = self.busy.contains(&lane);
        let above = (!is_busy).then(|| fold.tree.below(None, StackName::IdleThreads));
        fold.user_code(self.lines, lane, above, row)
    }

    /// Node of an operator or call.
    fn event(&self, fold: &mut StackFold, position: u32) -> u32 {
        let name = |is_op, name| Some(if is_op { StackName::Operator(name) } else { StackName::Call(name) });
        fold.event(position, name, |fold, root| {
            let lane = fold.calls.trace.columns.lane[fold.calls.row(root) as usize];
            self.frame(fold, lane, self.lines.frame_at(lane, fold.calls.start(root)))
        })
    }
}

fn gpu(fold: &mut StackFold, user_code: &UserCodeNodes) {
    let (calls, lines) = (fold.calls, user_code.lines);
    for launch in Charging::new(calls, lines).launches(calls) {
        let charge = launch.charge;
        let operator = match charge.forward {
            Some(row) => calls.forest.position(row),
            None => launch.position.and_then(|p| calls.op(p)),
        };
        let node = match operator {
            Some(p) => user_code.event(fold, p),
            None => user_code.frame(fold, charge.lane, lines.frame_at(charge.lane, charge.t)),
        };
        fold.activities(node, launch.activities, StackName::Kernel, if charge.is_backward { 2 } else { 1 });
    }
    fold.unlinked(None, StackName::Kernel, 1);
}
