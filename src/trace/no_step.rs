//! Annotations that repeat without being steps: collectives, their titles, pipeline schedules, loaders, optimizers.
//!
//! `record_comm` gives a collective any title. It is told by where its range lies:
//!
//! ```text
//!   operator       [c10d::allreduce_     )
//!   title             [all-reduce layer 0)      inside the operator, or around it with the shapes of its inputs
//! ```

use crate::trace::args::Arg;
use crate::trace::category::Class;
use crate::trace::events::Columns;
use crate::units::{Ns, Span};
use std::collections::BTreeMap;

/// Beginnings of names: of collectives, data loaders, optimizers, the profiler, and actions of torch's pipelines.
const BEGINNINGS: [&str; 8] = ["nccl:", "gloo:", "mpi:", "ucc:", "enumerate(", "Optimizer.", "PyTorch Profiler", "PP:"];

/// Whether annotations with this name repeat without being steps.
pub fn is_no_step(name: &str) -> bool {
    // NCCL marks its own calls, such as `ncclGroupEnd`, by ranges that nsys records.
    let is_nccl_call = name.strip_prefix("nccl").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    is_nccl_call || BEGINNINGS.iter().any(|p| name.starts_with(p))
}

/// The operators that call collectives.
pub struct CollectiveOps {
    /// By thread, the outer ones in order of time.
    by_lane: BTreeMap<u32, Vec<Span>>,
}

impl CollectiveOps {
    pub fn new(c: &Columns, classes: &[Class]) -> Self {
        let is_op: Vec<bool> =
            c.strings.iter().map(|(_, text)| text.starts_with("c10d::") || text == "record_param_comms").collect();
        let mut by_lane: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
        let is_named = |r: &usize| is_op.get(c.name(*r).0 as usize) == Some(&true);
        for row in (0..classes.len()).filter(|&r| classes[r] != Class::Annotation).filter(is_named) {
            by_lane.entry(c.lane[row]).or_default().push(c.span(row));
        }
        for spans in by_lane.values_mut() {
            spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
            let mut until = Ns::MIN;
            spans.retain(|s| {
                let is_outer = s.end > until;
                until = until.max(s.end);
                is_outer
            });
        }
        Self { by_lane }
    }

    /// Whether an annotation is the title of a collective.
    pub fn title(&self, c: &Columns, row: u32) -> bool {
        let Some(ops) = self.by_lane.get(&c.lane[row as usize]) else { return false };
        let range = c.span(row as usize);
        let from = ops.partition_point(|op| op.start < range.start);
        let holds = |op: Option<&Span>| op.is_some_and(|op| op.start <= range.start && op.end >= range.end);
        let is_in_range = |op: &Span| op.end <= range.end;
        holds(ops.get(from))
            || holds(from.checked_sub(1).and_then(|i| ops.get(i)))
            || (c.args.column(Arg::InputDims).get(row).is_some() && ops.get(from).is_some_and(is_in_range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::rank_trace::ModelOptions;
    use crate::trace::step_evidence::rank;
    use crate::trace::testing::{TraceBuilder, us};

    #[test]
    fn titles_of_collectives_and_actions_of_pipelines_are_no_steps() {
        for name in ["nccl:all_reduce", "ncclGroupEnd", "PP:0F3", "Optimizer.step#Adam.step"] {
            assert!(is_no_step(name), "{name}");
        }
        assert!(!is_no_step("ncclient 3") && !is_no_step("PPO step 3"));
    }

    #[test]
    fn an_annotation_inside_an_operator_that_calls_a_collective_is_its_title() {
        let of = |op: &str, op_at: i64, range_at: i64| {
            let mut t = TraceBuilder::new().rank(0);
            let mut main = t.thread(1);
            for k in 0..4 {
                let (op_at, range_at) = (100 * k + op_at, 100 * k + range_at);
                main.op(op, us(op_at)..us(100 * k + 90 - op_at % 100));
                main.annotation(&format!("FSDP::all_reduce {k}"), us(range_at)..us(100 * k + 90 - range_at % 100));
            }
            rank(&t, &ModelOptions::default()).steps.rule.name()
        };
        assert_eq!(of("c10d::allreduce_", 0, 10), "capture");
        // A user's range around a collective may be a step.
        assert_eq!(of("c10d::allreduce_", 10, 0), "annotation");
        assert_eq!(of("train::round", 10, 0), "annotation");
    }
}
