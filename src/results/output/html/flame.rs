//! The data of the flame graph: call trees of host and GPU time, of all ranks as one and of single ranks.
//!
//! The grid `tree` has one row per node, trees one after the other:
//!
//! ```text
//!   rank         null: all ranks as one tree, which comes first; otherwise the tree of this rank
//!   parent       row of the grid with the node above, which comes earlier; null for a root
//!   kind, name   what it is, and how it is called
//!   host_ns, gpu_ns, bwd_gpu_ns   of the node itself: the length of a bar is the sum over the node and all below it
//!   merged       number of smaller nodes that a node named `[small]` sums; 0 otherwise
//! ```
//!
//! Nodes are matched across ranks by kind and name along the path from the root. Trees of the page have a
//! limited number of nodes; what is left out is in `[small]`, so no tree loses time.

use crate::output::html::detailed::detailed_ranks;
use crate::output::html::grid::{Cell, Grid, Section, missing};
use crate::output::html::overview::PageRanks;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::ops::flame::{Flame, OTHER, SMALL};
use hta_analysis::stacks::{FlameNode, StackTree, keep_largest};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::wording::counts::plural;
use hta_trace::strings::{Interner, StrId};

/// Largest number of named nodes of the tree of all ranks, and of one of a single rank.
const MOST_OF_ALL: usize = 4_000;
const MOST_OF_ONE: usize = 1_500;
/// Largest number of ranks with a tree of their own.
const MOST_RANKS: usize = 8;
/// Number of nodes of a tree above which new names are not told apart, so that memory is bounded.
const ROOM: usize = 1 << 19;

columns! {
    Node of Flame {
        rank, parent: Option<u32>, kind: Text, name: Text, host_self_ns: i64, gpu_sum_ns: i64,
        bwd_gpu_sum_ns: i64, merged_count: u64,
    }
}

table! {
    /// Nodes of the flame graphs.
    struct ShownFlame, ShownFlameRow = "flame" by "rank, parent" {
        rank: Option<u32>, "", "rank of the tree; none: all ranks";
        parent: Option<i64>, "", "row with the node above; none for a root";
        kind: Text, "", "function, line, operator, runtime_call, kernel, or other";
        name: Text, "", "name; of a kernel the short one";
        host_ns: i64, "ns", "time of threads in the node itself", "host time";
        gpu_ns: i64, "ns", "GPU work of this name launched by the node above", "GPU time";
        bwd_gpu_ns: i64, "ns", "the same, of the backward pass", "backward GPU time";
        merged: u64, "", "number of smaller nodes that it sums";
    }
}

/// A tree whose nodes are matched by their names.
#[derive(Default)]
struct NamedTree {
    names: StackTree<(StrId, StrId)>,
    nodes: Vec<FlameNode>,
    /// By number of a row of the rank that is being read: its node.
    of_row: Vec<u32>,
    rank: Option<u32>,
}

impl NamedTree {
    /// Adds a row of a rank. Rows come by rank, parents first.
    fn add(&mut self, r: &Node, interner: &mut Interner) {
        if self.rank != Some(r.rank) {
            self.rank = Some(r.rank);
            self.of_row.clear();
        }
        let small = (interner.intern(OTHER), interner.intern(SMALL));
        let parent = r.parent.and_then(|p| self.of_row.get(p as usize).copied());
        let is_full = self.nodes.len() >= ROOM;
        let name = if is_full { small } else { (interner.intern(r.kind), interner.intern(r.name)) };
        let is_in_small = parent.and_then(|p| self.nodes.get(p as usize)).is_some_and(|p| p.merged > 0);
        let place = match parent.filter(|_| is_in_small) {
            Some(parent) => parent,
            None => self.names.below(parent, name),
        };
        self.of_row.push(place);
        if self.nodes.len() <= place as usize {
            self.nodes.resize(place as usize + 1, FlameNode { parent, ..FlameNode::default() });
        }
        let Some(node) = self.nodes.get_mut(place as usize) else { return };
        for (sum, value) in node.values.iter_mut().zip([r.host_self_ns, r.gpu_sum_ns, r.bwd_gpu_sum_ns]) {
            *sum = sum.saturating_add(value);
        }
        node.merged += if is_full || is_in_small { r.merged_count.max(1) } else { r.merged_count };
    }

