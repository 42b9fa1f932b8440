//! Folded stacks for flame-graph tools: `root;...;leaf value`, one line per distinct stack, values in ns.
//!
//! Python frames are the outer part, by their recorded parents; operators and calls are nested below the
//! frame that is open on their thread when the outermost of them starts. `self` gives every instant of a
//! thread to the innermost open event, so values add up to the time in which anything is open, even if
//! events overlap:
//!
//! ```text
//!   frame      f...................             f          12
//!   operator       A........    B..             f;A         5
//!   call               r...                     f;A;r       4
//!                                               f;B         3
//! ```
//!
//! A partial is a tree of names for each thread, bounded by the number of distinct stacks of a rank; it is
//! converted to text at the end ([`crate::stacks`]).

use crate::stacks::{StackFold, StackName, Weight, thread_name};
use hta_base::table::schema::Batch;
use hta_facts::by_owner::{NO_OPERATOR, UNLINKED};
use hta_facts::calls::CallForest;
use hta_facts::graphs::nodes::GraphNodes;
use hta_facts::modules::around;
use hta_trace::category::Class;
use hta_trace::strings::StrId;

/// One rank's stacks.
pub(crate) fn fold(calls: &CallForest, weight: Weight) -> Batch {
    let trace = calls.trace;
    let mut fold = StackFold::new(calls);
    let around = around(trace, &calls.forest.rows, Class::Python);
    match weight {
        Weight::Host => fold.host_time(|fold, lane, row, position| match position {
            Some(p) => event(fold, &around, p, false),
            None => fold.frame(lane, row),
        }),
        Weight::Gpu => gpu(&mut fold, &around),
    }
    fold.tree.table(|name| match name {
        StackName::Thread(Some(lane)) => thread_name(&trace.columns, lane),
        StackName::Event(id) => trace.text(id).to_string(),
        StackName::NoOperator => NO_OPERATOR.to_string(),
        StackName::Unlinked => UNLINKED.to_string(),
        _ => String::new(),
    })
}

/// Node of an operator or call below the Python frame in which the outermost of them starts. If `only_ops`
/// is set, calls are skipped, so that it may be the node of a thread.
fn event(fold: &mut StackFold, around: &[Option<u32>], position: u32, only_ops: bool) -> u32 {
    let name = |is_op: bool, name: StrId| (is_op || !only_ops).then_some(StackName::Event(name));
    fold.event(position, name, |fold, root| {
        let lane = fold.calls.trace.columns.lane[fold.calls.row(root) as usize];
        match around.get(root as usize).copied().flatten() {
            Some(frame) => fold.frame(lane, frame),
            None => fold.thread(lane),
        }
    })
}

fn gpu(fold: &mut StackFold, around: &[Option<u32>]) {
    let calls = fold.calls;
    let nodes = GraphNodes::of(calls.trace);
    for &(p, i) in &calls.below.launched {
        let thread = fold.thread(calls.trace.columns.lane[calls.row(p) as usize]);
        let node = match (event(fold, around, p, true), nodes.operator_of(i)) {
            // In a graph: below the launch call the operators of its capture.
            (node, Some(operator)) => {
                let mut names: Vec<StrId> =
                    nodes.outward(operator).filter_map(|o| nodes.operator(o)).map(|o| o.name).collect();
                names.reverse();
                names.into_iter().fold(node, |node, name| fold.tree.below(Some(node), StackName::Event(name)))
            }
            (node, None) if node == thread => fold.tree.below(Some(thread), StackName::NoOperator),
            (node, None) => node,
        };
        fold.activities(node, &[i], StackName::Event, 0);
    }
    fold.unlinked(Some(StackName::Thread(None)), StackName::Event, 0);
}
