//! The operators and API calls of one rank as one forest, with the host and GPU time of each.
//!
//! A GPU activity belongs to the call that launched it. A launch belongs to the operator in which it
//! *starts*, even if it outlasts that operator so that the tree makes it a sibling.

mod backward;
mod busy;
pub mod forest;
pub mod last_cover;

pub use crate::calls::busy::overlapping;

use crate::calls::backward::Backward;
use crate::calls::forest::{Forest, NOWHERE, WorkBelow, alone};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::thread::sort_outer_first;
use std::cmp::Reverse;
use std::ops::Deref;
use std::sync::Arc;

/// The calls of a rank, made by the first that asks.
pub struct CallForest<'a> {
    pub trace: &'a RankTrace,
    calls: Arc<HostCalls>,
}

impl<'a> CallForest<'a> {
    pub fn new(trace: &'a RankTrace) -> Self {
        Self { trace, calls: trace.shared(HostCalls::new) }
    }

    /// For operators: duration without operators and calls inside, ns; for calls 0.
    pub fn host_self_ns(&self, position: u32) -> Ns {
        if self.is_op(position) { self.trace.stacks.self_ns(self.row(position)).unwrap_or(0) } else { 0 }
    }

    /// Start of the event at a position, ns.
    pub fn start(&self, position: u32) -> Ns {
        self.trace.columns.ts[self.row(position) as usize]
    }
}

impl Deref for CallForest<'_> {
    type Target = HostCalls;

    fn deref(&self) -> &HostCalls {
        &self.calls
    }
}

/// Operators and API calls with their times. Vectors are indexed by position in the forest.
pub struct HostCalls {
    pub forest: Forest,
    pub below: WorkBelow,
    /// Per activity: whether it overlaps no other.
    pub alone: Vec<bool>,
    /// The innermost operator at or above each position, or `NOWHERE`.
    ops: Vec<u32>,
    /// Duration within the tree, ns.
    pub host_ns: Vec<Ns>,
    /// For operators: time in their own API calls; for calls outside any operator: their self time, ns.
    pub host_api_ns: Vec<Ns>,
    /// Pairs (position of the operator, or else of the top-level call; activity), in order.
    pub own: Vec<(u32, u32)>,
    pub backward: Backward,
    /// GPU time of the backward operators joined to operators at or below each position, ns; empty if there
    /// are none.
    bwd_gpu_ns: Vec<Ns>,
}

impl HostCalls {
    fn new(trace: &RankTrace) -> Self {
        let rows: Vec<u32> = (0..trace.classes.len() as u32)
            .filter(|&r| matches!(trace.classes[r as usize], Class::HostOp | Class::Runtime))
            .collect();
        let moved = launches_that_outlast_their_operator(trace);
        let stacks = &trace.stacks;
        let forest =
            Forest::new(trace.classes.len(), &rows, |r| moved.get(&r).copied().unwrap_or(stacks.parent(r)));
        let alone = alone(&trace.activities);
        let launched = trace.launches().iter().flat_map(|(row, of)| {
            forest.position(row).into_iter().flat_map(move |p| of.iter().map(move |&i| (p, i)))
        });
        let below = WorkBelow::new(&forest, launched.collect(), &trace.activities, &alone);
        let n = forest.call_count();
        let mut ops: Vec<u32> = Vec::with_capacity(n);
        for p in 0..n as u32 {
            let is_op = trace.classes[forest.rows[p as usize] as usize] == Class::HostOp;
            let above = forest.parent(p).map_or(NOWHERE, |up| ops[up as usize]);
            ops.push(if is_op { p } else { above });
        }
        let mut host_ns: Vec<Ns> = forest.rows.iter().map(|&r| stacks.self_ns(r).unwrap_or(0)).collect();
        let mut host_api_ns = vec![0; n];
        // The owner of a call's time: the operator around it, or the call itself.
        let owner = |p: u32| if ops[p as usize] == NOWHERE { p } else { ops[p as usize] };
        for p in (0..n as u32).filter(|&p| ops[p as usize] != p) {
            host_api_ns[owner(p) as usize] += host_ns[p as usize];
        }
        forest.add_up(&mut host_ns);
        let mut own: Vec<(u32, u32)> = below.launched.iter().map(|&(p, i)| (owner(p), i)).collect();
        own.sort();
        let backward = Backward::new(trace);
        let mut bwd_gpu_ns = vec![0; if backward.pairs.is_empty() { 0 } else { n }];
        for &(forward, backward) in &backward.pairs {
            if let (Some(f), Some(b)) = (forest.position(forward), forest.position(backward)) {
                bwd_gpu_ns[f as usize] += below.at(b).sum_ns;
            }
        }
        if !bwd_gpu_ns.is_empty() {
            forest.add_up(&mut bwd_gpu_ns);
        }
        Self { forest, below, alone, ops, host_ns, host_api_ns, own, backward, bwd_gpu_ns }
    }

    /// Whether the event at a position is an operator.
    pub fn is_op(&self, position: u32) -> bool {
        self.ops[position as usize] == position
    }

    /// The innermost operator at or above a position.
    pub fn op(&self, position: u32) -> Option<u32> {
        Some(self.ops[position as usize]).filter(|&op| op != NOWHERE)
    }

    /// GPU time of the backward operators joined to operators at or below a position, ns.
    pub fn bwd_gpu_ns(&self, position: u32) -> Ns {
        self.bwd_gpu_ns.get(position as usize).copied().unwrap_or(0)
    }

    pub fn row(&self, position: u32) -> u32 {
        self.forest.rows[position as usize]
    }
}

/// Launches whose operator by definition (open when they start) differs from their parent in the tree, with
/// the operator to which they belong.
fn launches_that_outlast_their_operator(trace: &RankTrace) -> HashMap<u32, Option<u32>> {
    let c = &trace.columns;
    let mut moved: HashMap<u32, Option<u32>> = HashMap::new();
    let mut rows: Vec<u32> = trace.launches().iter().map(|l| l.0).collect();
    // Outer before inner, because what is inside a call moves with the call.
    sort_outer_first(&mut rows, c);
    for row in rows {
        let op = trace.launches().of(row).first().and_then(|&i| trace.activities[i as usize].op());
        let above = |r: u32| moved.get(&r).copied().unwrap_or(trace.stacks.parent(r));
        let mut at = above(row);
        while let Some(p) = at.filter(|&p| trace.classes[p as usize] != Class::HostOp) {
            at = above(p);
        }
        // an operator that starts with the call and is shorter lies inside it
        let key = |r: u32| (c.ts[r as usize], Reverse(c.dur[r as usize]), r);
        if at != op && op.is_none_or(|op| key(op) < key(row)) {
            moved.insert(row, op);
        }
    }
    moved
}
