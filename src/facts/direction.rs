//! The part of a training step to which each operator belongs: forward, backward, optimizer, or forward work
//! that is repeated for the backward pass (activation checkpointing).
//!
//! ```text
//!   optimizer   inside an annotation `Optimizer.step#...` of its thread
//!   recompute   inside `evaluate_function: CheckpointFunctionBackward`, outside the nodes that it runs in turn;
//!               or during backward inside a Python frame of `torch/utils/checkpoint.py`, or an annotation
//!               that is named after recomputation
//!   backward    inside `autograd::engine::evaluate_function`, or it or an operator around it has the number of a
//!               forward thread, or a name ending in `Backward` and digits
//!   forward     everything else
//! ```

use crate::modules::around;
use crate::optimizer_steps::OptimizerSteps;
use hashbrown::{HashMap, HashSet};
use hta_base::stored_name;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Forward,
    Backward,
    Recompute,
    Optimizer,
}

stored_name!(Direction, Direction::ALL, name);

impl Direction {
    pub const ALL: [Direction; 4] =
        [Direction::Forward, Direction::Backward, Direction::Recompute, Direction::Optimizer];

    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
            Direction::Recompute => "recompute",
            Direction::Optimizer => "optimizer",
        }
    }

    /// PyProf's word.
    pub fn in_pyprof(self) -> &'static str {
        match self {
            Direction::Forward => "fprop",
            Direction::Backward => "bprop",
            Direction::Recompute => "recompute",
            Direction::Optimizer => "optimizer",
        }
    }
}

/// Directions by row of the operator.
pub struct Directions(HashMap<u32, Direction>);

/// Start of the names of the operators that autograd puts around the nodes of the backward pass.
const NODE: &str = "autograd::engine::evaluate_function";

/// What a name says about the operator and those inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameSays {
    Nothing,
    Checkpoint,
    Backward,
}

fn says(name: &str) -> NameSays {
    let is_node = name.starts_with(NODE);
    let is_backward = || name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("Backward");
    match is_node {
        true if name.contains("CheckpointFunctionBackward") => NameSays::Checkpoint,
        // The function that the node calls; some libraries have their own, with a name that begins otherwise.
        false if name.ends_with("CheckpointFunctionBackward") => NameSays::Checkpoint,
        true => NameSays::Backward,
        false if is_backward() => NameSays::Backward,
        false => NameSays::Nothing,
    }
}

impl Directions {
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    /// The direction of the operator at a row.
    pub fn at(&self, row: u32) -> Direction {
        self.0.get(&row).copied().unwrap_or(Direction::Forward)
    }

    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let said = c.strings.each(says);
        let optimizers = OptimizerSteps::of(trace);
        let recomputed = in_checkpoints(trace);
        let mut threads = c.args.cursor(Arg::FwdThread);
        let mut ops: Vec<u32> =
            (0..c.len() as u32).filter(|r| trace.classes[*r as usize] == Class::HostOp).collect();
        let numbered: HashSet<u32> =
            ops.iter().copied().filter(|r| threads.get(*r).is_some_and(|t| t as i64 > 0)).collect();
        // Outer before inner.
        ops.sort_by_key(|r| trace.stacks.depth(*r).unwrap_or(0));
        let mut found: HashMap<u32, Direction> = HashMap::new();
        for row in ops {
            let around = trace.stacks.parent(row).and_then(|p| found.get(&p)).copied();
            let own = said.get(c.name(row as usize)).copied().unwrap_or(NameSays::Nothing);
            let is_backward = own == NameSays::Backward || numbered.contains(&row);
            let direction = match (own, around) {
                _ if optimizers.is_in(trace, row) => Direction::Optimizer,
                // The node itself is part of the backward pass; what it runs is not, until another node
                // begins.
                (NameSays::Checkpoint, _) => Direction::Recompute,
                _ if is_backward => Direction::Backward,
                (_, Some(Direction::Backward)) if recomputed.contains(&row) => Direction::Recompute,
                (_, around) => around.unwrap_or(Direction::Forward),
            };
            if direction != Direction::Forward {
                found.insert(row, direction);
            }
        }
        Self(found)
    }
}

/// Operators inside Python frames of activation checkpointing, and inside ranges that are named so.
fn in_checkpoints(trace: &RankTrace) -> HashSet<u32> {
    let c = &trace.columns;
    let is_frame = c.strings.each(|text| text.contains("torch/utils/checkpoint.py"));
    let is_range = c.strings.each(|text| text.contains("recompute") || text.contains("Recompute"));
    let kinds = [(Class::Python, &is_frame), (Class::Annotation, &is_range)];
    if kinds.iter().all(|(_, named)| !named.holds_any()) {
        return HashSet::new();
    }
    let ops: Vec<u32> = (0..c.len() as u32).filter(|r| trace.classes[*r as usize] == Class::HostOp).collect();
    let mut out = HashSet::new();
    for (class, named) in kinds.into_iter().filter(|(_, named)| named.holds_any()) {
        let is_inside = |at: &u32| trace.stacks.outward(*at).any(|f| named.holds(c.name(f as usize)));
        let around = around(trace, &ops, class);
        out.extend(
            ops.iter().zip(around).filter(|(_, f)| f.as_ref().is_some_and(is_inside)).map(|(op, _)| *op),
        );
    }
    out
}
