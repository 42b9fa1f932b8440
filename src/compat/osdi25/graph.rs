//! The pipeline-parallel training step of [`crate::osdi25::published`] as a graph: its operations, the
//! operations that each of them waits for, and the replay that computes the time of a step from durations.
//!
//! Units: nanoseconds, as integers if measured and as f64 if replayed.
//!
//! Surprising: the order in which a worker computes is taken from the measured starts and kept in every
//! replay, however the durations change. Kinds of operations that a job never records (reduce-scatter with
//! one data-parallel rank) are not needed, but a kind that it records must exist on every worker, or the step
//! cannot be replayed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Worker {
    pub(crate) dp: u32,
    /// The pipeline rank, which is the stage.
    pub(crate) pp: u32,
    pub(crate) tp: u32,
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dp {} pp {} tp {}", self.dp, self.pp, self.tp)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OpKind {
    ForwardCompute,
    BackwardCompute,
    ForwardSend,
    ForwardRecv,
    BackwardSend,
    BackwardRecv,
    ParamsAllGather,
    Gc,
    LayernormGradsAllReduce,
    EmbeddingGradsAllReduce,
    GradsReduceScatter,
    SeparateGradsAllReduce,
    OptimizerClipMainGrad,
    Optimizer,
}

use OpKind::*;

/// Each kind in the order of the enum, with its name in a timeline and the name under which its share is
/// published.
pub(super) const KINDS: [(OpKind, &str, &str); 14] = [
    (ForwardCompute, "forward-compute", "forward-compute"),
    (BackwardCompute, "backward-compute", "backward-compute"),
    (ForwardSend, "forward-send", "forward-pp-comm"),
    (ForwardRecv, "forward-recv", "forward-pp-comm"),
    (BackwardSend, "backward-send", "backward-pp-comm"),
    (BackwardRecv, "backward-recv", "backward-pp-comm"),
    (ParamsAllGather, "params-all-gather", "params-all-gather"),
    (Gc, "gc", "gc"),
    (LayernormGradsAllReduce, "layernorm-grads-all-reduce", "layernorm-grads-all-reduce"),
    (EmbeddingGradsAllReduce, "embedding-grads-all-reduce", "embedding-grads-all-reduce"),
    (GradsReduceScatter, "grads-reduce-scatter", "grads-reduce-scatter"),
    (SeparateGradsAllReduce, "separate-grads-all-reduce", "separate-grads-all-reduce"),
    (OptimizerClipMainGrad, "optimizer-clip-main-grad", "optimizer-clip-main-grad"),
    (Optimizer, "optimizer", "optimizer"),
];

impl OpKind {
    pub(crate) fn parse(name: &str) -> Option<OpKind> {
        KINDS.iter().find(|k| k.1 == name).map(|k| k.0)
    }

    pub(crate) fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// The name under which its share is published. The sends and receives of one direction share a name.
    pub(crate) fn op_type(self) -> &'static str {
        KINDS[self as usize].2
    }

    pub(super) fn is_compute(self) -> bool {
        matches!(self, ForwardCompute | BackwardCompute | Gc | Optimizer)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) worker: Worker,
    pub(crate) kind: OpKind,
    pub(crate) step: i64,
    pub(crate) ts: i64,
    /// Duration. For a joined operation, only the part after the arrival of its last member.
    pub(crate) dur: i64,
}

/// The workers, stages, ranks and kinds of operations that every step of the job must contain.
pub(super) struct PublishedJob {
    pub(super) workers: BTreeSet<Worker>,
    pub(super) stages: BTreeSet<u32>,
    pub(super) dp_ranks: BTreeSet<u32>,
    pub(super) last_stage: u32,
    pub(super) kinds: BTreeSet<OpKind>,
}

impl PublishedJob {
    pub(super) fn of(ops: &[Op]) -> Result<PublishedJob, String> {
        let workers: BTreeSet<Worker> = ops.iter().map(|op| op.worker).collect();
        let stages: BTreeSet<u32> = workers.iter().map(|w| w.pp).collect();
        let dp_ranks: BTreeSet<u32> = workers.iter().map(|w| w.dp).collect();
        let tp_ranks: BTreeSet<u32> = workers.iter().map(|w| w.tp).collect();
        let Some(&last_stage) = stages.last() else { return Err("no operations to replay".into()) };
        let (dp, pp, tp) = (dp_ranks.len(), last_stage as usize + 1, tp_ranks.len());
        if workers.len() != dp.saturating_mul(pp).saturating_mul(tp) {
            let found = workers.len();
            return Err(format!(
                "found {found} workers, expected {dp} data x {pp} pipeline x {tp} tensor ranks"
            ));
        }
        Ok(PublishedJob {
            workers,
            stages,
            dp_ranks,
            last_stage,
            kinds: ops.iter().map(|op| op.kind).collect(),
        })
    }

