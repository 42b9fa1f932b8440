//! The published what-if analysis: how much faster a pipeline-parallel training job would be if every
//! operation took its usual time, and which stage, data-parallel rank or kind of operation is the cause.
//!
//! Source: "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI'25. This
//! implementation exists to be comparable with the paper digit by digit. It knows the dependencies of only
//! one kind of program (see [`crate::osdi25::graph`]) and reads operations, not kernels.
//!
//! A step is replayed from time 0 along its dependencies, without launch delays:
//! - original: every operation keeps its own duration;
//! - ideal: every operation takes the usual duration of its kind over all workers, stages and steps: the mean
//!   for computing, the median for communication. Slowdown S = mean original step / mean ideal step;
//! - share of a group: mean step in which the group keeps its own durations and all others are ideal, divided
//!   by the mean ideal step;
//! - M_S: the last stage is ideal, all others keep their own durations. M_W: the same for the slowest 3 % of
//!   the workers. M is the part of (original - ideal) that this repair removes.
//!
//! Units: nanoseconds, as integers if measured and as f64 if replayed (a mean is not a whole number).
//!
//! Surprising: the ideal step is not the fastest one. Every stage gets the mean over stages, so a long last
//! stage makes the shares of the others less than 1, and repairing it gains more than the total: `M_S > 1`.
//! Communication must already be cut to its transfer part (end - last arrival), otherwise waits would count
//! twice.

use crate::osdi25::graph::{KINDS, Op, PublishedJob, StepGraph, Worker};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// S: mean original step divided by mean ideal step.
    pub(crate) slowdown: f64,
    pub(crate) measured_ns: f64,
    pub(crate) original_ns: f64,
    pub(crate) ideal_ns: f64,
    pub(crate) steps: Vec<StepTime>,
    /// Sorted by slowdown, largest first, like `by_dp_rank` and `by_op_type`.
    pub(crate) by_stage: Vec<SlowdownShare<u32>>,
    pub(crate) by_dp_rank: Vec<SlowdownShare<u32>>,
    pub(crate) by_op_type: Vec<SlowdownShare<&'static str>>,
    /// `None` if the original step is as fast as the ideal one, so that there is nothing to repair.
    pub(crate) m_s: Option<f64>,
    pub(crate) m_w: Option<f64>,
    /// The workers that M_W repairs.
    pub(crate) slowest_workers: Vec<Worker>,
    pub(crate) workers: usize,
    /// Number of operations in the replayed steps.
    pub(crate) ops: usize,
    pub(crate) left_out: Vec<UnreplayedStep>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTime {
    pub(crate) step: i64,
    /// First start to last end in the timeline, including launch delays, ns.
    pub(crate) measured_ns: i64,
    pub(crate) original_ns: f64,
    pub(crate) ideal_ns: f64,
}

#[derive(Clone, Debug)]
pub struct SlowdownShare<K> {
    pub(crate) of: K,
    pub(crate) slowdown: f64,
}

/// A step that cannot be replayed, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct UnreplayedStep {
    pub(crate) step: i64,
    pub(crate) reason: String,
}

