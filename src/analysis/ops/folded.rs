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
//! A partial is a tree of names, bounded by the number of distinct stacks of a rank; it is converted to text at the
//! end.

use crate::analysis::api::Partial;
use crate::analysis::ops::keys::{NO_OPERATOR, UNLINKED};
use crate::facts::calls::CallForest;
use crate::facts::modules::around;
use crate::table;
use crate::table::schema::{Batch, Table};
use crate::trace::category::Class;
use crate::trace::strings::StrId;
use crate::trace::thread::sort_outer_first;
use crate::units::Ns;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

table! {
    /// A tree of stacks: a row is a name below the row `parent`. Not written, only reduced.
    pub struct StackNodes, StackNodeRow = "stack_nodes" by "parents first" {
        parent: Option<u32>, "", "row of the node above";
        name: crate::table::schema::Text, "", "frame, operator, call or kernel";
        value_ns: i64, "ns", "of this stack itself";
    }
}

/// Largest number of frames of a stack; deeper calls count for the last of them.
const MOST_FRAMES: u32 = 1_000;

/// The values of folded stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Host time.
    Host,
    /// Durations of the launched GPU work.
    Gpu,
}

/// Distinct stacks as a tree of names.
#[derive(Debug)]
struct Tree<N> {
    known: HashMap<(Option<u32>, N), u32>,
    /// Parent, name, depth and value of each node.
    nodes: Vec<(Option<u32>, N, u32, Ns)>,
}

impl<N: Copy + Eq + Hash> Tree<N> {
    fn new() -> Self {
        Self { known: HashMap::new(), nodes: Vec::new() }
    }

    /// The child of a node with a name; at the largest depth the node itself.
    fn below(&mut self, parent: Option<u32>, name: N) -> u32 {
        let depth = parent.map_or(0, |p| self.nodes[p as usize].2 + 1);
        if let Some(parent) = parent.filter(|_| depth >= MOST_FRAMES) {
            return parent;
        }
        *self.known.entry((parent, name)).or_insert_with(|| {
            self.nodes.push((parent, name, depth, 0));
            (self.nodes.len() - 1) as u32
        })
    }

    fn add(&mut self, node: u32, ns: Ns) {
        self.nodes[node as usize].3 += ns;
    }
}

/// A name in a stack of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Of(StrId),
    NoOperator,
    Unlinked,
}

/// One rank's stacks.
pub fn fold(calls: &CallForest, weight: Weight) -> Batch {
    let mut fold = Fold {
        calls,
        tree: Tree::new(),
        frames: vec![None; calls.trace.classes.len()],
        events: vec![None; calls.forest.len()],
        around: around(calls.trace, &calls.forest.rows, Class::Python),
    };
    match weight {
        Weight::Host => fold.host(),
        Weight::Gpu => fold.gpu(),
    }
    let mut table = StackNodes::default();
    for (parent, name, _, value_ns) in &fold.tree.nodes {
        let name = match name {
            Name::Of(id) => calls.trace.text(*id),
            Name::NoOperator => NO_OPERATOR,
            Name::Unlinked => UNLINKED,
        };
        table.push(StackNodeRow { parent: *parent, name, value_ns: *value_ns });
    }
    table.finish()
}

struct Fold<'a> {
    calls: &'a CallForest<'a>,
    tree: Tree<Name>,
    /// Node of each Python frame by row, created when needed.
    frames: Vec<Option<u32>>,
    /// Node of each operator and call by position, created when needed.
    events: Vec<Option<u32>>,
    /// Python frame around each position.
    around: Vec<Option<u32>>,
}

