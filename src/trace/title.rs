//! Ranges that name a collective: `dist.record_comm` puts a title of the user in the place of the back end's
//! own name (`nccl:all_reduce`).
//!
//! A title can have any text, so it is told by where its range lies:
//!
//! ```text
//!   operator       [c10d::allreduce_               )
//!   title             [FSDP::all_reduce (layer0))         inside the operator, with inputs
//!   title       [FSDP::all_reduce (layer0)             )  around it, with the shapes of tensors
//! ```
//!
//! A title is communication, not a range of the user: never a step, and never host time of the user. Its text
//! says nothing about the kind of the collective. Ranges under the back end's own name stay annotations. A
//! range inside the operator without recorded inputs (a barrier's, or of a file without shapes) is an
//! annotation, but no step.

use crate::args::Arg;
use crate::category::Class;
use crate::collective::dtype::element_bytes;
use crate::events::Columns;
use crate::no_step::is_backend_range;
use crate::thread::outermost;
use hta_base::units::Span;
use std::collections::BTreeMap;

/// Whether an event is an operator that calls a collective.
pub fn is_collective_operator(class: Class, name: &str) -> bool {
    class == Class::HostOp && (name.starts_with("c10d::") || name == "record_param_comms")
}

/// Gives the titles of collectives their class.
pub(crate) fn mark(c: &Columns, classes: &mut [Class], ops: &CollectiveOps) {
    if ops.by_lane.is_empty() {
        return;
    }
    let can_be = c.strings.each(|text| !is_backend_range(text));
    for (row, class) in classes.iter_mut().enumerate().filter(|(_, class)| **class == Class::Annotation) {
        if can_be.holds(c.name(row))
            && c.args.column(Arg::InputDims).get(row as u32).is_some()
            && ops.has_title(c, row as u32)
        {
            *class = Class::Title;
        }
    }
}

/// The operators of a rank that call collectives.
pub(crate) struct CollectiveOps {
    /// By thread, in order of time, without operators that end inside an earlier one.
    by_lane: BTreeMap<u32, Vec<Span>>,
}

impl CollectiveOps {
    pub(crate) fn new(c: &Columns, classes: &[Class]) -> Self {
        let is_op = c.strings.each(|text| is_collective_operator(Class::HostOp, text));
        let mut by_lane: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
        if !is_op.holds_any() {
            return Self { by_lane };
        }
        let is_named = |r: &u32| classes[*r as usize] == Class::HostOp && is_op.holds(c.name(*r as usize));
        for row in outermost(c, (0..classes.len() as u32).filter(is_named).collect()) {
            by_lane.entry(c.lane[row as usize]).or_default().push(c.span(row as usize));
        }
        Self { by_lane }
    }

    /// Whether an annotation with inputs is the title of one of them.
    fn has_title(&self, c: &Columns, row: u32) -> bool {
        let (range, [_, next]) = (c.span(row as usize), self.around_start(c, row));
        self.hold(c, row) || (next.is_some_and(|op| op.end <= range.end) && has_tensors(c, row))
    }

    /// Whether an annotation lies inside one of them.
    pub(crate) fn hold(&self, c: &Columns, row: u32) -> bool {
        let range = c.span(row as usize);
        let holds = |op: Span| op.start <= range.start && op.end >= range.end;
        self.around_start(c, row).into_iter().flatten().any(holds)
    }

    /// The last of them that starts before a range of its thread, and the first that starts with it or later.
    fn around_start(&self, c: &Columns, row: u32) -> [Option<Span>; 2] {
        let ops = self.by_lane.get(&c.lane[row as usize]).map_or(&[][..], Vec::as_slice);
        let from = ops.partition_point(|op| op.start < c.ts[row as usize]);
        [from.checked_sub(1).and_then(|i| ops.get(i)).copied(), ops.get(from).copied()]
    }
}

/// Whether the recorded inputs of a range are tensors. A range of the user has none, or a text.
fn has_tensors(c: &Columns, row: u32) -> bool {
    let text = |arg| c.args.text(arg, row).map_or("", |id| c.strings.get(id));
    let has_shape = || text(Arg::InputDims).bytes().any(|b| b.is_ascii_digit());
    let has_type = || text(Arg::InputType).split('"').any(|name| element_bytes(name).is_some());
    has_shape() || has_type()
}