pub(crate) fn analyse(ops: &[Op]) -> Result<Published, String> {
    let job = PublishedJob::of(ops)?;
    let mut by_step: BTreeMap<i64, Vec<Op>> = BTreeMap::new();
    for op in ops {
        by_step.entry(op.step).or_default().push(*op);
    }
    let (mut graphs, mut left_out) = (Vec::new(), Vec::new());
    for (step, ops) in by_step {
        match StepGraph::of(ops, &job) {
            Ok(graph) => graphs.push((step, graph)),
            Err(reason) => left_out.push(UnreplayedStep { step, reason }),
        }
    }
    if let (true, Some(UnreplayedStep { step, reason })) = (graphs.is_empty(), left_out.first()) {
        return Err(format!("none of {} steps can be replayed, step {step}: {reason}", left_out.len()));
    }

    let usual = usual_durations(graphs.iter().flat_map(|(_, graph)| &graph.ops));
    let replay = |own: &dyn Fn(&Op) -> bool| -> Vec<f64> {
        let dur = |op: &Op| if own(op) { op.dur as f64 } else { usual[op.kind as usize] };
        graphs.iter().map(|(_, graph)| graph.replay(dur)).collect()
    };
    let (original, ideal) = (replay(&|_| true), replay(&|_| false));
    let steps: Vec<StepTime> = (graphs.iter().zip(&original).zip(&ideal))
        .map(|(((step, graph), &original_ns), &ideal_ns)| StepTime {
            step: *step,
            measured_ns: graph.measured_ns(),
            original_ns,
            ideal_ns,
        })
        .collect();
    if let Some(s) = steps.iter().find(|s| s.ideal_ns <= 0.0) {
        return Err(format!("step {}: its operations take no time", s.step));
    }

    let share = |own: &dyn Fn(&Op) -> bool| mean(&replay(own)) / mean(&ideal);
    let by_stage = decompose(&job.stages, |&stage| share(&|op| op.worker.pp == stage));
    let by_dp_rank = decompose(&job.dp_ranks, |&dp| share(&|op| op.worker.dp == dp));
    let op_types = job.kinds.iter().map(|kind| kind.op_type()).collect();
    let by_op_type = decompose(&op_types, |&name| share(&|op| op.kind.op_type() == name));

    let (original_ns, ideal_ns) = (mean(&original), mean(&ideal));
    let gap = original_ns - ideal_ns;
    // A gap of the size of rounding errors is not a slowdown that could be repaired.
    let repair = |own: &dyn Fn(&Op) -> bool| {
        (gap.abs() > 1e-9 * ideal_ns).then(|| (original_ns - mean(&replay(own))) / gap)
    };
    let slowest_workers = slowest(&job.workers, &by_dp_rank, &by_stage);
    Ok(Published {
        slowdown: original_ns / ideal_ns,
        measured_ns: mean(&steps.iter().map(|s| s.measured_ns as f64).collect::<Vec<_>>()),
        original_ns,
        ideal_ns,
        m_s: repair(&|op| op.worker.pp != job.last_stage),
        m_w: repair(&|op| !slowest_workers.contains(&op.worker)),
        steps,
        by_stage,
        by_dp_rank,
        by_op_type,
        slowest_workers,
        workers: job.workers.len(),
        ops: graphs.iter().map(|(_, graph)| graph.ops.len()).sum(),
        left_out,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The usual duration of each kind: the mean for computing; the median for communication, which for an even
/// number is the mean of the middle two.
fn usual_durations<'a>(ops: impl Iterator<Item = &'a Op>) -> [f64; KINDS.len()] {
    let mut durations: [Vec<i64>; KINDS.len()] = Default::default();
    for op in ops {
        durations[op.kind as usize].push(op.dur);
    }
    let mut usual = [0.0; KINDS.len()];
    for (kind, ..) in KINDS {
        let of = &mut durations[kind as usize];
        of.sort_unstable();
        let half = of.len() / 2;
        let sum: i128 = of.iter().map(|&d| i128::from(d)).sum();
        usual[kind as usize] = match of.as_slice() {
            [] => continue,
            _ if kind.is_compute() => sum as f64 / of.len() as f64,
            sorted if sorted.len() % 2 == 1 => sorted[half] as f64,
            sorted => (sorted[half - 1] as f64 + sorted[half] as f64) / 2.0,
        };
    }
    usual
}

fn decompose<K: Copy>(groups: &BTreeSet<K>, share: impl Fn(&K) -> f64) -> Vec<SlowdownShare<K>> {
    let mut shares: Vec<_> =
        groups.iter().map(|of: &K| SlowdownShare { of: *of, slowdown: share(of) }).collect();
    shares.sort_by(|a, b| b.slowdown.total_cmp(&a.slowdown));
    shares
}

/// The slowest 3 % of the workers. A worker is as slow as the smaller of its rank's and its stage's share, so
/// no worker is replayed separately. Equally slow workers are sorted by stage, then rank.
fn slowest(
    workers: &BTreeSet<Worker>,
    by_dp_rank: &[SlowdownShare<u32>],
    by_stage: &[SlowdownShare<u32>],
) -> Vec<Worker> {
    let of =
        |shares: &[SlowdownShare<u32>], key| shares.iter().find(|s| s.of == key).map_or(0.0, |s| s.slowdown);
    let mut ranked: Vec<(f64, Worker)> =
        workers.iter().map(|w| (of(by_dp_rank, w.dp).min(of(by_stage, w.pp)), *w)).collect();
    ranked.sort_by(|a, b| {
        b.0.total_cmp(&a.0).then_with(|| (a.1.pp, a.1.dp, a.1.tp).cmp(&(b.1.pp, b.1.dp, b.1.tp)))
    });
    ranked.iter().take((workers.len() * 3).div_ceil(100)).map(|(_, worker)| *worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osdi25::graph::OpKind;
    use crate::osdi25::graph::OpKind::*;

    /// A job with two ranks of two stages and two microbatches. Forwards take 10 (14 on the last stage of
    /// rank 1), backwards take 20:
    ///
    /// ```text
    ///   rank 0   0    10   20        40   50   60   70        90  98
    ///   stage 0  [F0 ][F1 ]          [B0      ]     [B1      ]    [O]
    ///   stage 1       [F0 ][B0      ][F1 ][B1      ]              [O]
    ///
    ///   rank 1   0    10     24        44     58 64     78       98
    ///   stage 0  [F0 ][F1 ]            [B0      ]       [B1      ][O]
    ///   stage 1       [F0   ][B0      ][F1   ][B1      ]          [O]
    /// ```
    ///
    /// Messages take `transfer`, the gradient clipping joins all workers and takes no time, the optimizer (O)
    /// takes 5. The operations of rank 0 are given the starts of rank 1, because only the order of starts
    /// counts.
    fn tiny_job(step: i64, transfer: i64) -> Vec<Op> {
        let mut ops = Vec::new();
        for (dp, slow) in [(0, 10), (1, 14)] {
            let mut add =
                |pp, kind, ts, dur| ops.push(Op { worker: Worker { dp, pp, tp: 0 }, kind, step, ts, dur });
            for (kind, ts) in [(ForwardCompute, [0, 10]), (BackwardCompute, [44, 78])] {
                let dur = if kind == ForwardCompute { 10 } else { 20 };
                ts.into_iter().for_each(|ts| add(0, kind, ts, dur));
            }
            for (kind, ts, dur) in [(ForwardCompute, [10, 44], slow), (BackwardCompute, [24, 58], 20)] {
                ts.into_iter().for_each(|ts| add(1, kind, ts, dur));
            }
            for (pp, kind, ts) in [
                (0, ForwardSend, [10, 20]),
                (1, ForwardRecv, [10, 24]),
                (1, BackwardSend, [44, 78]),
                (0, BackwardRecv, [44, 78]),
            ] {
                ts.into_iter().for_each(|ts| add(pp, kind, ts, transfer));
            }
            for pp in [0, 1] {
                add(pp, OptimizerClipMainGrad, 98, 0);
                add(pp, Optimizer, 98, 5);
            }
        }
        ops
    }

    fn slowdown<K: PartialEq>(shares: &[SlowdownShare<K>], of: K) -> Option<f64> {
        shares.iter().find(|s| s.of == of).map(|s| s.slowdown)
    }

    #[test]
    fn a_slow_last_stage_is_found_and_repaired() -> Result<(), String> {
        let answer = analyse(&tiny_job(7, 0))?;
        // The ideal forward is (6 x 10 + 2 x 14) / 8 = 11; the ideal step is 11 + 11 + 20 + 11 + 20 + 20 + 5.
        assert_eq!((answer.original_ns, answer.ideal_ns, answer.measured_ns), (103.0, 98.0, 103.0));
        assert_eq!(answer.slowdown, 103.0 / 98.0);
        let by_stage: Vec<_> = answer.by_stage.iter().map(|s| (s.of, s.slowdown)).collect();
        assert_eq!(by_stage, [(1, 104.0 / 98.0), (0, 97.0 / 98.0)]);
        let by_dp_rank: Vec<_> = answer.by_dp_rank.iter().map(|s| (s.of, s.slowdown)).collect();
        assert_eq!(by_dp_rank, [(1, 103.0 / 98.0), (0, 1.0)]);
        assert_eq!(slowdown(&answer.by_op_type, "forward-compute"), Some(103.0 / 98.0));
        assert_eq!(slowdown(&answer.by_op_type, "backward-compute"), Some(1.0));
        assert_eq!(slowdown(&answer.by_op_type, "forward-pp-comm"), Some(1.0));
        // Either repair shortens 103 to 97, and the ideal is 98.
        assert_eq!((answer.m_s, answer.m_w), (Some(1.2), Some(1.2)));
        assert_eq!(answer.slowest_workers, [Worker { dp: 1, pp: 1, tp: 0 }]);
        assert_eq!((answer.workers, answer.ops, answer.steps.len(), answer.left_out.len()), (4, 40, 1, 0));
        Ok(())
    }

    #[test]
    fn a_message_delays_what_it_brings_but_not_its_sender() -> Result<(), String> {
        // On the critical path of rank 1 are the transfers of forward 0 and backward 1. The other messages
        // arrive while their receiver computes.
        assert_eq!(analyse(&tiny_job(7, 2))?.original_ns, 103.0 + 2.0 + 2.0);
        Ok(())
    }

    #[test]
    fn a_message_is_received_after_the_computation_before_it() -> Result<(), String> {
        // Only rank 1, with all forwards first. Stage 1 does not receive F1 at 20 but after F0, and stage 0
        // does not receive B1 at 82 but after B0:
        //   stage 0  F0 0-10 F1 10-20              B0 64-84 B1 86-106 O 106-111
        //   stage 1  F0 12-26 F1 28-42 B0 42-62 B1 62-82
        let mut ops = tiny_job(7, 2);
        ops.retain(|op| op.worker.dp == 1);
        let f1 = |op: &&mut Op| op.worker.pp == 1 && op.kind == ForwardCompute && op.ts == 44;
        ops.iter_mut().filter(f1).for_each(|op| op.ts = 20);
        assert_eq!(analyse(&ops)?.original_ns, 111.0);
        Ok(())
    }

    #[test]
    fn a_joined_operation_ends_at_the_last_start_plus_its_own_transfer() -> Result<(), String> {
        let mut ops = tiny_job(7, 0);
        // All clippings start at 98, also those of rank 0, which is ready at 90 and whose clipping takes 9.
        ops.iter_mut()
            .filter(|op| op.kind == OptimizerClipMainGrad && op.worker.dp == 0)
            .for_each(|op| op.dur = 9);
        assert_eq!(analyse(&ops)?.original_ns, 98.0 + 9.0 + 5.0);
        Ok(())
    }

    #[test]
    fn scattering_gradients_apart_hides_the_garbage_collector() -> Result<(), String> {
        let op = |(i, (kind, dur))| Op {
            worker: Worker { dp: 0, pp: 0, tp: 0 },
            kind,
            step: 7,
            ts: i as i64,
            dur,
        };
        let kinds = [(ForwardCompute, 10), (BackwardCompute, 20), (Gc, 3), (LayernormGradsAllReduce, 1)];
        let tail = [(GradsReduceScatter, 7), (Optimizer, 5)];
        let one_by_one: Vec<Op> = kinds.into_iter().chain(tail).enumerate().map(op).collect();
        assert_eq!(analyse(&one_by_one)?.original_ns, 10.0 + 20.0 + 3.0 + 1.0 + 7.0 + 5.0);
        let separate = [(SeparateGradsAllReduce, 2)];
        let apart: Vec<Op> = kinds.into_iter().chain(tail).chain(separate).enumerate().map(op).collect();
        assert_eq!(analyse(&apart)?.original_ns, 10.0 + 20.0 + 7.0 + 1.0 + 2.0 + 5.0);
        Ok(())
    }

    #[test]
    fn nothing_to_repair_when_all_are_alike() -> Result<(), String> {
        let mut ops = tiny_job(7, 0);
        ops.iter_mut().filter(|op| op.dur == 14).for_each(|op| op.dur = 10);
        let answer = analyse(&ops)?;
        assert_eq!((answer.slowdown, answer.m_s, answer.m_w), (1.0, None, None));
        Ok(())
    }

    #[test]
    fn a_step_that_misses_an_operation_is_left_out() -> Result<(), String> {
        let mut ops = [tiny_job(7, 0), tiny_job(8, 0)].concat();
        ops.retain(|op| !(op.step == 8 && op.kind == BackwardSend && op.ts == 44 && op.worker.dp == 1));
        let answer = analyse(&ops)?;
        assert_eq!((answer.steps.len(), answer.ops, answer.slowdown), (1, 40, 103.0 / 98.0));
        let left_out: Vec<_> = answer.left_out.iter().map(|l| (l.step, l.reason.as_str())).collect();
        assert_eq!(left_out, [(8, "dp 1 pp 1 tp 0: found 1 `backward-send`, expected 2")]);
        ops.retain(|op| op.step == 8);
        let message =
            "none of 1 steps can be replayed, step 8: dp 1 pp 1 tp 0: found 1 `backward-send`, expected 2";
        assert_eq!(analyse(&ops).err().as_deref(), Some(message));
        Ok(())
    }

    #[test]
    fn stages_that_wait_for_each_other_are_an_error_and_not_a_panic() {
        let mut ops = tiny_job(7, 0);
        // Stage 0 computes B0 before F1; stage 1 computes F1 before B0.
        for op in &mut ops {
            match (op.worker.pp, op.kind, op.ts) {
                (0, ForwardCompute, 10) => op.ts = 70,
                (1, ForwardCompute, 44) => op.ts = 20,
                _ => {}
            }
        }
        let error = analyse(&ops).err().unwrap_or_default();
        assert!(error.contains("wait for each other in a circle"), "{error}");
    }

    #[test]
    fn input_without_a_whole_job_is_refused() {
        assert_eq!(analyse(&[]).err().as_deref(), Some("no operations to replay"));
        let mut ops = tiny_job(7, 0);
        ops.retain(|op| op.worker != Worker { dp: 1, pp: 0, tp: 0 });
        let message = "found 3 workers, expected 2 data x 2 pipeline x 1 tensor ranks";
        assert_eq!(analyse(&ops).err().as_deref(), Some(message));
        ops = tiny_job(7, 0);
        ops.iter_mut().for_each(|op| op.dur = 0);
        assert_eq!(analyse(&ops).err().as_deref(), Some("step 7: its operations take no time"));
    }

    #[test]
    fn every_kind_is_found_by_its_name_and_listed_at_its_place() {
        for (i, (kind, name, _)) in KINDS.into_iter().enumerate() {
            assert_eq!((kind as usize, OpKind::parse(name), kind.name()), (i, Some(kind), name));
        }
        assert_eq!(OpKind::parse("forward"), None);
    }
}