    /// Number of operations of `kind` that a worker needs in a step of `microbatches`, given that `found`
    /// were recorded.
    fn needed(&self, kind: OpKind, stage: u32, microbatches: usize, found: usize) -> usize {
        let (first, last) = (stage == 0, stage == self.last_stage);
        match kind {
            ForwardCompute | BackwardCompute => microbatches,
            ForwardSend | BackwardRecv => microbatches * usize::from(!last),
            ForwardRecv | BackwardSend => microbatches * usize::from(!first),
            Optimizer => 1,
            // The garbage collector may run at any time and place.
            Gc => found.min(1),
            EmbeddingGradsAllReduce => usize::from(self.kinds.contains(&kind) && (first || last)),
            _ => usize::from(self.kinds.contains(&kind)),
        }
    }
}

pub(super) struct StepGraph {
    /// Sorted by start. The other fields contain indices into this list.
    pub(super) ops: Vec<Op>,
    waits_for: Vec<Vec<usize>>,
    /// Groups of operations that transfer together, each after all groups that its members wait for.
    order: Vec<Vec<usize>>,
}

impl StepGraph {
    /// Builds the graph and sorts the joined groups by Kahn's algorithm: a group is ready when everything
    /// that any member waits for is done.
    pub(super) fn of(mut ops: Vec<Op>, job: &PublishedJob) -> Result<StepGraph, String> {
        ops.sort_by_key(|op| op.ts);
        let lanes = WorkerLanes::of(&ops);
        lanes.check_complete(job)?;
        let overlapped = job.kinds.contains(&SeparateGradsAllReduce);
        let mut waits_for = vec![Vec::new(); ops.len()];
        job.workers.iter().for_each(|&worker| lanes.add_waits(worker, overlapped, &mut waits_for));
        let mut joined = lanes.joined();

        let mut group_of = vec![0; ops.len()];
        for (g, members) in joined.iter().enumerate() {
            members.iter().for_each(|&op| group_of[op] = g);
        }
        let mut waiting = vec![0usize; joined.len()];
        let mut wakes = vec![Vec::new(); joined.len()];
        for (op, earlier) in waits_for.iter().enumerate() {
            waiting[group_of[op]] += earlier.len();
            earlier.iter().for_each(|&e| wakes[group_of[e]].push(group_of[op]));
        }
        let mut ready: Vec<usize> = (0..joined.len()).filter(|&g| waiting[g] == 0).collect();
        let mut order = Vec::with_capacity(joined.len());
        while let Some(g) = ready.pop() {
            order.push(std::mem::take(&mut joined[g]));
            for &woken in &wakes[g] {
                waiting[woken] -= 1;
                if waiting[woken] == 0 {
                    ready.push(woken);
                }
            }
        }
        match joined.iter().flatten().min() {
            None => Ok(StepGraph { ops, waits_for, order }),
            Some(&op) => {
                let (stuck, all) = (joined.iter().map(Vec::len).sum::<usize>(), ops.len());
                let (name, worker) = (ops[op].kind.name(), ops[op].worker);
                let first = format!("first `{name}` of {worker}");
                Err(format!(
                    "the operations wait for each other in a circle: {stuck} of {all} never start, {first}"
                ))
            }
        }
    }

    pub(super) fn replay(&self, dur: impl Fn(&Op) -> f64) -> f64 {
        let mut end = vec![0.0f64; self.ops.len()];
        for group in &self.order {
            let start = group.iter().flat_map(|&op| &self.waits_for[op]).fold(0.0f64, |t, &e| t.max(end[e]));
            for &op in group {
                end[op] = start + dur(&self.ops[op]);
            }
        }
        end.into_iter().fold(0.0, f64::max)
    }

    pub(super) fn measured_ns(&self) -> i64 {
        let start = self.ops.iter().map(|op| op.ts).min().unwrap_or(0);
        self.ops.iter().map(|op| op.ts.saturating_add(op.dur).saturating_sub(start)).max().unwrap_or(0)
    }
}

/// The operations of a step by worker and kind, as indices sorted by start.
struct WorkerLanes(BTreeMap<(Worker, OpKind), Vec<usize>>);

impl WorkerLanes {
    fn of(ops: &[Op]) -> WorkerLanes {
        let mut lanes: BTreeMap<(Worker, OpKind), Vec<usize>> = BTreeMap::new();
        for (i, op) in ops.iter().enumerate() {
            lanes.entry((op.worker, op.kind)).or_default().push(i);
        }
        WorkerLanes(lanes)
    }

    fn get(&self, worker: Worker, kind: OpKind) -> &[usize] {
        self.0.get(&(worker, kind)).map_or(&[], Vec::as_slice)
    }