impl Fold<'_> {
    /// Node of a Python frame.
    fn frame(&mut self, row: u32) -> u32 {
        let trace = self.calls.trace;
        let mut path = Vec::new();
        let mut at = Some(row);
        // Stops in cycles, which wrong ids can form.
        while let Some(r) = at.filter(|&r| self.frames[r as usize].is_none() && path.len() < self.frames.len()) {
            path.push(r);
            at = trace.stacks.parent(r);
        }
        let mut node = at.and_then(|r| self.frames[r as usize]);
        while let Some(r) = path.pop() {
            let own = self.tree.below(node, Name::Of(trace.columns.name(r as usize)));
            self.frames[r as usize] = Some(own);
            node = Some(own);
        }
        self.frames[row as usize].unwrap_or_default()
    }

    /// Node of an operator or call. If `ops` is set, calls are skipped, so there may be none.
    fn event(&mut self, position: u32, ops: bool) -> Option<u32> {
        let calls = self.calls;
        let mut path = Vec::new();
        let mut at = Some(position);
        let mut root = position;
        while let Some(p) = at.filter(|&p| self.events[p as usize].is_none()) {
            path.push(p);
            root = p;
            at = calls.forest.parent(p);
        }
        let mut node = match at {
            Some(p) => self.events[p as usize],
            None => self.around[root as usize].map(|f| self.frame(f)),
        };
        while let Some(p) = path.pop() {
            if !ops || calls.is_op(p) {
                let row = calls.row(p) as usize;
                node = Some(self.tree.below(node, Name::Of(calls.trace.columns.name(row))));
            }
            self.events[p as usize] = node;
        }
        node
    }

    fn host(&mut self) {
        let trace = self.calls.trace;
        let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, class) in trace.classes.iter().enumerate() {
            if matches!(class, Class::HostOp | Class::Runtime | Class::Python) {
                threads.entry(trace.columns.lane[row]).or_default().push(row as u32);
            }
        }
        for rows in threads.values_mut() {
            sort_outer_first(rows, &trace.columns);
            let end = |r: u32| trace.span(r).end;
            innermost(
                rows,
                |r| (trace.columns.ts[r as usize], end(r)),
                |row, ns| {
                    let node = match self.calls.forest.position(row) {
                        Some(p) => self.event(p, false),
                        None => Some(self.frame(row)),
                    };
                    if let Some(node) = node {
                        self.tree.add(node, ns);
                    }
                },
            );
        }
    }

    fn gpu(&mut self) {
        let trace = self.calls.trace;
        for &(p, i) in &self.calls.below.launched {
            let a = &trace.activities[i as usize];
            let around = match self.event(p, true) {
                Some(node) => node,
                None => self.tree.below(None, Name::NoOperator),
            };
            let node = self.tree.below(Some(around), Name::Of(a.name));
            self.tree.add(node, a.span.len());
        }
        for &i in &trace.launches().unlinked {
            let a = &trace.activities[i as usize];
            let unlinked = self.tree.below(None, Name::Unlinked);
            let node = self.tree.below(Some(unlinked), Name::Of(a.name));
            self.tree.add(node, a.span.len());
        }
    }
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

/// The stacks of all ranks as text: sorted, with equal stacks summed.
pub fn text(partials: &[Partial]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut ids: HashMap<String, u32> = HashMap::new();
    let mut tree: Tree<u32> = Tree::new();
    for batch in partials.iter().filter_map(|p| p.table(StackNodes::SPEC)) {
        let mut nodes: Vec<u32> = Vec::with_capacity(batch.len());
        for row in StackNodes::rows(batch) {
            let name = row.name;
            let id = match ids.get(name) {
                Some(id) => *id,
                None => {
                    let id = names.len() as u32;
                    names.push(name.to_string());
                    ids.insert(name.to_string(), id);
                    id
                }
            };
            let parent = row.parent.and_then(|p| nodes.get(p as usize)).copied();
            let node = tree.below(parent, id);
            tree.add(node, row.value_ns);
            nodes.push(node);
        }
    }
    let shown: Vec<String> = names.iter().map(|n| frame_name(n)).collect();
    // Names that look the same are merged into one frame.
    let mut lines: BTreeMap<String, Ns> = BTreeMap::new();
    let mut stack = Vec::new();
    for (node, (_, _, _, value)) in tree.nodes.iter().enumerate().filter(|n| n.1.3 > 0) {
        stack.clear();
        let mut at = Some(node as u32);
        while let Some((parent, name, ..)) = at.and_then(|n| tree.nodes.get(n as usize)) {
            stack.push(shown[*name as usize].as_str());
            at = *parent;
        }
        stack.reverse();
        *lines.entry(stack.join(";")).or_default() += value;
    }
    lines.iter().map(|(stack, ns)| format!("{stack} {ns}\n")).collect()
}

/// A name without the characters that separate frames and lines.
fn frame_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| {
            if c == ';' {
                '_'
            } else if c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect();
    if clean.is_empty() { "[no name]".to_string() } else { clean }
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

    #[test]
    fn names_lose_what_separates_frames() {
        assert_eq!(frame_name("a;b\nc"), "a_b c");
        assert_eq!(frame_name(""), "[no name]");
    }

    #[test]
    fn stacks_deeper_than_the_limit_count_to_their_last_frame() {
        let mut tree: Tree<u32> = Tree::new();
        let deepest = (0..100_000).fold(None, |at, _| Some(tree.below(at, 7)));
        assert_eq!((tree.nodes.len(), deepest), (MOST_FRAMES as usize, Some(MOST_FRAMES - 1)));
    }
}
