//! Folded stacks for flame-graph tools: `root;...;leaf value`, one line per distinct stack, values in ns.
//!
//! Python frames are the outer part, by their recorded parents; operators and calls are nested below the frame that is
//! open on their thread when the outermost of them starts. `self` gives every instant of a thread to the innermost open
//! event, so values add up to the time in which anything is open, even if events overlap:
//!
//! ```text
//!   frame      f...................             f          12
//!   operator       A........    B..             f;A         5
//!   call               r...                     f;A;r       4
//!                                               f;B         3
//! ```
//!
//! A partial is a tree of names for each thread, bounded by the number of distinct stacks of a rank; it is converted to
//! text at the end ([`crate::stacks`]).

use crate::facts::calls::CallForest;
use crate::facts::graphs::nodes::GraphNodes;
use crate::facts::modules::around;
use crate::ops::keys::{NO_OPERATOR, UNLINKED};
use crate::stacks::{StackTree, Weight, thread_name};
use hta_base::table::schema::Batch;
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::thread::sort_outer_first;
use std::collections::{BTreeMap, HashMap};

/// A name in a stack of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FoldedName {
    /// A thread by its lane; `None` for work whose launch is unknown.
    Thread(Option<u32>),
    Of(StrId),
    NoOperator,
    Unlinked,
}

/// One rank's stacks.
pub(crate) fn fold(calls: &CallForest, weight: Weight) -> Batch {
    let mut fold = OperatorFold {
        calls,
        tree: StackTree::default(),
        frames: HashMap::new(),
        events: vec![None; calls.forest.len()],
        around: around(calls.trace, &calls.forest.rows, Class::Python),
    };
    match weight {
        Weight::Host => fold.host(),
        Weight::Gpu => fold.gpu(),
    }
    let trace = calls.trace;
    fold.tree.table(|name| match name {
        FoldedName::Thread(Some(lane)) => thread_name(&trace.columns, lane),
        FoldedName::Thread(None) => String::new(),
        FoldedName::Of(id) => trace.text(id).to_string(),
        FoldedName::NoOperator => NO_OPERATOR.to_string(),
        FoldedName::Unlinked => UNLINKED.to_string(),
    })
}

struct OperatorFold<'a> {
    calls: &'a CallForest<'a>,
    tree: StackTree<FoldedName>,
    /// Node of each Python frame by thread and row, created when needed. A caller may be on another thread.
    frames: HashMap<(u32, u32), u32>,
    /// Node of each operator and call by position, created when needed.
    events: Vec<Option<u32>>,
    /// Python frame around each position.
    around: Vec<Option<u32>>,
}