    fn check_complete(&self, job: &PublishedJob) -> Result<(), String> {
        for &worker in &job.workers {
            let microbatches = self.get(Worker { pp: 0, ..worker }, ForwardCompute).len().max(1);
            for (kind, name, _) in KINDS {
                let found = self.get(worker, kind).len();
                let needed = job.needed(kind, worker.pp, microbatches, found);
                if found != needed {
                    return Err(format!("{worker}: found {found} `{name}`, expected {needed}"));
                }
            }
        }
        Ok(())
    }

    /// Adds the operations that each operation of a worker waits for. F and B are forward and backward
    /// computation:
    ///
    /// ```text
    ///   params-all-gather -> F0     recv k -> F k -> send k     F k-1 -> recv k     the same for B
    ///   all F and B form one chain by start; the sends and the receives of each direction form a chain each
    ///   F F F B ...      the first backward send and receive start after the second to last F before the first B
    ///     ^              (the receive is posted together with a forward send, one microbatch ahead)
    ///   last computation -> gc -> layernorm -> embedding -> reduce-scatter -> clip -> optimizer
    ///   with separate-grads-all-reduce, that is, if gradients are scattered during the computation:
    ///   last computation -> gc             -> layernorm -> embedding -> separate -> clip -> optimizer
    ///   last computation -> reduce-scatter -> layernorm
    /// ```
    fn add_waits(&self, worker: Worker, overlapped: bool, waits_for: &mut [Vec<usize>]) {
        let mut chain = |members: &mut dyn Iterator<Item = &usize>| {
            let mut previous = None;
            for &op in members {
                waits_for[op].extend(previous);
                previous = Some(op);
            }
        };
        let lane = |kind| self.get(worker, kind);
        let (forward, backward) = (lane(ForwardCompute), lane(BackwardCompute));
        let mut computing = [forward, backward].concat();
        computing.sort_unstable();
        chain(&mut computing.iter());
        for (computed, send, recv) in
            [(forward, ForwardSend, ForwardRecv), (backward, BackwardSend, BackwardRecv)]
        {
            chain(&mut lane(send).iter());
            chain(&mut lane(recv).iter());
            computed
                .iter()
                .zip(lane(send))
                .for_each(|(computed, sent)| chain(&mut [computed, sent].into_iter()));
            lane(recv)
                .iter()
                .zip(computed)
                .for_each(|(received, next)| chain(&mut [received, next].into_iter()));
            let later = lane(recv).iter().skip(1);
            computed
                .iter()
                .zip(later)
                .for_each(|(previous, received)| chain(&mut [previous, received].into_iter()));
        }
        let before = backward.first().map_or(0, |first| computing.partition_point(|op| op < first));
        if let Some(posted) = before.checked_sub(2).and_then(|i| computing.get(i)) {
            chain(&mut [posted].into_iter().chain(lane(BackwardSend).first()));
            chain(&mut [posted].into_iter().chain(lane(BackwardRecv).first()));
        }
        chain(&mut lane(ParamsAllGather).iter().chain(forward.first()));
        let tails: &[&[OpKind]] = match overlapped {
            false => &[&[Gc, LayernormGradsAllReduce, EmbeddingGradsAllReduce, GradsReduceScatter]],
            true => &[
                &[Gc, LayernormGradsAllReduce, EmbeddingGradsAllReduce, SeparateGradsAllReduce],
                &[
                    GradsReduceScatter,
                    LayernormGradsAllReduce,
                    EmbeddingGradsAllReduce,
                    SeparateGradsAllReduce,
                ],
            ],
        };
        for &tail in tails {
            let kinds = tail.iter().chain(&[OptimizerClipMainGrad, Optimizer]);
            chain(&mut computing.last().into_iter().chain(kinds.flat_map(|&kind| lane(kind))));
        }
    }

    /// Groups of operations that transfer together once the last of them has arrived: a send and its receive,
    /// embedding over the first and last stage, parameters and gradients over the data-parallel ranks of a
    /// stage, gradient clipping over all workers. Layernorm is not joined, as in the paper. A single
    /// operation is a group of one.
    fn joined(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (&(worker, kind), members) in &self.0 {
            let Worker { dp, pp, tp } = worker;
            for (k, &op) in members.iter().enumerate() {
                // A message has the key of its sender.
                let key = match kind {
                    ForwardRecv => (ForwardSend, dp, pp.wrapping_sub(1), tp, k),
                    BackwardRecv => (BackwardSend, dp, pp.wrapping_add(1), tp, k),
                    EmbeddingGradsAllReduce => (kind, dp, 0, tp, k),
                    ParamsAllGather | GradsReduceScatter | SeparateGradsAllReduce => (kind, 0, pp, tp, k),
                    OptimizerClipMainGrad => (kind, 0, 0, 0, k),
                    _ => (kind, dp, pp, tp, k),
                };
                groups.entry(key).or_default().push(op);
            }
        }
        groups.into_values().collect()
    }
}
