//! Stacks with values, for flame graphs: a tree of names for each thread or device of a rank, as a table that
//! partials keep, and its two formats, folded text and speedscope. Values are ns of threads, and bytes of
//! devices.

mod fold;
mod folded;
mod host_time;
mod largest;
mod speedscope;

pub(crate) use fold::{StackFold, StackName};
pub use folded::folded;
pub use largest::{FlameNode, keep_largest};

use crate::api::{OutputFile, Partial};
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_trace::events::Columns;
use hta_trace::strings::StrId;
use std::hash::Hash;

table! {
    /// A tree of stacks: a row is a name below the row `parent`. Not written, only reduced.
    pub(crate) struct StackNodes, StackNodeRow = "stack_nodes" by "parents first" {
        parent: Option<u32>, "", "row of the node above; null for a thread or device";
        name: Text, "",
            "frame, operator, call or kernel; of a thread its process and number, of a device its name";
        value: i64, "", "of this stack itself: ns, or bytes of memory";
    }
}

/// The values of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Host time.
    Host,
    /// Durations of the launched GPU work.
    Gpu,
}

impl Weight {
    /// What the values are.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Weight::Gpu => "GPU time",
            Weight::Host => "host time",
        }
    }

    /// The weight that an option names.
    pub(crate) fn named(text: Option<&str>) -> Option<Self> {
        match text {
            Some("self") => Some(Weight::Host),
            Some("gpu") => Some(Weight::Gpu),
            _ => None,
        }
    }
}

/// The unit of the values, and what a root is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackUnit {
    /// Time of threads.
    Nanoseconds,
    /// Memory of devices.
    Bytes,
}

impl StackUnit {
    /// As in a file of speedscope.
    fn name(self) -> &'static str {
        match self {
            StackUnit::Nanoseconds => "nanoseconds",
            StackUnit::Bytes => "bytes",
        }
    }

    fn root(self) -> &'static str {
        match self {
            StackUnit::Nanoseconds => "thread",
            StackUnit::Bytes => "device",
        }
    }
}

/// A file for speedscope with the stacks of all ranks; `title` says what the values are.
pub fn speedscope_file(path: &str, title: &str, unit: StackUnit, partials: &[Partial]) -> OutputFile {
    OutputFile { path: path.to_string(), text: speedscope::text(partials, &format!("hta: {title}"), unit) }
}

/// Largest number of frames of a stack; deeper calls count for the last of them.
const MOST_FRAMES: u32 = 1_000;

/// Distinct stacks as a tree of names. Roots are threads.
#[derive(Debug)]
pub struct StackTree<N> {
    known: HashMap<(Option<u32>, N), u32>,
    nodes: Vec<StackNode<N>>,
}

#[derive(Debug)]
struct StackNode<N> {
    parent: Option<u32>,
    name: N,
    depth: u32,
    values: [i64; 3],
}

impl<N> Default for StackTree<N> {
    fn default() -> Self {
        Self { known: HashMap::new(), nodes: Vec::new() }
    }
}

impl<N: Copy + Eq + Hash> StackTree<N> {
    /// The child of a node with a name; at the largest depth the node itself.
    pub fn below(&mut self, parent: Option<u32>, name: N) -> u32 {
        let depth = parent.and_then(|p| self.nodes.get(p as usize)).map_or(0, |p| p.depth + 1);
        if let Some(parent) = parent.filter(|_| depth > MOST_FRAMES) {
            return parent;
        }
        *self.known.entry((parent, name)).or_insert_with(|| {
            self.nodes.push(StackNode { parent, name, depth, values: [0; 3] });
            (self.nodes.len() - 1) as u32
        })
    }

    pub(crate) fn add(&mut self, node: u32, value: i64) {
        self.add_to(node, 0, value);
    }

    /// Adds to one of the three values of a node.
    pub(crate) fn add_to(&mut self, node: u32, which: usize, value: i64) {
        if let Some(sum) = self.nodes.get_mut(node as usize).and_then(|node| node.values.get_mut(which)) {
            *sum = sum.saturating_add(value);
        }
    }

    /// Parent and name of each node, parents first.
    pub fn nodes(&self) -> impl Iterator<Item = (Option<u32>, N)> {
        self.nodes.iter().map(|node| (node.parent, node.name))
    }

    /// The values of a node.
    pub(crate) fn values(&self, node: u32) -> [i64; 3] {
        self.nodes.get(node as usize).map_or([0; 3], |node| node.values)
    }

    /// The table of the nodes with their first values; `name` gives their texts.
    pub(crate) fn table(&self, name: impl Fn(N) -> String) -> Batch {
        let mut table = StackNodes::default();
        for StackNode { parent, name: own, values, .. } in &self.nodes {
            table.push(StackNodeRow { parent: *parent, name: &name(*own), value: values[0] });
        }
        table.finish()
    }
}

/// Process and number of a thread.
pub(crate) fn thread_name(columns: &Columns, lane: u32) -> String {
    let text = |id: StrId| columns.strings.get(id);
    columns.lanes.get(lane as usize).map_or_else(String::new, |l| format!("{}/{}", text(l.pid), text(l.tid)))
}

/// A stack of a rank that has a value.
struct Stack<'a> {
    /// Its thread or device.
    root: &'a str,
    /// From the root on.
    names: Vec<&'a str>,
    value: i64,
}

/// The stacks of a table that have a value, in order of its rows.
fn stacks(batch: &Batch) -> Vec<Stack<'_>> {
    let rows: Vec<StackNodeRow> = StackNodes::rows(batch).collect();
    let mut all = Vec::new();
    for row in rows.iter().filter(|r| r.value > 0) {
        let mut names = Vec::new();
        let mut at = Some(row);
        while let Some(node) = at {
            names.push(node.name);
            // A parent precedes its child; a partial that says otherwise is cut there.
            at = node
                .parent
                .and_then(|p| rows.get(p as usize))
                .filter(|_| names.len() <= MOST_FRAMES as usize + 1);
        }
        let root = names.pop().unwrap_or_default();
        names.reverse();
        all.push(Stack { root, names, value: row.value });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_deeper_than_the_limit_count_to_their_last_frame() {
        let mut tree: StackTree<u32> = StackTree::default();
        let deepest = (0..100_000).fold(None, |at, _| Some(tree.below(at, 7)));
        assert_eq!((tree.nodes.len(), deepest), (MOST_FRAMES as usize + 1, Some(MOST_FRAMES)));
    }
}