impl OperatorFold<'_> {
    /// Node of a thread.
    fn thread(&mut self, lane: u32) -> u32 {
        self.tree.below(None, FoldedName::Thread(Some(lane)))
    }

    /// Node of a Python frame in the stacks of a thread.
    fn frame(&mut self, lane: u32, row: u32) -> u32 {
        let trace = self.calls.trace;
        let mut path = Vec::new();
        let mut at = Some(row);
        // Stops in cycles, which wrong ids can form.
        while let Some(r) = at.filter(|&r| !self.frames.contains_key(&(lane, r)) && path.len() < trace.classes.len()) {
            path.push(r);
            at = trace.stacks.parent(r);
        }
        let known = at.and_then(|r| self.frames.get(&(lane, r)).copied());
        let mut node = known.unwrap_or_else(|| self.thread(lane));
        while let Some(r) = path.pop() {
            node = self.tree.below(Some(node), FoldedName::Of(trace.columns.name(r as usize)));
            self.frames.insert((lane, r), node);
        }
        node
    }

    /// Node of an operator or call. If `ops` is set, calls are skipped, so that it may be the node of a thread.
    fn event(&mut self, position: u32, ops: bool) -> u32 {
        let calls = self.calls;
        let lane = calls.trace.columns.lane[calls.row(position) as usize];
        let mut path = Vec::new();
        let mut at = Some(position);
        let mut root = position;
        while let Some(p) = at.filter(|&p| self.events[p as usize].is_none()) {
            path.push(p);
            root = p;
            at = calls.forest.parent(p);
        }
        let known = at.and_then(|p| self.events[p as usize]);
        let around = self.around[root as usize];
        let mut node = known.unwrap_or_else(|| match around {
            Some(frame) => self.frame(lane, frame),
            None => self.thread(lane),
        });
        while let Some(p) = path.pop() {
            if !ops || calls.is_op(p) {
                let row = calls.row(p) as usize;
                node = self.tree.below(Some(node), FoldedName::Of(calls.trace.columns.name(row)));
            }
            self.events[p as usize] = Some(node);
        }
        node
    }

    fn host(&mut self) {
        let trace = self.calls.trace;
        for rows in threads(trace).values() {
            innermost_events(trace, rows, |row, ns| {
                let node = match self.calls.forest.position(row) {
                    Some(p) => self.event(p, false),
                    None => self.frame(trace.columns.lane[row as usize], row),
                };
                self.tree.add(node, ns);
            });
        }
    }

    fn gpu(&mut self) {
        let trace = self.calls.trace;
        let nodes = GraphNodes::of(trace);
        for &(p, i) in &self.calls.below.launched {
            let a = &trace.activities[i as usize];
            let thread = self.thread(trace.columns.lane[self.calls.row(p) as usize]);
            let around = match (self.event(p, true), nodes.operator_of(i)) {
                // In a graph: below the launch call the operators of its capture.
                (node, Some(operator)) => {
                    let mut names: Vec<StrId> =
                        nodes.outward(operator).filter_map(|o| nodes.operator(o)).map(|o| o.name).collect();
                    names.reverse();
                    names.into_iter().fold(node, |node, name| self.tree.below(Some(node), FoldedName::Of(name)))
                }
                (node, None) if node == thread => self.tree.below(Some(thread), FoldedName::NoOperator),
                (node, None) => node,
            };
            let node = self.tree.below(Some(around), FoldedName::Of(a.name));
            self.tree.add(node, a.span.len());
        }
        for &i in &trace.launches().unlinked {
            let a = &trace.activities[i as usize];
            let nowhere = self.tree.below(None, FoldedName::Thread(None));
            let unlinked = self.tree.below(Some(nowhere), FoldedName::Unlinked);
            let node = self.tree.below(Some(unlinked), FoldedName::Of(a.name));
            self.tree.add(node, a.span.len());
        }
    }
}

/// Rows of the host events of each thread, outer before inner.
pub(crate) fn threads(trace: &RankTrace) -> BTreeMap<u32, Vec<u32>> {
    let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (row, class) in trace.classes.iter().enumerate() {
        if matches!(class, Class::HostOp | Class::Runtime | Class::Python) {
            threads.entry(trace.columns.lane[row]).or_default().push(row as u32);
        }
    }
    for rows in threads.values_mut() {
        sort_outer_first(rows, &trace.columns);
    }
    threads
}

/// Calls `give` with the innermost open event and its time, for all pieces of time of a thread. `rows` must be sorted
/// outer first.
pub(crate) fn innermost_events(trace: &RankTrace, rows: &[u32], give: impl FnMut(u32, Ns)) {
    innermost(rows, |r| (trace.columns.ts[r as usize], trace.span(r).end), give);
}

/// Calls `give` with pieces of time and the innermost open event of one thread. `rows` must be sorted outer first.
fn innermost(rows: &[u32], span: impl Fn(u32) -> (Ns, Ns), mut give: impl FnMut(u32, Ns)) {
    let mut open: Vec<(u32, Ns)> = Vec::new();
    let mut at = Ns::MIN;
    let ends = rows.iter().map(|&r| (span(r), Some(r))).chain([((Ns::MAX, Ns::MAX), None)]);
    for ((start, end), row) in ends {
        while let Some(&(top, until)) = open.last() {
            let stop = until.min(start);
            if stop > at {
                give(top, stop - at);
                at = stop;
            }
            if until > start {
                break;
            }
            open.pop();
        }
        at = start;
        if let Some(row) = row.filter(|_| end > start) {
            open.push((row, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instant_goes_to_the_innermost_open_event() {
        //  0 [0,12)   1 [4,9)   2 [6,20) overlaps in part   3 [30,30) empty
        let spans = [(0, 12), (4, 9), (6, 20), (30, 30)];
        let mut given = [0; 4];
        innermost(&[0, 1, 2, 3], |r| spans[r as usize], |r, ns| given[r as usize] += ns);
        assert_eq!(given, [4, 2, 14, 0]);
    }
}
