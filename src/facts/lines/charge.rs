//! The line that is charged with something that an operator or call does: GPU work, an allocation.
//!
//! The backward pass runs on threads of autograd, where no user code is open. What happens under a backward
//! operator is charged to the line of its forward operator:
//!
//! ```text
//!   main thread   train.py:20  [aten::mm)
//!   autograd                               [MmBackward0.....)
//!                                             [launch)             charged to train.py:20, as backward
//! ```
//!
//! Of nested backward operators, as in activation checkpointing, the outermost one that was joined decides,
//! because only its forward operator ran in user code.

use crate::calls::CallForest;
use crate::lines::{LineId, Lines};
use hashbrown::HashMap;
use hta_base::units::Ns;

/// What is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    pub line: LineId,
    /// Whether it is charged for its backward pass.
    pub is_backward: bool,
    /// Thread and instant that the line belongs to: those of the forward operator for a backward pass.
    pub lane: u32,
    pub t: Ns,
    /// Row of that forward operator.
    pub forward: Option<u32>,
}

/// A launch call, and who is charged with what it launched.
pub struct ChargedLaunch<'a> {
    pub charge: Charge,
    /// Of the call in the forest of calls.
    pub position: Option<u32>,
    /// Start of the call, ns.
    pub start: Ns,
    pub activities: &'a [u32],
}

/// Charges of one rank.
pub struct Charging<'a> {
    lines: &'a Lines,
    /// By position in the call forest: the row of the forward operator of the outermost joined backward
    /// operator at or around it. Empty without backward operators.
    forward: Vec<Option<u32>>,
    /// Lane and start of each forward operator.
    places: HashMap<u32, (u32, Ns)>,
}

impl<'a> Charging<'a> {
    pub fn new(calls: &CallForest, lines: &'a Lines) -> Self {
        let pairs = &calls.backward.nodes;
        let mut forward: Vec<Option<u32>> =
            vec![None; if pairs.is_empty() { 0 } else { calls.forest.call_count() }];
        let mut places = HashMap::new();
        for &(of, backward) in pairs {
            let position = calls.forest.position(backward);
            if let Some(slot) = position.and_then(|p| forward.get_mut(p as usize)) {
                *slot = Some(of);
                let c = &calls.trace.columns;
                places.insert(of, (c.lane[of as usize], c.ts[of as usize]));
            }
        }
        for p in 0..forward.len() {
            let around =
                calls.forest.parent(p as u32).and_then(|up| forward.get(up as usize).copied().flatten());
            if around.is_some() {
                forward[p] = around;
            }
        }
        Self { lines, forward, places }
    }

    /// All launch calls.
    pub fn launches<'c>(&'c self, calls: &'c CallForest) -> impl Iterator<Item = ChargedLaunch<'c>> {
        let trace = calls.trace;
        trace.launches().iter().map(move |(call, activities)| {
            let (position, start) = (calls.forest.position(call), trace.columns.ts[call as usize]);
            let charge = self.of(trace.columns.lane[call as usize], start, position);
            ChargedLaunch { charge, position, start, activities }
        })
    }

    /// What is charged with something that happens at an instant of a thread, in the operator or call at a
    /// position.
    pub fn of(&self, lane: u32, t: Ns, position: Option<u32>) -> Charge {
        let row = position.and_then(|p| self.forward.get(p as usize).copied().flatten());
        let place = row.and_then(|row| self.places.get(&row)).copied();
        let (lane, t) = place.unwrap_or((lane, t));
        let forward = row.filter(|_| place.is_some());
        Charge { line: self.lines.at(lane, t), is_backward: forward.is_some(), lane, t, forward }
    }
}
