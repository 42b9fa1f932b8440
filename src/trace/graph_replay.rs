//! Launches of graphs, with their activities in the order in which the graph was recorded.
//!
//! All activities of a replay share the correlation of its launch call, and nothing says which recorded call
//! one of them is. So their order matters: that of the graph's nodes where the recorder writes them, else
//! that of the file, which is the order in which the device reported them. The order of starts differs from
//! both where branches of a graph run side by side.

use crate::activity::Activity;
use crate::args::Arg;
use crate::events::Columns;
use crate::launch::{LaunchLinks, is_graph_launch};

/// The graph of an activity, where the recorder writes it.
pub fn graph_of(c: &Columns, row: u32) -> Option<u64> {
    c.args.uint(Arg::GraphId, row).filter(|id| *id != 0)
}

/// The node of a graph that an activity is. Cuspy counts nodes from 0; without a graph 0 stands for none.
pub fn graph_node(c: &Columns, row: u32) -> Option<u64> {
    c.args.uint(Arg::GraphNodeId, row).filter(|id| *id != 0 || graph_of(c, row).is_some())
}

/// All replays of a rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphReplays {
    /// Row of the launch call, and end of its activities in `activities`, in order of (start, row) of the
    /// call.
    calls: Vec<(u32, u32)>,
    activities: Vec<u32>,
    /// Number of replays whose activities start in another order.
    pub reordered: u64,
}

impl GraphReplays {
    /// `launches` are those of `all`.
    pub(crate) fn new(c: &Columns, all: &[Activity], launches: &LaunchLinks) -> Self {
        let mut rows: Vec<(u32, &[u32])> = launches
            .iter()
            .filter(|(row, _)| is_graph_launch(c.strings.get(c.name(*row as usize))))
            .collect();
        rows.sort_by_key(|(row, _)| (c.ts[*row as usize], *row));
        let mut out = Self::default();
        for (row, of) in rows {
            let event = |i: &u32| all.get(*i as usize).map_or(u32::MAX, |a| a.row);
            let node = |i: &u32| graph_node(c, event(i));
            let mut ordered = of.to_vec();
            match of.iter().map(node).collect::<Option<Vec<u64>>>() {
                Some(_) => ordered.sort_by_key(|i| (node(i), event(i))),
                None => ordered.sort_by_key(event),
            }
            out.reordered += u64::from(ordered != of);
            out.activities.extend(ordered);
            out.calls.push((row, out.activities.len() as u32));
        }
        out
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Row of each launch call with indices of its activities.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let from = std::iter::once(0).chain(self.calls.iter().map(|c| c.1));
        from.zip(&self.calls).map(move |(from, (row, until)): (u32, &(u32, u32))| {
            (*row, self.activities.get(from as usize..*until as usize).unwrap_or_default())
        })
    }
}