    /// Adds its largest nodes to the grid. Returns how many others they sum.
    fn show(
        &self,
        rank: Option<u32>,
        most: usize,
        grid: &mut Grid,
        texts: &mut Texts,
        interner: &Interner,
    ) -> u64 {
        let first = grid.len();
        let names: Vec<(StrId, StrId)> = self.names.nodes().map(|(_, name)| name).collect();
        let mut merged = 0;
        for (of, node) in keep_largest(&self.nodes, most) {
            let name = of.and_then(|of| names.get(of as usize));
            let (kind, name) =
                name.map_or((OTHER, SMALL), |(kind, name)| (interner.get(*kind), interner.get(*name)));
            let [host, gpu, bwd_gpu] = node.values;
            grid.push([
                rank.into(),
                node.parent.map(|p| first + p as usize).into(),
                texts.cell(kind),
                texts.cell(name),
                Cell::Int(host),
                Cell::Int(gpu),
                Cell::Int(bwd_gpu),
                node.merged.into(),
            ]);
            merged += node.merged;
        }
        merged
    }
}

/// The section.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn section(
    results: &Results,
    ranks: &PageRanks,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let chosen = detailed_ranks(results, ranks, MOST_RANKS)?;
    let mut interner = Interner::default();
    let mut all = NamedTree::default();
    let mut single: Vec<(u32, NamedTree)> = chosen.iter().map(|rank| (*rank, NamedTree::default())).collect();
    let there = results.read::<Node>(|r| {
        all.add(&r, &mut interner);
        if let Some((_, tree)) = single.iter_mut().find(|(rank, _)| *rank == r.rank) {
            tree.add(&r, &mut interner);
        }
    })?;
    if all.nodes.is_empty() {
        let none = "No operators, calls or kernels were recorded.";
        return Ok(Section::without(if there { none.to_string() } else { missing("flame") }));
    }
    let mut grid = Grid::whole(ShownFlame::SPEC);
    let mut merged = all.show(None, MOST_OF_ALL, &mut grid, texts, &interner);
    if ranks.captures.len() > 1 {
        for (rank, tree) in &single {
            merged += tree.show(Some(*rank), MOST_OF_ONE, &mut grid, texts, &interner);
        }
    }
    let mut section = Section::default();
    if merged > 0 {
        section.notes.push(format!("`{SMALL}` sums nodes that are too small to be shown."));
    }
    let left_out = ranks.captures.len().saturating_sub(single.len());
    if left_out > 0 {
        let others = plural(left_out, "other rank");
        section
            .notes
            .push(format!("The {others} are only in the tree of all ranks; the table has each of them."));
    }
    Ok(section.with("tree", grid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_ranks_with_the_same_path_are_one() {
        let mut interner = Interner::default();
        let mut tree = NamedTree::default();
        let row = |rank, parent, name, host_self_ns| Node {
            rank,
            parent,
            kind: "operator",
            name,
            host_self_ns,
            gpu_sum_ns: 0,
            bwd_gpu_sum_ns: 0,
            merged_count: 0,
        };
        //   rank 0   a 1 - b 2          rank 1   b 4
        //                                        a 8 - b 16
        for r in [row(0, None, "a", 1), row(0, Some(0), "b", 2)] {
            tree.add(&r, &mut interner);
        }
        for r in [row(1, None, "b", 4), row(1, None, "a", 8), row(1, Some(1), "b", 16)] {
            tree.add(&r, &mut interner);
        }
        let values: Vec<(Option<u32>, i64)> = tree.nodes.iter().map(|n| (n.parent, n.values[0])).collect();
        assert_eq!(values, [(None, 9), (Some(0), 18), (None, 4)]);
    }
}
