//! Annotations that repeat without being steps: collectives, their titles, pipeline schedules, loaders,
//! optimizers.
//!
//! `record_comm` gives a collective any title. It is told by where its range lies:
//!
//! ```text
//!   operator       [c10d::allreduce_     )
//!   title             [all-reduce layer 0)      inside the operator, or around it with the shapes of its inputs
//! ```

use crate::args::Arg;
use crate::category::Class;
use crate::events::Columns;
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// Beginnings of names: of collectives, data loaders, optimizers, the profiler, and actions of torch's
/// pipelines.
const BEGINNINGS: [&str; 8] =
    ["nccl:", "gloo:", "mpi:", "ucc:", "enumerate(", "Optimizer.", "PyTorch Profiler", "PP:"];

/// Whether annotations with this name repeat without being steps.
pub fn is_no_step(name: &str) -> bool {
    // NCCL marks its own calls, such as `ncclGroupEnd`, by ranges that nsys records.
    let is_nccl_call =
        name.strip_prefix("nccl").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    is_nccl_call || BEGINNINGS.iter().any(|p| name.starts_with(p))
}

/// The operators that call collectives.
pub(crate) struct CollectiveOps {
    /// By thread, the outer ones in order of time.
    by_lane: BTreeMap<u32, Vec<Span>>,
}

impl CollectiveOps {
    pub(crate) fn new(c: &Columns, classes: &[Class]) -> Self {
        let is_op: Vec<bool> = c
            .strings
            .iter()
            .map(|(_, text)| text.starts_with("c10d::") || text == "record_param_comms")
            .collect();
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
    pub(crate) fn title(&self, c: &Columns, row: u32) -> bool {
        let Some(ops) = self.by_lane.get(&c.lane[row as usize]) else { return false };
        let range = c.span(row as usize);
        let from = ops.partition_point(|op| op.start < range.start);
        let holds = |op: Option<&Span>| op.is_some_and(|op| op.start <= range.start && op.end >= range.end);
        holds(ops.get(from))
            || holds(from.checked_sub(1).and_then(|i| ops.get(i)))
            || (c.args.column(Arg::InputDims).get(row).is_some()
                && ops.get(from).is_some_and(|op: &Span| op.end <= range.end))
    }
}
